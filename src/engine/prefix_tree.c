#include "engine/prefix_tree.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/state_snapshot.h"

void prefix_tree_init(struct prefix_tree *t, struct state_pool *pool, int64_t host_budget)
{
    *t =
        (struct prefix_tree){ .pool = pool, .host_budget = host_budget, .seconds_per_token = 1e-3 };
    size_t n = (size_t)pool->pages_per_sequence + 1;
    t->path = mem_array(struct prefix_node *, n);
    t->tail = mem_array(struct prefix_node *, n);
    t->page_bytes = state_snapshot_bytes(pool, STATE_PAGED);
    t->sliding_bytes = state_snapshot_bytes(pool, STATE_WINDOW);
    t->slot_bytes = state_snapshot_bytes(pool, STATE_FIXED);
    t->root.page = t->root.sliding = -1;
    /* A sliding page that leaves the window does so at its start. */
    for (enum prefix_order_kind i = 0; i < PREFIX_ORDERS; i++)
        prefix_order_init(&t->order[i], i, i != PREFIX_ORDER_SLIDING);
    pool->keeper = (struct page_keeper){ prefix_reclaim, prefix_give_up, t };
}

static void let_go(struct state_pool *p, enum state_kind kind, int32_t *page)
{
    if (*page >= 0)
        page_group_let_go(state_pool_group(p, kind), *page);
    *page = -1;
}

void prefix_node_remove(struct prefix_tree *t, struct prefix_node *n)
{
    CHECK(!n->child && n->parent);
    if (n->previous)
        n->previous->next = n->next;
    else
        n->parent->child = n->next;
    if (n->next)
        n->next->previous = n->previous;
    for (int i = 0; i < PREFIX_ORDERS; i++)
        prefix_order_drop(&t->order[i], n);
    let_go(t->pool, STATE_PAGED, &n->page);
    let_go(t->pool, STATE_WINDOW, &n->sliding);
    prefix_host_drop(t, &n->host_page, t->page_bytes);
    prefix_host_drop(t, &n->host_sliding, t->sliding_bytes);
    prefix_host_drop(t, &n->checkpoint, t->slot_bytes);
    for (int i = 0; i < STATE_FILE_KINDS; i++)
        disk_ref_drop(&n->disk[i]);
    t->counts.n_nodes--;
    mem_free(n);
}

void prefix_tree_release(struct prefix_tree *t)
{
    if (!t->pool)
        return;
    for (struct prefix_node *n = &t->root; n->child || n->parent;) {
        struct prefix_node *parent = n->parent;
        if (n->child) {
            n = n->child;
            continue;
        }
        prefix_node_remove(t, n);
        n = parent;
    }
    for (int i = 0; i < PREFIX_ORDERS; i++)
        prefix_order_release(&t->order[i]);
    t->pool->keeper = (struct page_keeper){ 0 };
    mem_free(t->path);
    mem_free(t->tail);
    *t = (struct prefix_tree){ 0 };
}

/* --- finding -------------------------------------------------------------------------------- */

static int32_t common_tokens(const struct prefix_node *n, const int32_t *tokens, int32_t most)
{
    int32_t i = 0, end = MIN(n->n_tokens, most);
    while (i < end && n->token[i] == tokens[i])
        i++;
    return i;
}

static bool has_page(const struct prefix_tree *t, const struct prefix_node *n)
{
    return !t->pool->has_full || n->page >= 0 || n->host_page ||
           (t->sees_disk && n->disk[STATE_PAGED].file);
}

static bool has_sliding(const struct prefix_tree *t, const struct prefix_node *n)
{
    return n->sliding >= 0 || n->host_sliding || (t->sees_disk && n->disk[STATE_WINDOW].file);
}

static bool has_checkpoint(const struct prefix_tree *t, const struct prefix_node *n)
{
    return n->checkpoint || (t->sees_disk && n->disk[STATE_FIXED].file);
}

/* Fills path (the best child of each level) and tail (one that ends there in a checkpoint). */
static int32_t walk(struct prefix_tree *t, const int32_t *tokens, int32_t most,
                    struct prefix_match *match)
{
    struct prefix_node *at = &t->root;
    int32_t level = 0;
    while (level * STATE_PAGE_TOKENS < most) {
        int32_t depth = level * STATE_PAGE_TOKENS, best = -1;
        t->path[level] = t->tail[level] = NULL;
        for (struct prefix_node *c = at->child; c; c = c->next) {
            int32_t n = common_tokens(c, tokens + depth, most - depth);
            if (n > best) {
                best = n;
                t->path[level] = c;
            }
            struct prefix_node *tail = t->tail[level];
            if (n == c->n_tokens && n < STATE_PAGE_TOKENS && has_checkpoint(t, c) &&
                (!tail || tail->n_tokens < n))
                t->tail[level] = c;
        }
        at = t->path[level];
        match->n_common = depth + MAX(best, 0);
        if (!at)
            return level;
        level++;
        if (best < STATE_PAGE_TOKENS) {
            match->differs = best < at->n_tokens && match->n_common < most ? at : NULL;
            match->differs_at = best;
            return best > 0 || t->tail[level - 1] ? level : level - 1;
        }
    }
    return level;
}

/* The last checkpoint at or before `bound`; its node becomes the end of the path. */
static int32_t last_checkpoint(struct prefix_tree *t, int32_t n_levels, int32_t bound)
{
    for (int32_t i = n_levels - 1; i >= 0; i--) {
        struct prefix_node *tail = t->tail[i], *whole = t->path[i];
        int32_t depth = i * STATE_PAGE_TOKENS;
        if (whole && has_checkpoint(t, whole) && whole->n_tokens == STATE_PAGE_TOKENS &&
            depth + STATE_PAGE_TOKENS <= bound)
            return depth + STATE_PAGE_TOKENS;
        if (tail && depth + tail->n_tokens <= bound) {
            t->path[i] = tail;
            return depth + tail->n_tokens;
        }
    }
    return 0;
}

/* The last page before token n that a continuation needs and that is gone; -1: none. */
static int32_t missing_page(const struct prefix_tree *t, int32_t n)
{
    const struct state_pool *p = t->pool;
    int32_t seen = p->has_window ? MAX(n - p->window + 1, 0) : n;
    for (int32_t i = (n - 1) / STATE_PAGE_TOKENS; i >= 0; i--)
        if (!has_page(t, t->path[i]) ||
            (p->has_window && (i + 1) * STATE_PAGE_TOKENS > seen && !has_sliding(t, t->path[i])))
            return i;
    return -1;
}

struct prefix_match prefix_tree_find(struct prefix_tree *t, const int32_t *tokens, int32_t most)
{
    struct prefix_match match = { 0 };
    most = MIN(most, t->pool->options.context);
    int32_t n_levels = most > 0 ? walk(t, tokens, most, &match) : 0;
    int32_t n = match.n_common;
    while (n > 0) {
        if (t->pool->has_fixed)
            n = last_checkpoint(t, n_levels, n);
        int32_t missing = n > 0 ? missing_page(t, n) : -1;
        if (missing < 0)
            break;
        n = missing * STATE_PAGE_TOKENS;
    }
    match.n_tokens = n;
    return match;
}

struct prefix_match prefix_tree_find_stored(struct prefix_tree *t, const int32_t *tokens,
                                            int32_t most)
{
    t->sees_disk = true;
    struct prefix_match match = prefix_tree_find(t, tokens, most);
    t->sees_disk = false;
    return match;
}

/* --- taking over ---------------------------------------------------------------------------- */

/* A page on the device, from the copy in host memory if need be. EXHAUSTED: no page is free. */
static enum status bring_back(struct prefix_tree *t, enum state_kind kind, int32_t *page,
                              uint8_t **copy, bool *from_host, struct error *err)
{
    if (*page >= 0)
        return STATUS_OK;
    int32_t taken = state_pool_take_page(t->pool, kind);
    if (taken < 0)
        return STATUS_EXHAUSTED;
    enum status status = state_snapshot_load(t->pool, kind, taken, *copy, err);
    struct page_group *g = state_pool_group(t->pool, kind);
    if (status == STATUS_OK) {
        page_group_keep(g, taken);
        *page = taken;
        prefix_host_drop(t, copy, kind == STATE_PAGED ? t->page_bytes : t->sliding_bytes);
        t->counts.restored_pages++;
        *from_host = true;
    } else {
        page_group_drop(g, taken);
    }
    return status;
}

static enum status take_level(struct prefix_tree *t, int32_t i, int32_t first_sliding,
                              struct sequence *to, bool *from_host, struct error *err)
{
    struct state_pool *p = t->pool;
    struct prefix_node *n = t->path[i];
    to->page[i] = to->sliding_page[i] = -1;
    bool came = n->page < 0;
    if (p->has_full) {
        TRY(bring_back(t, STATE_PAGED, &n->page, &n->host_page, from_host, err));
        to->page[i] = n->page;
        if (!came)
            page_group_share(&p->full, n->page);
    }
    to->n_pages = i + 1;
    if (!p->has_window || i < first_sliding)
        return STATUS_OK;
    came = n->sliding < 0;
    TRY(bring_back(t, STATE_WINDOW, &n->sliding, &n->host_sliding, from_host, err));
    to->sliding_page[i] = n->sliding;
    if (!came)
        page_group_share(&p->sliding, n->sliding);
    return STATUS_OK;
}

static enum status take_path(struct prefix_tree *t, int32_t n, struct sequence *to, bool *from_host,
                             struct error *err)
{
    struct state_pool *p = t->pool;
    int32_t n_levels = (n + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS;
    int32_t first_sliding = p->has_window ? MAX(n - p->window + 1, 0) / STATE_PAGE_TOKENS : 0;
    for (int32_t i = 0; i < n_levels; i++)
        TRY(take_level(t, i, first_sliding, to, from_host, err));
    if (p->has_fixed)
        TRY(state_snapshot_load(p, STATE_FIXED, to->slot, t->path[n_levels - 1]->checkpoint, err));
    to->n_past = n;
    to->first_sliding = MIN(first_sliding, n_levels);
    return STATUS_OK;
}

enum status prefix_tree_take(struct prefix_tree *t, const int32_t *tokens, int32_t most,
                             struct sequence *to, struct prefix_match *match, bool *from_host,
                             struct error *err)
{
    CHECK(to->slot >= 0 && to->n_pages == 0);
    *from_host = false;
    *match = prefix_tree_find(t, tokens, most);
    if (match->n_tokens == 0)
        return STATUS_OK;
    int32_t n_levels = (match->n_tokens + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS;
    t->now_ns = clock_ns();
    for (int32_t i = 0; i < n_levels; i++) {
        t->path[i]->pinned++;
        t->path[i]->used_ns = t->now_ns;
    }
    enum status status = take_path(t, match->n_tokens, to, from_host, err);
    for (int32_t i = 0; i < n_levels; i++) {
        t->path[i]->pinned--;
        prefix_node_moved(t, t->path[i]);
    }
    if (status != STATUS_OK) {
        sequence_empty(to, t->pool);
        match->n_tokens = 0;
        if (t->pool->has_fixed)
            TRY(state_pool_clear_slot(t->pool, to->slot, err));
    }
    return status == STATUS_EXHAUSTED ? STATUS_OK : status;
}

/* --- adding --------------------------------------------------------------------------------- */

static struct prefix_node *new_node(struct prefix_tree *t, struct prefix_node *parent,
                                    int32_t level, const int32_t *tokens, int32_t n)
{
    struct prefix_node *node = mem_new(struct prefix_node);
    node->parent = parent;
    node->next = parent->child;
    if (node->next)
        node->next->previous = node;
    parent->child = node;
    node->n_tokens = n;
    node->level = level;
    node->page = node->sliding = -1;
    memcpy(node->token, tokens, (size_t)n * sizeof(*tokens));
    t->counts.n_nodes++;
    return node;
}

/* Node and sequence hold the same tokens: afterwards they hold the same page. */
static void merge(struct prefix_tree *t, enum state_kind kind, int32_t *node_page, uint8_t **copy,
                  int32_t *own)
{
    struct page_group *g = state_pool_group(t->pool, kind);
    if (*own < 0 || *own == *node_page)
        return;
    if (*node_page >= 0) {
        page_group_share(g, *node_page);
        page_group_drop(g, *own);
        *own = *node_page;
        return;
    }
    if (g->kept[*own]) /* the tree has it under other tokens: a page written to after that */
        return;
    page_group_keep(g, *own);
    *node_page = *own;
    prefix_host_drop(t, copy, kind == STATE_PAGED ? t->page_bytes : t->sliding_bytes);
}

static void merge_pages(struct prefix_tree *t, struct prefix_node *n, int32_t level,
                        struct sequence *s)
{
    n->used_ns = t->now_ns;
    if (t->pool->has_full)
        merge(t, STATE_PAGED, &n->page, &n->host_page, &s->page[level]);
    if (t->pool->has_window)
        merge(t, STATE_WINDOW, &n->sliding, &n->host_sliding, &s->sliding_page[level]);
    prefix_node_moved(t, n);
}

/* A leaf whose tokens are the beginning of a sibling's tells nothing new. */
static void drop_covered(struct prefix_tree *t, struct prefix_node *by)
{
    struct prefix_node *c = by->parent->child;
    while (c) {
        struct prefix_node *next = c->next;
        if (c != by && c->n_tokens < by->n_tokens && !c->checkpoint && !c->pinned &&
            !c->disk[STATE_FIXED].file &&
            common_tokens(c, by->token, c->n_tokens) == c->n_tokens)
            prefix_node_remove(t, c);
        c = next;
    }
}

static struct prefix_node *child_with(struct prefix_node *parent, const int32_t *tokens, int32_t n)
{
    for (struct prefix_node *c = parent->child; c; c = c->next)
        if (c->n_tokens == n && common_tokens(c, tokens, n) == n)
            return c;
    return NULL;
}

/* Returns the node of the last whole page; NULL: something on the way could not be kept. */
static struct prefix_node *add_pages(struct prefix_tree *t, const int32_t *tokens, int32_t n,
                                     struct sequence *s)
{
    struct prefix_node *at = &t->root;
    t->now_ns = clock_ns();
    for (int32_t i = 0; i < n / STATE_PAGE_TOKENS; i++) {
        const int32_t *here = tokens + i * STATE_PAGE_TOKENS;
        struct prefix_node *node = child_with(at, here, STATE_PAGE_TOKENS);
        bool fresh = !node;
        if (fresh)
            node = new_node(t, at, i, here, STATE_PAGE_TOKENS);
        merge_pages(t, node, i, s);
        if (fresh)
            drop_covered(t, node);
        at = node;
    }
    return at;
}

void prefix_tree_add(struct prefix_tree *t, const int32_t *tokens, int32_t n, struct sequence *s)
{
    add_pages(t, tokens, n, s);
}

static bool is_covered(const struct prefix_node *parent, const int32_t *tokens, int32_t n)
{
    for (const struct prefix_node *c = parent->child; c; c = c->next)
        if (common_tokens(c, tokens, n) == n)
            return true;
    return false;
}

struct prefix_node *prefix_tree_child(struct prefix_tree *t, struct prefix_node *parent,
                                      const int32_t *tokens, int32_t n, bool make)
{
    struct prefix_node *node = child_with(parent, tokens, n);
    if (node || !make)
        return node;
    if (n < STATE_PAGE_TOKENS && !t->pool->has_fixed && is_covered(parent, tokens, n))
        return NULL;
    node = new_node(t, parent, parent == &t->root ? 0 : parent->level + 1, tokens, n);
    drop_covered(t, node);
    return node;
}

enum status prefix_tree_add_end(struct prefix_tree *t, const int32_t *tokens, int32_t n,
                                struct sequence *s, bool checkpoint, struct error *err)
{
    struct prefix_node *at = add_pages(t, tokens, n, s);
    int32_t level = n / STATE_PAGE_TOKENS, rest = n % STATE_PAGE_TOKENS;
    checkpoint &= t->pool->has_fixed;
    if (rest > 0) {
        const int32_t *here = tokens + level * STATE_PAGE_TOKENS;
        struct prefix_node *node = child_with(at, here, rest);
        if (!node && (t->pool->has_fixed ? !checkpoint : is_covered(at, here, rest)))
            return STATUS_OK;
        if (!node)
            node = new_node(t, at, level, here, rest);
        merge_pages(t, node, level, s);
        drop_covered(t, node);
        at = node;
    }
    if (!checkpoint || at->checkpoint || at == &t->root)
        return STATUS_OK;
    at->pinned++;
    uint8_t *block = prefix_host_take(t, t->slot_bytes);
    at->pinned--;
    if (!block) {
        prefix_prune(t, at);
        return STATUS_OK;
    }
    enum status status = state_snapshot_save(t->pool, STATE_FIXED, s->slot, block, err);
    if (status == STATUS_OK)
        at->checkpoint = block;
    else
        prefix_host_drop(t, &block, t->slot_bytes);
    prefix_node_moved(t, at);
    return status;
}
