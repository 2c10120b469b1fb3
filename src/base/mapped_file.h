/* mapped_file: a file mapped read-only, private, never copied; or, when asked, read into memory.
 *
 * A file that shrinks while mapped raises SIGBUS on the missing pages. A program installs
 * mapped_file_install_guard() once (libingot never does by itself); then such a read sees zeros,
 * and mapped_file_damaged() is true from then on, so that the load or the request can fail.
 * Without the guard the signal kills the process as the system does by default.
 * A file that is removed, or replaced by renaming another over it, stays readable as it was. One
 * that is written to in place shows its new bytes: mapped_file_changed() notices.
 * mapped_file_read_in() puts a copy in anonymous memory where the mapping was: every pointer into
 * it stays good, and nothing that happens to the file afterwards matters. Then there is nothing
 * to forget, and no damage.
 * Threads: open, read in and close by one owner; reading and mapped_file_damaged() by anyone. */
#ifndef BASE_MAPPED_FILE_H
#define BASE_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"

struct mapped_file {
    const uint8_t *bytes;
    size_t size;
    int slot; /* index in the guard's table; -1 when not guarded */
    char *path;
    bool borrowed; /* bytes belong to somebody else */
    bool in_memory; /* read in: the file behind it is of no interest any more */
    dev_t device;  /* what was opened, for mapped_file_changed() */
    ino_t inode;
    struct timespec modified;
};

MUST_CHECK enum status mapped_file_open(struct mapped_file *f, const char *path, struct error *err);
/* The same view of n bytes that are in memory and stay there; `label` stands for the path. */
void mapped_file_borrow(struct mapped_file *f, const char *label, const void *bytes, size_t n);
/* Nobody else may read `f` meanwhile. IO names the file when it cannot be read, is shorter than it
 * was when it was opened, or was replaced or written to since; NO_MEMORY when it does not fit. The
 * mapping is as it was after an error. No effect on a borrowed one, or one that was read in. */
MUST_CHECK enum status mapped_file_read_in(struct mapped_file *f, struct error *err);
void mapped_file_close(struct mapped_file *f); /* a zeroed one is allowed */
bool mapped_file_damaged(const struct mapped_file *f);
/* Asks the file system whether the mapped file itself was written to since (size, time). */
bool mapped_file_changed(const struct mapped_file *f);
/* Tells the kernel that [offset, offset + n) of a mapping is no longer needed in memory. */
void mapped_file_forget(const struct mapped_file *f, size_t offset, size_t n);
void mapped_file_install_guard(void);

#endif
