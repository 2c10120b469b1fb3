/* Saved state on its way back: read and verified by the store, put on the device here. */
#include <string.h>

#include "base/mem.h"
#include "engine/disk_folder.h"
#include "engine/prefix_disk_internal.h"
#include "engine/state_snapshot.h"

/* --- what is wanted ------------------------------------------------------------------------- */

static bool in_memory(const struct prefix_node *n, enum state_kind kind)
{
    if (kind == STATE_PAGED)
        return n->page >= 0 || n->host_page;
    return kind == STATE_WINDOW ? n->sliding >= 0 || n->host_sliding : n->checkpoint != NULL;
}

static void add_want(const struct prefix_disk *d, struct prefix_fetch *f, struct prefix_node *n,
                     enum state_kind kind)
{
    const struct disk_ref *ref = &n->disk[kind];
    if (d->shape.bytes[kind] == 0 || in_memory(n, kind) || !ref->file)
        return;
    f->io.want[f->io.n++] = (struct disk_want){
        .path = mem_string(ref->file->path, strlen(ref->file->path)),
        .record = ref->file->record[ref->record],
        .bytes = (size_t)d->shape.bytes[kind],
        .node = n,
    };
}

static void list_wants(struct prefix_disk *d, struct prefix_fetch *f, int32_t n_tokens)
{
    const struct state_pool *p = d->tree->pool;
    int32_t first_sliding = MAX(n_tokens - p->window + 1, 0) / STATE_PAGE_TOKENS;
    for (int32_t i = 0; i < f->n_path; i++) {
        struct prefix_node *n = f->path[i];
        if (p->has_full)
            add_want(d, f, n, STATE_PAGED);
        if (p->has_window && i >= first_sliding)
            add_want(d, f, n, STATE_WINDOW);
        if (p->has_fixed && i == f->n_path - 1)
            add_want(d, f, n, STATE_FIXED);
    }
}

static void free_fetch(struct prefix_fetch *f)
{
    for (int32_t i = 0; i < f->io.n; i++)
        mem_free(f->io.want[i].path);
    mem_free(f->io.want);
    mem_free(f->path);
    mem_free(f);
}

struct prefix_fetch *prefix_disk_fetch(struct prefix_disk *d, const int32_t *tokens, int32_t most,
                                       bool *busy)
{
    *busy = false;
    if (!d->store)
        return NULL;
    int32_t known = prefix_tree_find(d->tree, tokens, most).n_tokens;
    struct prefix_match match = prefix_tree_find_stored(d->tree, tokens, most);
    if (match.n_tokens <= known)
        return NULL;
    struct prefix_fetch *f = mem_new(struct prefix_fetch);
    f->n_path = (match.n_tokens + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS;
    f->path = mem_array(struct prefix_node *, (size_t)f->n_path);
    memcpy(f->path, d->tree->path, (size_t)f->n_path * sizeof(struct prefix_node *));
    f->io.want = mem_array(struct disk_want, (size_t)f->n_path * STATE_FILE_KINDS);
    f->io.blocks = &d->fetch_blocks;
    list_wants(d, f, match.n_tokens);
    for (int32_t i = 0; i < f->io.n; i++)
        *busy |= f->io.want[i].node->pinned > 0;
    if (*busy || f->io.n == 0) {
        free_fetch(f);
        return NULL;
    }
    for (int32_t i = 0; i < f->n_path; i++) {
        f->path[i]->pinned++;
        for (int k = 0; k < STATE_FILE_KINDS; k++)
            if (f->path[i]->disk[k].file)
                disk_folder_touch(f->path[i]->disk[k].file);
    }
    f->next = d->fetches;
    d->fetches = f;
    disk_store_fetch(d->store, &f->io);
    return f;
}

/* --- what has come -------------------------------------------------------------------------- */

/* False: there is no room for it. */
static bool put_page(struct prefix_disk *d, enum state_kind kind, int32_t *page,
                     const uint8_t *block)
{
    struct page_group *g = state_pool_group(d->tree->pool, kind);
    int32_t taken = state_pool_take_page(d->tree->pool, kind);
    if (taken < 0)
        return false;
    if (state_snapshot_load(d->tree->pool, kind, taken, block, NULL) != STATUS_OK) {
        page_group_drop(g, taken);
        return false;
    }
    page_group_keep(g, taken);
    page_group_drop(g, taken); /* nobody but the tree owns it */
    *page = taken;
    return true;
}

static bool put_block(struct prefix_disk *d, const struct disk_want *want)
{
    struct prefix_node *n = want->node;
    if (in_memory(n, want->record.kind))
        return true;
    if (want->record.kind == STATE_PAGED)
        return put_page(d, STATE_PAGED, &n->page, want->block);
    if (want->record.kind == STATE_WINDOW)
        return put_page(d, STATE_WINDOW, &n->sliding, want->block);
    n->checkpoint = prefix_host_take(d->tree, d->shape.bytes[STATE_FIXED]);
    if (n->checkpoint)
        memcpy(n->checkpoint, want->block, want->bytes);
    return n->checkpoint != NULL;
}

static void take_blocks(struct prefix_disk *d, struct prefix_fetch *f)
{
    while (f->n_taken < atomic_load(&f->io.n_read)) {
        struct disk_want *want = &f->io.want[f->n_taken++];
        if (!atomic_load(&f->io.stop) && !put_block(d, want))
            atomic_store(&f->io.stop, true);
        prefix_node_moved(d->tree, want->node);
        block_pool_give(&d->fetch_blocks, want->block);
        want->block = NULL;
    }
}

static void note_failure(struct prefix_disk *d, struct prefix_fetch *f)
{
    if (f->io.error.status == STATUS_OK)
        return;
    const struct disk_want *want = &f->io.want[f->n_taken];
    struct disk_file *file = want->node->disk[want->record.kind].file;
    if (file && strcmp(file->path, want->path) == 0)
        prefix_disk_lose_file(d, file, &f->io.error);
}

/* From the end, so that nodes which hold nothing go before their parents. */
static void unpin(struct prefix_disk *d, struct prefix_fetch *f)
{
    for (int32_t i = f->n_path - 1; i >= 0; i--) {
        struct prefix_node *n = f->path[i];
        n->pinned--;
        prefix_prune(d->tree, n);
    }
}

static void end(struct prefix_disk *d, struct prefix_fetch *f)
{
    f->over = true;
    if (f->dropped)
        return;
    note_failure(d, f);
    unpin(d, f);
}

void prefix_disk_step_fetches(struct prefix_disk *d)
{
    struct prefix_fetch **link = &d->fetches;
    while (*link) {
        struct prefix_fetch *f = *link;
        bool done = atomic_load(&f->io.done); /* before n_read is looked at */
        if (!f->over)
            take_blocks(d, f);
        if (done && !f->over)
            end(d, f);
        if (f->over) {
            *link = f->next;
            if (f->dropped)
                free_fetch(f);
        } else {
            link = &f->next;
        }
    }
    if (!d->fetches)
        block_pool_trim(&d->fetch_blocks);
}

bool prefix_fetch_over(const struct prefix_fetch *f)
{
    return f->over;
}

int32_t prefix_fetch_blocks(const struct prefix_fetch *f)
{
    return f->n_taken;
}

void prefix_disk_drop_fetch(struct prefix_disk *d, struct prefix_fetch *f)
{
    if (!f)
        return;
    if (f->over) {
        free_fetch(f);
        return;
    }
    f->dropped = true; /* its nodes are looked at no more: others may need their pages */
    unpin(d, f);
    atomic_store(&f->io.stop, true);
    block_pool_wake(&d->fetch_blocks);
}
