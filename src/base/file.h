/* file: whole files with a maximum, and writes that never leave half a file. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

/* "-" reads standard input. LIMIT when the file is larger than max_bytes. Appends to *out. */
MUST_CHECK enum status file_read(const char *path, size_t max_bytes, struct strbuf *out,
                                 struct error *err);
/* Temporary name beside the target, fsync, rename; the old file survives every failure. A device,
 * pipe or socket is never replaced: it is written to. */
MUST_CHECK enum status file_write(const char *path, const void *bytes, size_t n, struct error *err);

/* The same in pieces: open, write any number of times, then commit, which puts the file in place,
 * or abort, which leaves nothing. A failed write is remembered: commit then fails, too. */
struct file_writer {
    int fd;
    char *path;      /* where it will appear */
    char *temporary; /* where it is until then; NULL when written in place */
    bool failed;
};
MUST_CHECK enum status file_writer_open(struct file_writer *w, const char *path, struct error *err);
/* For its owner alone, 0600; whatever lies at `path`, a symbolic link, too, is replaced. */
MUST_CHECK enum status file_writer_open_private(struct file_writer *w, const char *path,
                                                struct error *err);
MUST_CHECK enum status file_writer_write(struct file_writer *w, const void *bytes, size_t n,
                                         struct error *err);
MUST_CHECK enum status file_writer_commit(struct file_writer *w, struct error *err);
void file_writer_abort(struct file_writer *w); /* also after commit or a failed open: no effect */

/* Whether a short write goes through at once: not into a pipe or terminal that nobody reads. */
bool file_takes_output(int fd);
bool file_exists(const char *path);
bool file_is_directory(const char *path);
bool file_is_same(const char *a, const char *b); /* one file, maybe under two names */

#endif
