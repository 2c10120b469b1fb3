/* safetensors: reader of one .safetensors file, or of all shards that an index file lists.
 *
 * Stricter than needed to be safe, exactly as the format asks: the ranges of all tensors cover
 * the data without holes. Types that the format has and tensor_types.h has not (F6, complex) are
 * UNSUPPORTED. Names are copied into the file's arena; bytes point into the mapping and may be
 * unaligned. Ownership and threads: see formats/weight_file.h.
 * Format: safetensors.c has the layout. Source: huggingface/safetensors, README. */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include "base/error.h"
#include "formats/weight_file.h"

/* On failure *f is closed. */
MUST_CHECK enum status safetensors_open(struct weight_file *f, const char *path,
                                        struct error *err);
/* `path` names a *.safetensors.index.json; the shards lie beside it. */
MUST_CHECK enum status safetensors_open_index(struct weight_file *f, const char *path,
                                              struct error *err);
/* model.safetensors.index.json, model.safetensors or the only *.safetensors of a folder.
 * NOT_FOUND when there is none. */
MUST_CHECK enum status safetensors_open_folder(struct weight_file *f, const char *folder,
                                               struct error *err);
/* One file in memory, which has to stay until the file is closed. */
MUST_CHECK enum status safetensors_open_memory(struct weight_file *f, const char *label,
                                               const void *bytes, size_t n, struct error *err);

#endif
