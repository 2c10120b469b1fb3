/* gguf_internal: what gguf_read.c, gguf_split.c and gguf_write.c share. */
#ifndef FORMATS_GGUF_INTERNAL_H
#define FORMATS_GGUF_INTERNAL_H

#include "formats/gguf.h"

#define GGUF_DEFAULT_ALIGNMENT 32u
#define GGUF_MIN_ALIGNMENT 8u
#define GGUF_MAX_DIMS 4
#define GGUF_MAX_NAME 65535u /* bytes of a key or a tensor's name */

/* Names in messages are cut here. */
#define GGUF_NAME_ARG(s) (int)MIN((s).len, (size_t)160), (s).ptr

/* Bytes of one element; 0 for strings, arrays and ids that are no type. */
size_t gguf_type_bytes(uint32_t type);

/* Takes over `file` as the only part of g (zeroed before) and parses it. */
MUST_CHECK enum status gguf_parse(struct gguf *g, struct mapped_file file, struct error *err);
/* Opens and parses one file, whatever its split.* keys say. */
MUST_CHECK enum status gguf_open_part(struct gguf *g, const char *path, struct error *err);
/* If g, opened from path, is the first part of an archive, the other parts are added. */
MUST_CHECK enum status gguf_join_parts(struct gguf *g, const char *path, struct error *err);

#endif
