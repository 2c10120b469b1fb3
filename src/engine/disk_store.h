/* disk_store: the threads that read and write saved state, and the folder of a disk cache.
 *
 *   engine thread                      writer thread            reader thread
 *   disk_save: blocks, one by one -->  compress, write, fsync
 *   disk_fetch: a list of blocks  ------------------------->    read, verify
 *   <-- `wake` after each block and at the end ---------------
 *
 * Neither thread touches a tree, and the engine thread never waits for one: blocks are bounded by
 * the pools that they come from.
 * Ownership: saves and fetches are the caller's; a save or fetch must not be freed before it is
 * done. Threads: the engine thread, or whoever holds the device lock. */
#ifndef ENGINE_DISK_STORE_H
#define ENGINE_DISK_STORE_H

#include <stdatomic.h>

#include "base/log.h"
#include "engine/block_pool.h"
#include "engine/disk_file.h"
#include "engine/state_file.h"

struct disk_store;
struct disk_folder;   /* engine/disk_folder.h */
struct session_table; /* engine/session_table.h */
struct session;
struct session_file;
struct engine_metrics;

struct disk_store_options {
    const char *cache, *sessions; /* as disk_folder_init takes them */
    int64_t limit;                /* bytes of their files */
    const struct log_sink *log;
    struct engine_metrics *metrics;
    void (*wake)(void *user);
    void *wake_user;
};

/* CONFLICT: another process uses the folder. A folder that cannot be made or written to is only
 * logged: requests are served without it. */
MUST_CHECK enum status disk_store_new(const struct disk_store_options *o, struct disk_store **out,
                                      struct error *err);
void disk_store_free(struct disk_store *s); /* NULL is allowed; no save or fetch is left */
struct disk_folder *disk_store_folder(struct disk_store *s); /* NULL: there is none */
struct session_table *disk_store_sessions(struct disk_store *s);
const char *disk_store_fault(const struct disk_store *s); /* why it has none; NULL: it has */
/* The files of a session stay as long as it is pinned. */
void disk_store_pin(struct disk_store *s, const struct session_file *f);
void disk_store_unpin(struct disk_store *s, const struct session_file *f);

/* --- saving --------------------------------------------------------------------------------- */

struct disk_save {
    char *path;
    const struct state_shape *shape;
    int32_t *tokens, n_tokens;
    struct state_record *record; /* [n_records] */
    int32_t n_records;
    struct block_pool *blocks;
    struct session *session;       /* that it is for; NULL: none */
    struct session_file *manifest; /* of it; the writer completes and writes it */
    /* Results, valid once `done`. */
    atomic_bool done;
    struct error error; /* status OK: all is there */
    bool written;       /* the file is, even if the manifest is not */
    int64_t file_bytes;
    struct state_writer *writer; /* the writer thread's */
};

/* Hands over the block of record[i], in order. */
void disk_store_write(struct disk_store *s, struct disk_save *save, int32_t i, uint8_t *block);
/* Nothing follows: n_tokens and n_records are final. */
void disk_store_write_end(struct disk_store *s, struct disk_save *save);

/* --- fetching ------------------------------------------------------------------------------- */

struct disk_want {
    char *path; /* the fetch's */
    struct state_record record;
    size_t bytes; /* of the block */
    struct prefix_node *node;
    uint8_t *block; /* filled */
};

struct disk_fetch {
    struct disk_fetch *next;
    struct disk_want *want; /* [n] */
    int32_t n;
    struct block_pool *blocks;
    atomic_bool stop;   /* set by the owner: nothing more is read */
    atomic_int n_read;  /* blocks that the owner may take, and gives back */
    atomic_bool done;   /* the reader has left it */
    struct error error; /* valid once done: of want[n_read] */
};

void disk_store_fetch(struct disk_store *s, struct disk_fetch *f);
/* Sleeps until a thread has got on with something. */
void disk_store_wait(struct disk_store *s);

#endif
