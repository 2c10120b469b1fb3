/* The table of packed formats, and what works the same for all of them. */
#include "cpu/rows16.h"

#include <string.h>

#define LANES 4
#include "base/compiler.h"
#include "cpu/rows16_unpack.h"
#include "cpu/transpose.h"
#include "quant/dequant.h"

#define DEFINE(name, bits, groups, has_min_, shift) \
    void rows16_unpack_##name(const uint8_t *block, int slab, struct rows16_slab *out) \
    { \
        for (int part = 0; part < PARTS; part++) { \
            lanes_f32 head[2], scale[2], min[2]; \
            const int turn = slab / PHASES_##name, phase = slab % PHASES_##name; \
            for (int step = 0; step < ROWS16_STEPS; step++) { \
                lanes_u32 q = codes_##name(block, turn, phase, part, step); \
                memcpy(&out->q[step][part * LANES], &q, sizeof q); \
            } \
            heads_##name(block, part, head); \
            scales_##name(block, slab, part, head, scale, min); \
            for (int g = 0; g < groups; g++) { \
                memcpy(&out->scale[g][part * LANES], &scale[g], sizeof scale[g]); \
                if (has_min_) \
                    memcpy(&out->min[g][part * LANES], &min[g], sizeof min[g]); \
            } \
        } \
    }
ROWS16_PLANES_LIST(DEFINE)
#undef DEFINE

enum {
#define BLOCK(name, id, elements, bytes, flags) BYTES_##name = bytes,
    TENSOR_TYPE_LIST(BLOCK)
#undef BLOCK
};

static const struct rows16_format formats[] = {
#define PLANES(name, bits, groups, min, shift) \
    { TENSOR_TYPE_##name, \
      ROWS16_PLANES, \
      ROWS16_COLUMNS_##name, \
      ROWS16_BYTES_##name, \
      bits, \
      groups, \
      shift, \
      min, \
      rows16_pack_##name, \
      rows16_unpack_##name },
    ROWS16_PLANES_LIST(PLANES)
#undef PLANES
#define BLOCKS(name, bits, groups, min, shift) \
    { TENSOR_TYPE_##name, \
      ROWS16_BLOCKS, \
      ROWS16_COLUMNS_##name, \
      16 * BYTES_##name, \
      bits, \
      groups, \
      shift, \
      min, \
      NULL, \
      rows16_unpack_##name },
        ROWS16_BLOCKS_LIST(BLOCKS)
#undef BLOCKS
#define ELEMENTS(name) \
    { TENSOR_TYPE_##name, ROWS16_ELEMENTS, 1, 16 * BYTES_##name, 0, 0, -1, false, NULL, NULL },
            ELEMENTS(F32) ELEMENTS(F16) ELEMENTS(BF16) ELEMENTS(F64) ELEMENTS(F8_E4M3)
                ELEMENTS(F8_E5M2) ELEMENTS(I8) ELEMENTS(I16) ELEMENTS(I32) ELEMENTS(I64)
#undef ELEMENTS
};

const struct rows16_format *rows16_format(enum tensor_type type)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (formats[i].type == type)
            return &formats[i];
    return NULL;
}

size_t rows16_group_bytes(const struct rows16_format *f, int64_t n_cols)
{
    return (size_t)(n_cols / f->block_columns) * (size_t)f->block_bytes;
}

/* As many columns as whole vectors hold, of 16 whole rows; returns how many. */
static size_t pack_vectors(size_t size, size_t n, const uint8_t *file, size_t row_bytes,
                           uint8_t *group)
{
    if (size != 2 && size != 4)
        return 0;
    const uint8_t *row[ROWS16_ROWS];
    for (size_t r = 0; r < ROWS16_ROWS; r++)
        row[r] = file + r * row_bytes;
    size_t each = 16 / size, done = 0;
    for (; done + each <= n; done += each) {
        struct row_dwords x[4];
        gather_four(row, done * size, x);
        for (size_t i = 0; i < 4; i++) {
            uint8_t *out = group + done * 16 * size + 64 * i;
            if (size == 4)
                store_rows(&x[i], out);
            else
                store_halves(&x[i], out, out + 32);
        }
    }
    return done;
}

static void pack_elements(size_t size, int64_t n_cols, int n_rows, const uint8_t *file,
                          size_t row_bytes, uint8_t *group)
{
    size_t n = (size_t)n_cols;
    size_t done = n_rows == ROWS16_ROWS ? pack_vectors(size, n, file, row_bytes, group) : 0;
    for (size_t r = 0; r < (size_t)n_rows; r++)
        for (size_t c = done; c < n; c++)
            memcpy(group + (c * 16 + r) * size, file + r * row_bytes + c * size, size);
}

void rows16_pack_group(const struct rows16_format *f, int64_t n_cols, int n_rows,
                       const uint8_t *file, size_t row_bytes, uint8_t *group)
{
    static const uint8_t zeros[292]; /* the largest file block */
    size_t out_bytes = (size_t)f->block_bytes;
    if (n_rows < ROWS16_ROWS)
        memset(group, 0, rows16_group_bytes(f, n_cols));
    if (f->kind == ROWS16_ELEMENTS) {
        pack_elements(out_bytes / 16, n_cols, n_rows, file, row_bytes, group);
        return;
    }
    size_t n_blocks = (size_t)(n_cols / f->block_columns);
    size_t file_bytes = row_bytes / n_blocks;
    for (size_t i = 0; i < n_blocks; i++) {
        const uint8_t *row[ROWS16_ROWS];
        for (int r = 0; r < ROWS16_ROWS; r++)
            row[r] = r < n_rows ? file + (size_t)r * row_bytes + i * file_bytes : zeros;
        uint8_t *block = group + i * out_bytes;
        if (f->kind == ROWS16_PLANES)
            f->pack(row, block);
        else
            for (int r = 0; r < n_rows; r++)
                memcpy(block + (size_t)r * file_bytes, row[r], file_bytes);
    }
}

void rows16_slab_values(const struct rows16_format *f, const struct rows16_slab *s,
                        float *restrict out)
{
    int offset = f->offset_shift < 0 ? 0 : 1 << f->offset_shift;
    for (int k = 0; k < 32; k++) {
        int g = f->scale_groups == 2 ? k / 16 : 0;
        const uint32_t *q = s->q[k / 4];
        for (int r = 0; r < ROWS16_ROWS; r++) {
            float w = s->scale[g][r] * (float)((int)(q[r] >> 8 * (k % 4) & 255) - offset);
            out[k * ROWS16_ROWS + r] = f->has_min ? w - s->min[g][r] : w;
        }
    }
}

void rows16_unpack_row(const struct rows16_format *f, const uint8_t *group, int64_t n_cols, int row,
                       float *out)
{
    if (f->kind == ROWS16_ELEMENTS) {
        size_t size = (size_t)f->block_bytes / 16;
        for (int64_t c = 0; c < n_cols; c++)
            dequant_row(f->type, group + ((size_t)c * 16 + (size_t)row) * size, out + c, 1);
        return;
    }
    int offset = f->offset_shift < 0 ? 0 : 1 << f->offset_shift;
    for (int64_t i = 0; i < n_cols / 32; i++) {
        struct rows16_slab s;
        int inside;
        const uint8_t *block = rows16_block(f, group, i, &inside);
        f->unpack(block, inside, &s);
        for (int k = 0; k < 32; k++) {
            int g = f->scale_groups == 2 ? k / 16 : 0;
            int q = (int)(s.q[k / 4][row] >> 8 * (k % 4) & 255) - offset;
            float w = s.scale[g][row] * (float)q;
            out[32 * i + k] = f->has_min ? w - s.min[g][row] : w;
        }
    }
}
