#include "engine/prefix_disk.h"

#include <string.h>

#include "base/mem.h"
#include "engine/disk_folder.h"
#include "engine/metrics.h"
#include "engine/prefix_disk_internal.h"
#include "engine/session_table.h"

#define BLOCK_BYTES (32u << 20) /* on their way to disk, and the same from there */

/* --- files and nodes ------------------------------------------------------------------------ */

struct prefix_node *prefix_disk_node(struct prefix_disk *d, const int32_t *tokens, int32_t level,
                                     int32_t n, bool make)
{
    struct prefix_node *at = &d->tree->root;
    for (int32_t i = 0; i < level && at; i++)
        at =
            prefix_tree_child(d->tree, at, tokens + i * STATE_PAGE_TOKENS, STATE_PAGE_TOKENS, make);
    return at ? prefix_tree_child(d->tree, at, tokens + level * STATE_PAGE_TOKENS, n, make) : NULL;
}

void prefix_disk_attach(struct prefix_disk *d, struct disk_file *f, const int32_t *tokens)
{
    f->tree = d->tree;
    for (int32_t i = 0; i < f->n_records; i++) {
        const struct state_record *r = &f->record[i];
        struct prefix_node *n = prefix_disk_node(d, tokens, r->level, r->n_tokens, true);
        struct disk_ref *ref = n ? &n->disk[r->kind] : NULL;
        if (ref && ref->file && f->for_sessions && !ref->file->for_sessions)
            disk_ref_drop(ref);
        if (ref && !ref->file)
            disk_ref_set(f, i, n);
    }
}

void prefix_disk_drop_idle_files(struct prefix_disk *d)
{
    for (struct disk_file *f = d->folder->files, *next; f; f = next) {
        next = f->next;
        if (f->tree == d->tree && f->n_live == 0 && f->pins == 0)
            disk_folder_remove(d->folder, f, true);
    }
}

void prefix_disk_lose_file(struct prefix_disk *d, struct disk_file *f, const struct error *err)
{
    bool is_damaged = err->status == STATUS_INVALID;
    metrics_count(d->metrics, COUNTER_DISK_ERRORS, 1);
    if (f->pins > 0) {
        log_write(d->log, LOG_ERROR, "disk cache: %s; named sessions need this file", err->message);
        session_table_damage(disk_store_sessions(d->store), disk_folder_name_of(f), err->message);
        disk_file_detach(f);
        return;
    }
    log_write(d->log, LOG_ERROR, "disk cache: %s%s", err->message,
              is_damaged ? "; the file is removed and its tokens are computed again" : "");
    disk_folder_remove(d->folder, f, is_damaged);
}

static void read_index(struct prefix_disk *d, struct disk_file *f)
{
    struct state_file index;
    struct error err = { 0 };
    if (state_file_open(&index, f->path, &d->shape, &err) != STATUS_OK) {
        prefix_disk_lose_file(d, f, &err);
        return;
    }
    disk_file_set_records(f, index.record, index.n_records);
    index.record = NULL;
    prefix_disk_attach(d, f, index.tokens);
    state_file_release(&index);
}

/* --- life ----------------------------------------------------------------------------------- */

void prefix_disk_init(struct prefix_disk *d, struct disk_store *store, struct prefix_tree *tree,
                      const struct state_shape *shape, const struct log_sink *log,
                      struct engine_metrics *metrics)
{
    *d = (struct prefix_disk){ .tree = tree, .log = log, .metrics = metrics, .shape = *shape };
    if (!store || !disk_store_folder(store))
        return;
    d->store = store;
    d->folder = disk_store_folder(store);
    d->jobs_end = &d->jobs;
    d->n_evicted = d->folder->n_evicted;
    size_t largest = 1;
    for (int i = 0; i < STATE_FILE_KINDS; i++)
        largest = MAX(largest, (size_t)shape->bytes[i]);
    block_pool_init(&d->save_blocks, largest, BLOCK_BYTES);
    block_pool_init(&d->fetch_blocks, largest, BLOCK_BYTES);
    for (struct disk_file *f = d->folder->files, *next; f; f = next) {
        next = f->next;
        if (!f->tree && disk_folder_is_of(f, shape->fingerprint))
            read_index(d, f);
    }
    prefix_disk_drop_idle_files(d);
}

void prefix_disk_release(struct prefix_disk *d)
{
    if (!d->store)
        return;
    for (struct prefix_fetch *f = d->fetches; f; f = f->next)
        CHECK(f->dropped); /* no request is left */
    block_pool_wake(&d->fetch_blocks);
    for (prefix_disk_step(d); d->save || d->jobs || d->fetches; prefix_disk_step(d))
        disk_store_wait(d->store);
    for (struct disk_file *f = d->folder->files; f; f = f->next)
        if (f->tree == d->tree)
            disk_file_detach(f);
    block_pool_release(&d->save_blocks);
    block_pool_release(&d->fetch_blocks);
    *d = (struct prefix_disk){ 0 };
}

void prefix_disk_step(struct prefix_disk *d)
{
    if (!d->store)
        return;
    if (d->fetches)
        prefix_disk_step_fetches(d);
    if (d->save || d->jobs)
        prefix_disk_step_saves(d);
    metrics_count(d->metrics, COUNTER_EVICTIONS_DISK, d->folder->n_evicted - d->n_evicted);
    d->n_evicted = d->folder->n_evicted;
}
