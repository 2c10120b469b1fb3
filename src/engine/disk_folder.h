/* disk_folder: the files of a disk cache: which there are, how many bytes, which goes first.
 *
 * Files are named FINGERPRINT-NUMBER.kv, both in 16 hexadecimal digits; the time of change is that
 * of the last use. Others are left alone. A folder belongs to one process, which holds a lock on
 * it. Files of models that are not loaded count, too, and may be evicted; those that a named
 * session relies on may not.
 * Ownership: the list owns its files. Threads: whoever holds the device lock. */
#ifndef ENGINE_DISK_FOLDER_H
#define ENGINE_DISK_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/str.h"
#include "engine/disk_file.h"

struct disk_folder {
    char *path; /* NULL: nothing is kept on disk */
    int lock;   /* the folder itself, opened; -1: none */
    int64_t limit, bytes;
    uint64_t n_evicted, number; /* number: of the newest file */
    const struct log_sink *log;
    struct disk_file *files;
};

/* Makes the folder if need be, locks it, lists its files and removes what a killed process left
 * half written. Nothing is evicted yet: somebody may still pin files. CONFLICT: another process
 * has it. One that cannot be made or opened is logged, and path stays NULL. */
MUST_CHECK enum status disk_folder_init(struct disk_folder *d, const char *path, int64_t limit,
                                        const struct log_sink *log, struct error *err);
void disk_folder_release(struct disk_folder *d);

bool disk_folder_is_name(struct str name); /* of a file, as above */
const char *disk_folder_name_of(const struct disk_file *f);
struct disk_file *disk_folder_find(const struct disk_folder *d, const char *name); /* or NULL */
void disk_folder_reserve(struct disk_folder *d, const char *name); /* no new file gets it */
/* Does another file hold what follows one of its pages? */
bool disk_folder_is_built_on(const struct disk_file *f);
/* Does the name begin with this fingerprint? */
bool disk_folder_is_of(const struct disk_file *f, uint64_t fingerprint);
char *disk_folder_new_path(struct disk_folder *d, uint64_t fingerprint); /* the caller frees */
/* Evicts until a file of that size fits; false: it never does. What goes first is decided by
 * prefix_value, of files that no other builds on. */
bool disk_folder_make_room(struct disk_folder *d, int64_t bytes, double seconds_per_token);
void disk_folder_add(struct disk_folder *d, struct disk_file *f); /* takes it over */
/* Frees it; `erase`: the file goes, too. */
void disk_folder_remove(struct disk_folder *d, struct disk_file *f, bool erase);
void disk_folder_touch(struct disk_file *f); /* it is used now */

#endif
