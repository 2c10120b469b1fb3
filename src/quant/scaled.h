/* scaled: values whose scales lie in tensors of their own, as safetensors checkpoints carry them.
 *
 * Every convention is a grid of tiles that share a scale, the last ones cut off by the edge:
 *     one scale for the tensor      tile = n_rows x n_cols
 *     one for each row              tile = 1 x n_cols
 *     FP8 blocks                    tile = 128 x 128
 *     NVFP4, MXFP4                  tile = 1 x 16, 1 x 32
 * value = code * scale of its tile, then times (or divided by) a factor of the whole tensor: NVFP4
 * checkpoints store either weight_scale_2, a factor, or weight_global_scale, a divisor.
 * This is the reference; nothing is owned; any thread may read. */
#ifndef QUANT_SCALED_H
#define QUANT_SCALED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "quant/tensor_types.h"

struct scaled_matrix {
    enum tensor_type type;       /* of the codes: F8_E4M3, F8_E5M2, F4, ... */
    const void *codes;           /* [n_rows][n_cols], rows contiguous */
    enum tensor_type scale_type; /* F32, BF16, F16, F8_E4M3, F8_E8M0 */
    const void *scales;          /* [ceil(n_rows / tile_rows)][ceil(n_cols / tile_cols)] */
    int64_t n_rows, n_cols;
    int64_t tile_rows, tile_cols;
    float factor;                /* 1: none */
    bool factor_divides;
};

/* Bytes that codes and scales must have. INVALID when shapes, types or tiles make no sense. */
MUST_CHECK enum status scaled_matrix_sizes(const struct scaled_matrix *m, size_t *code_bytes,
                                           size_t *scale_bytes, struct error *err);

/* One row of values; m has passed scaled_matrix_sizes. */
void scaled_matrix_row(const struct scaled_matrix *m, int64_t row, float *out);

#endif
