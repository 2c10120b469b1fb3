/* gguf_write: writes a GGUF, version 3.
 *
 * Order: open, put metadata, declare every tensor, then write their bytes in the declared order,
 * then finish. Nothing of a tensor is held in memory. The file appears under its name only in
 * gguf_writer_finish(), after fsync; until then it lies beside it under a temporary name, which
 * gguf_writer_free() removes: an error, a full disk included, leaves no file.
 *     gguf_writer_open -> put ... -> declare ... -> write ... -> finish -> free
 * Keys and names are checked as a reader would; INVALID where they cannot be written, and for a
 * key or tensor that is there already. Threads: one at a time. */
#ifndef FORMATS_GGUF_WRITE_H
#define FORMATS_GGUF_WRITE_H

#include "base/error.h"
#include "formats/gguf.h"

struct gguf_writer;

/* `alignment` 0: 32. It is written as general.alignment unless it is 32. */
MUST_CHECK enum status gguf_writer_open(struct gguf_writer **out, const char *path,
                                        uint32_t alignment, struct error *err);
void gguf_writer_free(struct gguf_writer *w); /* NULL is allowed */

MUST_CHECK enum status gguf_writer_put(struct gguf_writer *w, const char *key,
                                       const struct gguf_value *value, struct error *err);
MUST_CHECK enum status gguf_writer_put_u32(struct gguf_writer *w, const char *key, uint32_t v,
                                           struct error *err);
MUST_CHECK enum status gguf_writer_put_u64(struct gguf_writer *w, const char *key, uint64_t v,
                                           struct error *err);
MUST_CHECK enum status gguf_writer_put_i32(struct gguf_writer *w, const char *key, int32_t v,
                                           struct error *err);
MUST_CHECK enum status gguf_writer_put_f32(struct gguf_writer *w, const char *key, float v,
                                           struct error *err);
MUST_CHECK enum status gguf_writer_put_bool(struct gguf_writer *w, const char *key, bool v,
                                            struct error *err);
MUST_CHECK enum status gguf_writer_put_str(struct gguf_writer *w, const char *key, struct str v,
                                           struct error *err);
/* Elements of any fixed-size type, little-endian as in memory. */
MUST_CHECK enum status gguf_writer_put_array(struct gguf_writer *w, const char *key,
                                             enum gguf_type type, const void *elements,
                                             uint64_t count, struct error *err);
MUST_CHECK enum status gguf_writer_put_strings(struct gguf_writer *w, const char *key,
                                               const struct str *strings, uint64_t count,
                                               struct error *err);
/* Every pair of g, in its order, except those that are there already, general.alignment, split.*
 * and the keys listed in `except` (NULL-terminated; NULL: none). */
MUST_CHECK enum status gguf_writer_copy_metadata(struct gguf_writer *w, const struct gguf *g,
                                                 const char *const *except, struct error *err);

/* `dim` as in struct weight_tensor: slowest first. */
MUST_CHECK enum status gguf_writer_declare(struct gguf_writer *w, struct str name,
                                           enum tensor_type type, int n_dims, const int64_t *dim,
                                           struct error *err);
/* The next n bytes of the tensors' data: any split is allowed within a tensor, none across two. */
MUST_CHECK enum status gguf_writer_write(struct gguf_writer *w, const void *bytes, size_t n,
                                         struct error *err);
/* INVALID when bytes are missing. */
MUST_CHECK enum status gguf_writer_finish(struct gguf_writer *w, struct error *err);

#endif
