#include "engine/disk_store.h"

#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include "engine/disk_folder.h"
#include "engine/metrics.h"
#include "engine/session_table.h"

#define QUEUE_SAVES 4096 /* more than all pools have blocks */
#define QUEUE_FETCHES 4096

struct write_item {
    struct disk_save *save;
    int32_t index; /* -1: the end */
    uint8_t *block;
};

struct disk_store {
    struct disk_store_options options;
    struct disk_folder folder;
    struct session_table sessions;
    pthread_t writer, reader;
    struct queue saves, fetches;
    pthread_mutex_t lock;
    pthread_cond_t progress;
    uint64_t n_progress;
};

static void made_progress(struct disk_store *s)
{
    pthread_mutex_lock(&s->lock);
    s->n_progress++;
    pthread_cond_broadcast(&s->progress);
    pthread_mutex_unlock(&s->lock);
    s->options.wake(s->options.wake_user);
}

/* --- the writer thread ---------------------------------------------------------------------- */

static void write_block(struct disk_save *save, int32_t i, uint8_t *block)
{
    struct error *err = &save->error;
    enum status status = err->status;
    if (status == STATUS_OK && !save->writer)
        status = state_writer_open(&save->writer, save->path, err);
    if (status == STATUS_OK)
        status = state_writer_add(save->writer, &save->record[i], block,
                                  (size_t)save->shape->bytes[save->record[i].kind], err);
    err->status = status;
    block_pool_give(save->blocks, block);
}

/* Once its files are there. */
static enum status write_manifest(const struct disk_store *s, struct disk_save *save,
                                  struct error *err)
{
    struct session_file *m = save->manifest;
    if (save->n_records > 0)
        session_file_add(m, strrchr(save->path, '/') + 1);
    m->n_tokens = save->n_tokens;
    if (m->n_tokens == 0 || m->n_files == 0)
        return error_set(err, STATUS_EXHAUSTED, "its state was displaced before it was written");
    m->tokens = mem_copy(save->tokens, (size_t)m->n_tokens * sizeof(*m->tokens));
    return session_file_write(m, s->sessions.folder, save->session->name, err);
}

static void write_end(const struct disk_store *s, struct disk_save *save)
{
    struct error *err = &save->error;
    enum status status = err->status;
    if (save->writer && status == STATUS_OK && save->n_records > 0)
        status = state_writer_commit(save->writer, save->shape, save->tokens, save->n_tokens,
                                     save->record, save->n_records, &save->file_bytes, err);
    else
        state_writer_abort(save->writer);
    save->written = save->writer && status == STATUS_OK && save->n_records > 0;
    save->writer = NULL;
    if (status == STATUS_OK && save->manifest)
        status = write_manifest(s, save, err);
    err->status = status;
    atomic_store(&save->done, true);
}

static void *writer_main(void *argument)
{
    struct disk_store *s = argument;
    struct write_item item;
    while (queue_pop(&s->saves, &item) == STATUS_OK) {
        if (item.index >= 0)
            write_block(item.save, item.index, item.block);
        else
            write_end(s, item.save);
        made_progress(s);
    }
    return NULL;
}

void disk_store_write(struct disk_store *s, struct disk_save *save, int32_t i, uint8_t *block)
{
    struct write_item item = { save, i, block };
    CHECK(queue_push(&s->saves, &item) == STATUS_OK);
}

void disk_store_write_end(struct disk_store *s, struct disk_save *save)
{
    struct write_item item = { save, -1, NULL };
    CHECK(queue_push(&s->saves, &item) == STATUS_OK);
}

/* --- the reader thread ---------------------------------------------------------------------- */

static void read_blocks(struct disk_store *s, struct state_reader *reader, struct disk_fetch *f)
{
    for (int32_t i = 0; i < f->n && !atomic_load(&f->stop); i++) {
        struct disk_want *want = &f->want[i];
        want->block = block_pool_wait(f->blocks, &f->stop);
        if (!want->block)
            break;
        enum status status = state_reader_read(reader, want->path, &want->record, want->block,
                                               want->bytes, &f->error);
        if (status != STATUS_OK) {
            f->error.status = status;
            block_pool_give(f->blocks, want->block);
            want->block = NULL;
            break;
        }
        metrics_count(s->options.metrics, COUNTER_DISK_READ_BYTES, want->bytes);
        atomic_store(&f->n_read, i + 1);
        made_progress(s);
    }
    state_reader_close(reader);
    atomic_store(&f->done, true);
    made_progress(s);
}

static void *reader_main(void *argument)
{
    struct disk_store *s = argument;
    struct state_reader *reader = state_reader_new();
    struct disk_fetch *f;
    while (queue_pop(&s->fetches, &f) == STATUS_OK)
        read_blocks(s, reader, f);
    state_reader_free(reader);
    return NULL;
}

void disk_store_fetch(struct disk_store *s, struct disk_fetch *f)
{
    CHECK(queue_push(&s->fetches, &f) == STATUS_OK);
}

void disk_store_wait(struct disk_store *s)
{
    pthread_mutex_lock(&s->lock);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    uint64_t seen = s->n_progress;
    while (s->n_progress == seen && pthread_cond_timedwait(&s->progress, &s->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&s->lock);
}

/* --- life ----------------------------------------------------------------------------------- */

static enum status start_threads(struct disk_store *s, struct error *err)
{
    if (thread_start(&s->writer, writer_main, s) != 0)
        return error_set(err, STATUS_NO_MEMORY, "the disk cache's writer cannot be started");
    if (thread_start(&s->reader, reader_main, s) == 0)
        return STATUS_OK;
    queue_close(&s->saves);
    pthread_join(s->writer, NULL);
    return error_set(err, STATUS_NO_MEMORY, "the disk cache's reader cannot be started");
}

static void release(struct disk_store *s)
{
    session_table_release(&s->sessions);
    disk_folder_release(&s->folder);
    queue_release(&s->saves);
    queue_release(&s->fetches);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->progress);
    mem_free(s);
}

enum status disk_store_new(const struct disk_store_options *o, struct disk_store **out,
                           struct error *err)
{
    struct disk_store *s = mem_new(struct disk_store);
    s->options = *o;
    queue_init(&s->saves, QUEUE_SAVES, sizeof(struct write_item));
    queue_init(&s->fetches, QUEUE_FETCHES, sizeof(struct disk_fetch *));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->progress, NULL);
    enum status status = disk_folder_init(&s->folder, o->cache, o->sessions, o->limit, o->log, err);
    session_table_init(&s->sessions, disk_folder_of_sessions(&s->folder), s->folder.manifests,
                       o->log);
    for (const struct session *named = s->sessions.first; named; named = named->next) {
        disk_store_pin(s, &named->file);
        for (size_t i = 0; i < named->file.n_files; i++)
            disk_folder_reserve(&s->folder, named->file.file[i]);
    }
    (void)disk_folder_make_room(&s->folder, 0, 0);
    if (status == STATUS_OK)
        status = start_threads(s, err);
    if (status != STATUS_OK) {
        release(s);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

void disk_store_free(struct disk_store *s)
{
    if (!s)
        return;
    queue_close(&s->saves);
    queue_close(&s->fetches);
    pthread_join(s->writer, NULL);
    pthread_join(s->reader, NULL);
    release(s);
}

struct disk_folder *disk_store_folder(struct disk_store *s)
{
    return s->folder.cache.path || s->folder.sessions.path ? &s->folder : NULL;
}

struct session_table *disk_store_sessions(struct disk_store *s)
{
    return &s->sessions;
}

const char *disk_store_fault(const struct disk_store *s)
{
    return s->folder.manifests ? NULL : s->folder.fault;
}

static void change_pins(struct disk_store *s, const struct session_file *m, int by)
{
    for (size_t i = 0; i < m->n_files; i++) {
        struct disk_file *f = disk_folder_find(&s->folder, m->file[i]);
        if (f)
            f->pins += by;
    }
}

void disk_store_pin(struct disk_store *s, const struct session_file *f)
{
    change_pins(s, f, 1);
}

void disk_store_unpin(struct disk_store *s, const struct session_file *f)
{
    change_pins(s, f, -1);
}
