/* weight_file: named tensors as bytes in mapped files, whatever the container.
 *
 * GGUF and safetensors readers fill one of these; everything behind them (loading, quantizing,
 * inspecting) sees only this. Bytes point into the mapping and are never copied. When the reader
 * returns OK, every tensor lies within its file, its byte count equals what type and shape imply,
 * and no two tensors share bytes. The values themselves are not looked at.
 *
 * Ownership: the file owns names, list and mappings; all of it lives until weight_file_close().
 * Threads: read-only once opened, so any thread may read; forget may be called by anyone too. */
#ifndef FORMATS_WEIGHT_FILE_H
#define FORMATS_WEIGHT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str.h"
#include "base/strmap.h"
#include "quant/tensor_types.h"

#define WEIGHT_MAX_DIMS 8 /* a GGUF has at most 4, a convolution kernel in safetensors 5 */

struct weight_tensor {
    struct str name;
    enum tensor_type type;
    int n_dims;                    /* 0: one number */
    int64_t dim[WEIGHT_MAX_DIMS];  /* slowest first, so dim[n_dims - 1] is the row length; a GGUF
                                      stores them the other way round */
    const uint8_t *bytes;          /* unaligned in a safetensors file */
    size_t n_bytes;
    uint32_t part;                 /* index in weight_file.parts */
};

struct weight_file {
    const char *format;            /* "GGUF", "safetensors" */
    struct weight_tensor *tensors; /* in file order */
    size_t n_tensors, tensor_capacity;
    struct mapped_file *parts;     /* the shards, one for most models */
    size_t n_parts;
    struct strmap index;           /* name to position in tensors */
    struct arena arena;            /* names that are not in a mapping */
};

void weight_file_close(struct weight_file *f); /* a zeroed one is allowed */

/* NULL: absent. The pointer lives as long as the file. */
const struct weight_tensor *weight_file_find(const struct weight_file *f, struct str name);

int64_t weight_tensor_elements(const struct weight_tensor *t); /* cannot overflow once opened */
const char *weight_tensor_path(const struct weight_file *f, const struct weight_tensor *t);

/* Drops whole pages of n bytes of a tensor from this process: they are read from disk when touched
 * again. */
void weight_file_forget(const struct weight_file *f, const struct weight_tensor *t, size_t offset,
                        size_t n);

/* Reads all parts into memory, see base/mapped_file.h; tensors keep their addresses. */
MUST_CHECK enum status weight_file_read_in(struct weight_file *f, struct error *err);

/* True once bytes were read that are no longer in a file, see base/mapped_file.h. A load checks it
 * at its end: what it read were zeros. */
bool weight_file_damaged(const struct weight_file *f);
/* Was a part of it written to since it was opened? Asks the file system for each. */
bool weight_file_changed(const struct weight_file *f);

/* For readers of containers ------------------------------------------------------------------ */

/* Appends; INVALID when the name is taken. The name must live as long as the file. */
MUST_CHECK enum status weight_file_add(struct weight_file *f, const struct weight_tensor *t,
                                       struct error *err);
/* Moves parts and tensors of `other` behind those of f; `other` is closed in any case. */
MUST_CHECK enum status weight_file_merge(struct weight_file *f, struct weight_file *other,
                                         struct error *err);
/* INVALID names two tensors that share bytes. */
MUST_CHECK enum status weight_file_check_overlap(const struct weight_file *f, struct error *err);
/* Byte count of type and shape (dim of the tensor are set, none is negative). UNSUPPORTED: unknown
 * type. INVALID: a row that is no multiple of the block, or a product that wraps. */
MUST_CHECK enum status weight_tensor_size(const struct weight_tensor *t, size_t *n_bytes,
                                          struct error *err);

#endif
