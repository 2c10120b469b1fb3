/* tensor: activations as views that own nothing, and weights as immutable resident copies.
 *
 * Dimensions are listed slowest first, as the shape comments everywhere do: dim[n_dims - 1] is
 * contiguous. Activations are f32, bf16, f16 or i32; any row of the type table can be a weight.
 * Ownership: a tensor borrows step scratch or state; a weight belongs to its model and is freed
 * through its device. Threads: weights are read-only after load. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "quant/tensor_types.h"

struct device;

#define TENSOR_MAX_DIMS 4

struct tensor {
    void *data; /* NULL in a measuring step */
    enum tensor_type type;
    int n_dims;
    int64_t dim[TENSOR_MAX_DIMS];
    int64_t stride_bytes[TENSOR_MAX_DIMS]; /* stride_bytes[n_dims - 1] is the element size */
};

struct tensor tensor_of(void *data, enum tensor_type type, int n_dims, const int64_t *dim);
struct tensor tensor_2d(void *data, enum tensor_type type, int64_t rows, int64_t cols);
/* Rows [first, first + n) of dim[0]. */
struct tensor tensor_rows(const struct tensor *t, int64_t first, int64_t n);
/* [rows][n * width] seen as [rows][n][width]; traps unless the last dimension is n * width. */
struct tensor tensor_split(const struct tensor *t, int64_t n, int64_t width);
/* Columns [first, first + n) of [rows][cols]: not contiguous over rows. */
struct tensor tensor_columns(const struct tensor *t, int64_t first, int64_t n);
int64_t tensor_count(const struct tensor *t);
bool tensor_is_contiguous(const struct tensor *t);

/* How a weight's values are scaled beside their own bits (safetensors conventions). */
enum weight_scale_kind {
    WEIGHT_SCALE_NONE,
    WEIGHT_SCALE_TENSOR,   /* one factor */
    WEIGHT_SCALE_ROW,      /* [n_rows] */
    WEIGHT_SCALE_PER_16,   /* NVFP4: [n_rows][n_cols / 16] e4m3, and a tensor factor */
    WEIGHT_SCALE_TILE_128, /* [ceil(n_rows / 128)][ceil(n_cols / 128)] */
};
struct weight_scale {
    enum weight_scale_kind kind;
    enum tensor_type type; /* of `data` */
    const void *data;
    float tensor_factor;   /* 1 when there is none; already inverted where a file stores 1/g */
};

/* How the bytes of a weight are arranged. */
enum weight_layout {
    WEIGHT_LAYOUT_FILE,       /* rows of blocks as in the file, borrowed from the mapping */
    WEIGHT_LAYOUT_F32,        /* small vectors and norms: plain f32, owned */
    WEIGHT_LAYOUT_ROWS16,     /* 16 rows interleaved: cpu/rows16.h */
};

struct weight {
    struct str name;        /* as in the file, for errors; lives as long as the model */
    enum tensor_type type;  /* of the values */
    int64_t n_experts;      /* 1 unless routed: then [n_experts][n_rows][n_cols] */
    int64_t n_rows, n_cols; /* a vector is one row */
    struct weight_scale scale;
    struct device *dev;
    const void *data;
    size_t bytes;           /* resident, 0 when borrowed */
    enum weight_layout layout;
    bool owned;             /* data was allocated by dev */
    bool lookup;            /* rows are only looked up: an embedding table that is no head */
};

#endif
