/* A finished turn on its way to disk: what is new of it, page by page. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/disk_folder.h"
#include "engine/metrics.h"
#include "engine/prefix_disk_internal.h"
#include "engine/session_table.h"
#include "engine/state_snapshot.h"

/* Turns that wait for the writer; more are given up, which is said. */
#define JOBS_MOST 1024
/* Of fixed state the last few of a path are kept: where the answer began and where it ended. */
#define CHECKPOINTS 2

struct save_job {
    struct save_job *next;
    int32_t *tokens, n;
    struct session *session; /* NULL: none */
};

/* The session is what it was before. */
static void give_up_session(struct prefix_disk *d, struct session *session,
                            struct session_file *pinned, const struct error *err)
{
    if (pinned)
        disk_store_unpin(d->store, pinned);
    metrics_count(d->metrics, COUNTER_DISK_ERRORS, 1);
    log_write(d->log, LOG_ERROR, "session %s: not saved: %s", session->name, err->message);
    session_save_end(disk_store_sessions(d->store), session, NULL, err);
}

void prefix_disk_save(struct prefix_disk *d, const int32_t *tokens, int32_t n,
                      struct session *session)
{
    if (!d->store || n <= 0 || !(session || d->folder->cache.path))
        return;
    if (session)
        session_save_begin(disk_store_sessions(d->store), session);
    if (d->n_jobs >= JOBS_MOST) {
        struct error err = { 0 };
        (void)error_set(&err, STATUS_EXHAUSTED, "%d turns wait for the disk", d->n_jobs);
        metrics_count(d->metrics, COUNTER_DISK_ERRORS, !session);
        log_write(d->log, LOG_WARNING, "disk cache: a turn of %d tokens is not kept: %s", n,
                  err.message);
        if (session)
            give_up_session(d, session, NULL, &err);
        return;
    }
    struct save_job *job = mem_new(struct save_job);
    job->tokens = mem_copy(tokens, (size_t)n * sizeof(*tokens));
    job->n = n;
    job->session = session;
    *d->jobs_end = job;
    d->jobs_end = &job->next;
    d->n_jobs++;
}

/* --- what is new ---------------------------------------------------------------------------- */

static int32_t tokens_at(int32_t level, int32_t n)
{
    return MIN(n - level * STATE_PAGE_TOKENS, STATE_PAGE_TOKENS);
}

/* A session relies on files of its own folder only. */
static bool is_kept(const struct prefix_node *n, enum state_kind kind, bool for_session)
{
    const struct disk_file *f = n->disk[kind].file;
    return f && (f->for_sessions || !for_session);
}

/* Nodes along the tokens, as far as their pages can be had; returns their number. */
static int32_t find_path(struct prefix_disk *d, const int32_t *tokens, int32_t n, bool for_session,
                         struct prefix_node **path)
{
    struct prefix_node *at = &d->tree->root;
    int32_t level = 0;
    for (; level * STATE_PAGE_TOKENS < n; level++) {
        at = prefix_tree_child(d->tree, at, tokens + level * STATE_PAGE_TOKENS, tokens_at(level, n),
                               false);
        if (!at || (d->tree->pool->has_full && at->page < 0 && !at->host_page &&
                    !is_kept(at, STATE_PAGED, for_session)))
            break;
        path[level] = at;
    }
    return level;
}

static bool is_new(const struct prefix_disk *d, const struct prefix_node *n, enum state_kind kind,
                   bool for_session)
{
    if (is_kept(n, kind, for_session) || d->shape.bytes[kind] == 0)
        return false;
    if (kind == STATE_PAGED)
        return n->page >= 0 || n->host_page;
    return kind == STATE_WINDOW ? n->sliding >= 0 || n->host_sliding : n->checkpoint != NULL;
}

/* Only the window of the end is kept of sliding pages: a continuation needs no more. */
static int32_t list_records(const struct prefix_disk *d, struct prefix_node **path,
                            int32_t n_levels, bool for_session, struct state_record *out)
{
    int32_t n_records = 0, first_checkpoint = n_levels, n_found = 0;
    while (first_checkpoint > 0 && n_found < CHECKPOINTS)
        n_found += path[--first_checkpoint]->checkpoint != NULL;
    int32_t end = (n_levels - 1) * STATE_PAGE_TOKENS + path[n_levels - 1]->n_tokens;
    int32_t first_sliding = MAX(end - d->tree->pool->window + 1, 0) / STATE_PAGE_TOKENS;
    for (int32_t i = 0; i < n_levels; i++)
        for (int k = 0; k < STATE_FILE_KINDS; k++) {
            enum state_kind kind = (enum state_kind)k;
            bool wanted = kind == STATE_PAGED || (kind == STATE_WINDOW && i >= first_sliding) ||
                          (kind == STATE_FIXED && i >= first_checkpoint);
            if (wanted && is_new(d, path[i], kind, for_session))
                out[n_records++] = (struct state_record){ .level = i,
                                                          .n_tokens = path[i]->n_tokens,
                                                          .kind = kind };
        }
    return n_records;
}

static void touch_path(struct prefix_node **path, int32_t n_levels)
{
    for (int32_t i = 0; i < n_levels; i++)
        for (int k = 0; k < STATE_FILE_KINDS; k++)
            if (path[i]->disk[k].file)
                disk_folder_touch(path[i]->disk[k].file);
}

static bool make_room(struct prefix_disk *d, const struct state_record *record, int32_t n,
                      int32_t n_tokens, struct error *err)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < n; i++)
        bytes += d->shape.bytes[record[i].kind];
    if (disk_folder_make_room(d->folder, bytes, d->tree->seconds_per_token))
        return true;
    (void)error_set(err, STATUS_LIMIT,
                    "a turn of %d tokens is not kept: expected at most %lld bytes beside the "
                    "named sessions, found %lld",
                    n_tokens, (long long)d->folder->limit, (long long)bytes);
    return false;
}

static void free_manifest(struct session_file *m)
{
    if (m)
        session_file_release(m);
    mem_free(m);
}

static void free_save(struct disk_save *save)
{
    free_manifest(save->manifest);
    mem_free(save->path);
    mem_free(save->tokens);
    mem_free(save->record);
    mem_free(save);
}

/* What of the path is on disk stays there: the session relies on it. */
static struct session_file *make_manifest(struct prefix_disk *d, struct session *session,
                                          struct prefix_node **path, int32_t n_levels)
{
    struct session_file *m = mem_new(struct session_file);
    m->model = mem_string(d->model, strlen(d->model));
    m->fingerprint = d->shape.fingerprint;
    m->updated = clock_unix();
    m->created = session->stored ? session->file.created : m->updated;
    m->client = json_incref(session->file.client);
    for (int32_t i = 0; i < n_levels; i++)
        for (int k = 0; k < STATE_FILE_KINDS; k++)
            if (is_kept(path[i], (enum state_kind)k, true))
                session_file_add(m, disk_folder_name_of(path[i]->disk[k].file));
    disk_store_pin(d->store, m);
    return m;
}

/* The next turn becomes d->save, unless all of it is on disk. */
static void begin(struct prefix_disk *d)
{
    struct save_job *job = d->jobs;
    d->jobs = job->next;
    if (!d->jobs)
        d->jobs_end = &d->jobs;
    d->n_jobs--;
    size_t most = (size_t)(job->n + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS;
    struct prefix_node **path = mem_array(struct prefix_node *, most);
    struct state_record *record = mem_array(struct state_record, most * STATE_FILE_KINDS);
    bool for_session = job->session != NULL;
    int32_t n_levels = find_path(d, job->tokens, job->n, for_session, path);
    int32_t n = n_levels > 0 ? list_records(d, path, n_levels, for_session, record) : 0;
    touch_path(path, n_levels);
    struct session_file *manifest =
        job->session ? make_manifest(d, job->session, path, n_levels) : NULL;
    mem_free(path);
    struct error err = { 0 };
    bool fits = n == 0 || make_room(d, record, n, job->n, &err);
    if (fits && (n > 0 || manifest)) {
        struct disk_save *save = mem_new(struct disk_save);
        save->session = job->session;
        save->manifest = manifest;
        save->path = disk_folder_new_path(d->folder, d->shape.fingerprint, for_session);
        save->shape = &d->shape;
        save->tokens = job->tokens;
        save->n_tokens = MIN(job->n, n_levels * STATE_PAGE_TOKENS);
        save->record = record;
        save->n_records = n;
        save->blocks = &d->save_blocks;
        d->save = save;
        d->n_copied = 0;
        d->closed = false;
    } else {
        if (manifest)
            give_up_session(d, job->session, manifest, &err);
        else if (!fits)
            log_write(d->log, LOG_WARNING, "disk cache: %s", err.message);
        free_manifest(manifest);
        mem_free(record);
        mem_free(job->tokens);
    }
    mem_free(job);
}

/* --- copying -------------------------------------------------------------------------------- */

static bool copy_block(struct prefix_disk *d, const struct state_record *r, uint8_t *out)
{
    struct prefix_node *n = prefix_disk_node(d, d->save->tokens, r->level, r->n_tokens, false);
    if (!n)
        return false;
    int32_t page = r->kind == STATE_PAGED ? n->page : r->kind == STATE_WINDOW ? n->sliding : -1;
    const uint8_t *copy = r->kind == STATE_PAGED    ? n->host_page
                          : r->kind == STATE_WINDOW ? n->host_sliding
                                                    : n->checkpoint;
    if (page >= 0)
        return state_snapshot_save(d->tree->pool, r->kind, page, out, NULL) == STATUS_OK;
    if (copy)
        memcpy(out, copy, (size_t)d->shape.bytes[r->kind]);
    return copy != NULL;
}

/* What was displaced in the meantime ends the turn before it. */
static void cut(struct disk_save *save, int32_t n_records)
{
    int32_t before = save->record[n_records].level * STATE_PAGE_TOKENS;
    save->n_records = n_records;
    if (n_records == 0) {
        save->n_tokens = MIN(save->n_tokens, before);
        return;
    }
    const struct state_record *last = &save->record[n_records - 1];
    save->n_tokens = MIN(save->n_tokens, last->level * STATE_PAGE_TOKENS + last->n_tokens);
}

static void copy_blocks(struct prefix_disk *d)
{
    struct disk_save *save = d->save;
    uint8_t *block = NULL;
    while (d->n_copied < save->n_records && (block = block_pool_take(&d->save_blocks)) != NULL) {
        if (copy_block(d, &save->record[d->n_copied], block)) {
            disk_store_write(d->store, save, d->n_copied++, block);
        } else {
            block_pool_give(&d->save_blocks, block);
            cut(save, d->n_copied);
        }
    }
    if (d->n_copied < save->n_records)
        return;
    d->closed = true;
    disk_store_write_end(d->store, save);
}

static void finish_session(struct prefix_disk *d, struct disk_save *save)
{
    const char *name = strrchr(save->path, '/') + 1;
    struct disk_file *f = save->written ? disk_folder_find(d->folder, name) : NULL;
    if (f && session_file_has(save->manifest, name))
        f->pins++; /* the others were pinned from the start */
    if (save->error.status != STATUS_OK) {
        give_up_session(d, save->session, save->manifest, &save->error);
        return;
    }
    disk_store_unpin(d->store, &save->session->file);
    session_save_end(disk_store_sessions(d->store), save->session, save->manifest, NULL);
    mem_free(save->manifest);
    save->manifest = NULL;
}

static void finish(struct prefix_disk *d)
{
    struct disk_save *save = d->save;
    d->save = NULL;
    if (save->error.status != STATUS_OK && !save->session) {
        metrics_count(d->metrics, COUNTER_DISK_ERRORS, 1);
        log_write(d->log, LOG_ERROR, "disk cache: a turn of %d tokens is not kept: %s",
                  save->n_tokens, save->error.message);
    } else if (save->written) {
        struct disk_file *f = disk_file_new(save->path, save->file_bytes, clock_unix());
        disk_file_set_records(f, save->record, save->n_records);
        save->record = NULL;
        disk_folder_add(d->folder, f);
        prefix_disk_attach(d, f, save->tokens);
        metrics_count(d->metrics, COUNTER_DISK_SAVES, 1);
        metrics_count(d->metrics, COUNTER_DISK_WRITTEN_BYTES, (uint64_t)save->file_bytes);
    }
    if (save->session)
        finish_session(d, save);
    prefix_disk_drop_idle_files(d);
    free_save(save);
}

void prefix_disk_step_saves(struct prefix_disk *d)
{
    while (d->save || d->jobs) {
        if (!d->save)
            begin(d);
        if (d->save && !d->closed)
            copy_blocks(d);
        if (d->save && !atomic_load(&d->save->done))
            return;
        if (d->save)
            finish(d);
    }
    block_pool_trim(&d->save_blocks);
}
