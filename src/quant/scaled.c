#include "quant/scaled.h"

#include "quant/dequant.h"

static int64_t tiles(int64_t n, int64_t size)
{
    return n / size + (n % size != 0);
}

enum status scaled_matrix_sizes(const struct scaled_matrix *m, size_t *code_bytes,
                                size_t *scale_bytes, struct error *err)
{
    const struct tensor_type_info *scale = tensor_type_info(m->scale_type);
    size_t row_bytes, scale_row_bytes;
    if (m->n_rows < 0 || m->n_cols < 0 || m->tile_rows < 1 || m->tile_cols < 1)
        return error_set(err, STATUS_INVALID,
                         "scaled weight: %lld x %lld values in tiles of %lld x %lld",
                         (long long)m->n_rows, (long long)m->n_cols, (long long)m->tile_rows,
                         (long long)m->tile_cols);
    if (!scale || !(scale->flags & TENSOR_TYPE_FLOAT) || scale->block_elements != 1)
        return error_set(err, STATUS_INVALID, "scaled weight: type %s cannot hold scales",
                         tensor_type_name(m->scale_type));
    if (!tensor_type_row_bytes(m->type, m->n_cols, &row_bytes) ||
        !tensor_type_row_bytes(m->scale_type, tiles(m->n_cols, m->tile_cols), &scale_row_bytes) ||
        __builtin_mul_overflow(row_bytes, (size_t)m->n_rows, code_bytes) ||
        __builtin_mul_overflow(scale_row_bytes, (size_t)tiles(m->n_rows, m->tile_rows),
                               scale_bytes))
        return error_set(err, STATUS_INVALID, "scaled weight: no rows of %lld %s values exist",
                         (long long)m->n_cols, tensor_type_name(m->type));
    return STATUS_OK;
}

void scaled_matrix_row(const struct scaled_matrix *m, int64_t row, float *out)
{
    const struct tensor_type_info *type = tensor_type_info(m->type);
    const struct tensor_type_info *scale_type = tensor_type_info(m->scale_type);
    size_t row_bytes = (size_t)(m->n_cols / type->block_elements * type->block_bytes);
    int64_t n_tiles = tiles(m->n_cols, m->tile_cols);
    const unsigned char *scale = m->scales;
    scale += (size_t)(row / m->tile_rows * n_tiles) * (size_t)scale_type->block_bytes;
    dequant_row(m->type, (const unsigned char *)m->codes + (size_t)row * row_bytes, out, m->n_cols);
    for (int64_t t = 0; t < n_tiles; t++, scale += scale_type->block_bytes) {
        int64_t first = t * m->tile_cols, end = MIN(m->n_cols - first, m->tile_cols) + first;
        float factor;
        scale_type->dequant(scale, &factor, 1);
        for (int64_t j = first; j < end; j++)
            out[j] *= factor;
    }
    if (m->factor == 1)
        return;
    for (int64_t j = 0; j < m->n_cols; j++)
        out[j] = m->factor_divides ? out[j] / m->factor : out[j] * m->factor;
}
