/* disk_folder: the files of saved state: which there are, how many bytes, which goes first.
 *
 *   CACHE/F-N.kv  CACHE/sessions/NAME.session    a cache, which holds the named sessions, too
 *   SESSIONS/F-N.kv  SESSIONS/NAME.session       named sessions in a folder of their own
 *
 * Files are named FINGERPRINT-NUMBER.kv, both in 16 hexadecimal digits; the time of change is that
 * of the last use. Others are left alone. A folder belongs to one process, which holds a lock on
 * it. Files of models that are not loaded count, too, and may be evicted; those that a named
 * session relies on may not: with two folders it relies on files of its own folder only.
 * Ownership: the list owns its files. Threads: whoever holds the device lock. */
#ifndef ENGINE_DISK_FOLDER_H
#define ENGINE_DISK_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/str.h"
#include "engine/disk_file.h"

struct disk_place {
    char *path; /* NULL: there is none */
    int lock;   /* the folder itself, opened; -1: none */
};

#define DISK_FOLDER_BUCKETS 1024

struct disk_folder {
    struct disk_place cache;    /* of finished turns; none: only named sessions are kept */
    struct disk_place sessions; /* of named sessions; none: they are in the cache */
    char *manifests;            /* of named sessions; NULL: they cannot be kept */
    char *fault;                /* why they cannot; NULL: nobody asked for it */
    int64_t limit, bytes;
    uint64_t n_evicted, number; /* number: of the newest file */
    const struct log_sink *log;
    struct disk_file *files;
    struct disk_file *bucket[DISK_FOLDER_BUCKETS]; /* by the number of the name */
};

/* Either may be NULL, and both may be one folder. Makes them if need be, locks them, lists their
 * files and removes what a killed process left half written. Nothing is evicted yet: somebody may
 * still pin files. CONFLICT: another process has one. One that cannot be made or opened is logged,
 * and there is none. */
MUST_CHECK enum status disk_folder_init(struct disk_folder *d, const char *cache,
                                        const char *sessions, int64_t limit,
                                        const struct log_sink *log, struct error *err);
void disk_folder_release(struct disk_folder *d);
/* Of the files that named sessions rely on; NULL: they cannot be kept. */
const char *disk_folder_of_sessions(const struct disk_folder *d);

bool disk_folder_is_name(struct str name); /* of a file, as above */
const char *disk_folder_name_of(const struct disk_file *f);
/* NULL: there is none. Of two that have the name, the one that sessions rely on. */
struct disk_file *disk_folder_find(const struct disk_folder *d, const char *name);
void disk_folder_reserve(struct disk_folder *d, const char *name); /* no new file gets it */
/* Does another file hold what follows one of its pages? */
bool disk_folder_is_built_on(const struct disk_file *f);
/* Does the name begin with this fingerprint? */
bool disk_folder_is_of(const struct disk_file *f, uint64_t fingerprint);
/* The caller frees it. */
char *disk_folder_new_path(struct disk_folder *d, uint64_t fingerprint, bool for_session);
/* Evicts until a file of that size fits; false: it never does. What goes first is decided by
 * prefix_value, of files that no other builds on. */
bool disk_folder_make_room(struct disk_folder *d, int64_t bytes, double seconds_per_token);
void disk_folder_add(struct disk_folder *d, struct disk_file *f); /* takes it over */
/* Frees it; `erase`: the file goes, too. */
void disk_folder_remove(struct disk_folder *d, struct disk_file *f, bool erase);
void disk_folder_touch(struct disk_file *f); /* it is used now */

#endif
