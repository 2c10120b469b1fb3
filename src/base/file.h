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
/* Temporary name beside the target, fsync, rename; the old file survives every failure. */
MUST_CHECK enum status file_write(const char *path, const void *bytes, size_t n, struct error *err);
bool file_exists(const char *path);
bool file_is_directory(const char *path);

#endif
