#include <math.h>

#include "base/mem.h"
#include "engine/prefix_tree.h"
#include "engine/state_snapshot.h"

/* Idle time after which a part of the cache counts half. */
#define HALF_LIFE_SECONDS 600.0
/* Pages given back at once: the parents of the first are next in line anyway. */
#define RECLAIM_PAGES 16

double prefix_value(int32_t tokens_saved, double seconds_per_token, double idle_seconds,
                    int64_t bytes)
{
    double recency = exp2(-fmin(idle_seconds, 1e5) / HALF_LIFE_SECONDS);
    return tokens_saved * seconds_per_token * recency / (double)MAX(bytes, 1);
}

double prefix_rank(int32_t tokens_saved, double used_seconds, int64_t bytes)
{
    return log2(prefix_value(tokens_saved, 1, 0, bytes)) + used_seconds / HALF_LIFE_SECONDS;
}

/* --- host memory ---------------------------------------------------------------------------- */

void prefix_host_drop(struct prefix_tree *t, uint8_t **block, int64_t bytes)
{
    if (!*block)
        return;
    mem_release_pages(*block, (size_t)bytes);
    t->counts.host_bytes -= bytes;
    *block = NULL;
}

static int64_t host_bytes(const struct prefix_tree *t, const struct prefix_node *n)
{
    return (n->host_page ? t->page_bytes : 0) + (n->host_sliding ? t->sliding_bytes : 0) +
           (n->checkpoint ? t->slot_bytes : 0);
}

static void place(struct prefix_tree *t, struct prefix_node *n, enum prefix_order_kind kind,
                  bool there, int64_t bytes)
{
    double used = (double)n->used_ns * 1e-9;
    if (there)
        prefix_order_put(&t->order[kind], n, prefix_rank(n->n_tokens, used, bytes));
    else
        prefix_order_drop(&t->order[kind], n);
}

void prefix_node_moved(struct prefix_tree *t, struct prefix_node *n)
{
    int64_t bytes = host_bytes(t, n);
    place(t, n, PREFIX_ORDER_PAGES, n->page >= 0, t->page_bytes);
    place(t, n, PREFIX_ORDER_SLIDING, n->sliding >= 0, t->sliding_bytes);
    place(t, n, PREFIX_ORDER_HOST, bytes > 0, bytes);
}

/* The first node of an order that may go. Those before it are few: somebody uses them. */
static struct prefix_node *first_that(struct prefix_tree *t, enum prefix_order_kind kind,
                                      bool (*may_go)(struct prefix_tree *, struct prefix_node *))
{
    struct prefix_node *aside = NULL, *found;
    while ((found = prefix_order_first(&t->order[kind])) && !may_go(t, found)) {
        prefix_order_drop(&t->order[kind], found);
        found->aside = aside;
        aside = found;
    }
    for (; aside; aside = aside->aside)
        prefix_node_moved(t, aside);
    return found;
}

static bool has_pinned_child(const struct prefix_node *n)
{
    for (const struct prefix_node *c = n->child; c; c = c->next)
        if (c->pinned)
            return true;
    return false;
}

static bool is_on_disk(const struct prefix_node *n)
{
    for (int i = 0; i < STATE_FILE_KINDS; i++)
        if (n->disk[i].file)
            return true;
    return false;
}

void prefix_prune(struct prefix_tree *t, struct prefix_node *n)
{
    while (n->parent && !n->child && !n->pinned && n->page < 0 && n->sliding < 0 &&
           host_bytes(t, n) == 0 && !is_on_disk(n)) {
        struct prefix_node *parent = n->parent;
        prefix_node_remove(t, n);
        n = parent;
    }
}

static bool holds_up(const struct prefix_node *n)
{
    return n->child && !n->disk[STATE_PAGED].file;
}

/* Without a copy on disk an inner page holds up what lies below it, so only leaves lose theirs; a
 * checkpoint or a sliding page may go anywhere. */
static bool may_lose_copy(struct prefix_tree *t, struct prefix_node *n)
{
    return host_bytes(t, n) > 0 && !n->pinned && !has_pinned_child(n) &&
           (!holds_up(n) || n->checkpoint || n->host_sliding);
}

static bool drop_least(struct prefix_tree *t)
{
    struct prefix_node *worst = first_that(t, PREFIX_ORDER_HOST, may_lose_copy);
    if (!worst)
        return false;
    t->counts.dropped_host++;
    if (!worst->child && worst->host_page && !is_on_disk(worst)) {
        struct prefix_node *parent = worst->parent;
        prefix_node_remove(t, worst);
        prefix_prune(t, parent);
        return true;
    }
    if (!holds_up(worst))
        prefix_host_drop(t, &worst->host_page, t->page_bytes);
    prefix_host_drop(t, &worst->host_sliding, t->sliding_bytes);
    prefix_host_drop(t, &worst->checkpoint, t->slot_bytes);
    prefix_node_moved(t, worst);
    prefix_prune(t, worst);
    return true;
}

void prefix_tree_limit(struct prefix_tree *t, int64_t host_budget)
{
    t->host_budget = host_budget;
    while (t->counts.host_bytes > host_budget && drop_least(t)) {
    }
}

uint8_t *prefix_host_take(struct prefix_tree *t, int64_t bytes)
{
    if (bytes > t->host_budget)
        return NULL;
    while (t->counts.host_bytes + bytes > t->host_budget)
        if (!drop_least(t))
            return NULL;
    uint8_t *block = mem_try_pages((size_t)bytes);
    if (block)
        t->counts.host_bytes += bytes;
    return block;
}

/* --- pages of the device -------------------------------------------------------------------- */

static bool is_idle(const struct prefix_tree *t, const struct prefix_node *n, enum state_kind kind)
{
    int32_t page = kind == STATE_PAGED ? n->page : n->sliding;
    return page >= 0 && page_group_is_idle(state_pool_group(t->pool, kind), page);
}

static bool has_resident_child(const struct prefix_node *n)
{
    for (const struct prefix_node *c = n->child; c; c = c->next)
        if (c->page >= 0)
            return true;
    return false;
}

static void remove_below(struct prefix_tree *t, struct prefix_node *n)
{
    while (n->child) {
        struct prefix_node *leaf = n->child;
        while (leaf->child)
            leaf = leaf->child;
        t->counts.dropped_host += host_bytes(t, leaf) > 0;
        prefix_node_remove(t, leaf);
    }
    prefix_node_remove(t, n);
}

/* NULL: the budget or the device refused. */
static uint8_t *copy_to_host(struct prefix_tree *t, enum state_kind kind, int32_t page)
{
    int64_t bytes = kind == STATE_PAGED ? t->page_bytes : t->sliding_bytes;
    uint8_t *block = prefix_host_take(t, bytes);
    if (block && state_snapshot_save(t->pool, kind, page, block, NULL) != STATUS_OK)
        prefix_host_drop(t, &block, bytes);
    return block;
}

/* The device's page of a node goes back; a node without any copy goes, too. */
static void displace(struct prefix_tree *t, struct prefix_node *n, enum state_kind kind)
{
    bool full = kind == STATE_PAGED;
    int32_t *page = full ? &n->page : &n->sliding;
    uint8_t **copy = full ? &n->host_page : &n->host_sliding;
    n->pinned++; /* making room for the copy must not drop the node itself */
    if (!*copy)
        *copy = copy_to_host(t, kind, *page);
    n->pinned--;
    if (*copy)
        t->counts.spilled_pages++;
    else
        t->counts.dropped_pages++;
    page_group_let_go(state_pool_group(t->pool, kind), *page);
    *page = -1;
    prefix_node_moved(t, n);
    if (full && !n->host_page && !n->disk[STATE_PAGED].file && !n->pinned)
        remove_below(t, n);
    else
        prefix_prune(t, n);
}

/* What a sequence uses is used now, however long ago it took it over. */
static bool may_lose(struct prefix_tree *t, struct prefix_node *n, enum state_kind kind)
{
    bool idle = is_idle(t, n, kind);
    if (!idle)
        n->used_ns = MAX(n->used_ns, t->now_ns);
    return idle && !n->pinned;
}

static bool may_lose_page(struct prefix_tree *t, struct prefix_node *n)
{
    return may_lose(t, n, STATE_PAGED) && !has_resident_child(n);
}

static bool may_lose_sliding(struct prefix_tree *t, struct prefix_node *n)
{
    return may_lose(t, n, STATE_WINDOW);
}

static struct prefix_node *least_idle(struct prefix_tree *t, enum state_kind kind)
{
    if (state_pool_group(t->pool, kind)->n_idle == 0)
        return NULL;
    return kind == STATE_PAGED ? first_that(t, PREFIX_ORDER_PAGES, may_lose_page)
                               : first_that(t, PREFIX_ORDER_SLIDING, may_lose_sliding);
}

bool prefix_reclaim(void *tree, enum state_kind kind)
{
    struct prefix_tree *t = tree;
    bool any = false;
    struct prefix_node *n = least_idle(t, kind);
    for (int i = 0; i < RECLAIM_PAGES && n; i++) {
        struct prefix_node *parent = n->parent;
        uint64_t used = n->used_ns;
        displace(t, n, kind);
        any = true;
        bool on = kind == STATE_PAGED && parent->parent && parent->used_ns <= used &&
                  !parent->pinned && is_idle(t, parent, kind) && !has_resident_child(parent);
        n = on ? parent : NULL;
    }
    return any;
}

void prefix_give_up(void *tree, enum state_kind kind, int32_t page)
{
    struct prefix_tree *t = tree;
    bool full = kind == STATE_PAGED;
    const struct prefix_order *o = &t->order[full ? PREFIX_ORDER_PAGES : PREFIX_ORDER_SLIDING];
    for (int32_t i = 0; i < o->n; i++) {
        struct prefix_node *n = o->heap[i].node;
        if ((full ? n->page : n->sliding) != page)
            continue;
        displace(t, n, kind);
        return;
    }
}
