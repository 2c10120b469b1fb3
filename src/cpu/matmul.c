/* The products' driver: which kernel runs over which block. See matmul.h for the order of terms.
 *
 * Few tokens: a group is read once per token tile and unpacked in registers ("direct").
 * Many tokens: a K block of a row group is unpacked to slabs that stay in the first-level cache,
 * then all token tiles pass over it; accumulators stay in the second-level cache. */
#include "cpu/matmul.h"

#include <string.h>

#include "base/compiler.h"
#include "cpu/matmul_kernels.h"
#include "cpu/rows16.h"
#include "quant/dequant.h"

#define SLABS_MAX 20    /* slabs of a K block: 640 columns, 15 KiB */
#define COLUMNS_MAX 256 /* columns of an f32 K block: 16 KiB */
#define TILES_MAX 64    /* token tiles that share an unpacked K block */

_Static_assert(MATMUL_TOKENS == MATMUL_TILE && MATMUL_ROWS == ROWS16_ROWS, "one tile size");

typedef float accumulators[MATMUL_TILE][ROWS16_ROWS];

static const struct matmul_kernels *const all_kernels[] = {
    &matmul_kernels_reference,
#if defined(__x86_64__)
    &matmul_kernels_avx2,
    &matmul_kernels_avx512,
#endif
};

const struct matmul_kernels *matmul_kernels_choose(const struct cpu_features *features,
                                                   const char *isa)
{
    const struct matmul_kernels *best = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(all_kernels); i++) {
        if (all_kernels[i]->available(features))
            best = all_kernels[i];
        if (isa && strcmp(all_kernels[i]->name, isa) == 0)
            return all_kernels[i]->available(features) ? all_kernels[i] : NULL;
    }
    return isa ? NULL : best;
}

const char *matmul_kernels_name(const struct matmul_kernels *kernels)
{
    return kernels->name;
}

const struct matmul_kernels *matmul_kernels_at(const struct cpu_features *features, int index)
{
    for (size_t i = 0; i < ARRAY_SIZE(all_kernels); i++)
        if (all_kernels[i]->available(features) && index-- == 0)
            return all_kernels[i];
    return NULL;
}

int64_t matmul_row_groups(int64_t n_rows)
{
    return n_rows / ROWS16_ROWS + (n_rows % ROWS16_ROWS != 0);
}

int64_t matmul_token_tiles(int64_t n_tokens)
{
    return n_tokens / MATMUL_TILE + (n_tokens % MATMUL_TILE != 0);
}

bool matmul_supports(enum tensor_type type, int64_t n_cols)
{
    const struct rows16_format *f = rows16_format(type);
    return f && n_cols > 0 && n_cols % f->block_columns == 0;
}

size_t matmul_packed_bytes(enum tensor_type type, int64_t n_rows, int64_t n_cols)
{
    size_t row, bytes;
    if (n_rows <= 0 || !matmul_supports(type, n_cols))
        return 0;
    if (!tensor_type_row_bytes(type, n_cols, &row) || row > SIZE_MAX / 64)
        return 0; /* so that a group fits: packed rows are less than four times as long */
    size_t group = rows16_group_bytes(rows16_format(type), n_cols);
    if (__builtin_mul_overflow(group, (size_t)matmul_row_groups(n_rows), &bytes))
        return 0;
    return bytes;
}

void matmul_pack(enum tensor_type type, int64_t n_rows, int64_t n_cols, const void *file,
                 void *packed, int64_t from_group, int64_t to_group)
{
    const struct rows16_format *f = rows16_format(type);
    size_t row_bytes, group_bytes = rows16_group_bytes(f, n_cols);
    CHECK(tensor_type_row_bytes(type, n_cols, &row_bytes));
    for (int64_t g = from_group; g < to_group; g++) {
        int64_t row = g * ROWS16_ROWS;
        rows16_pack_group(f, n_cols, (int)MIN(n_rows - row, ROWS16_ROWS),
                          (const uint8_t *)file + (size_t)row * row_bytes, row_bytes,
                          (uint8_t *)packed + (size_t)g * group_bytes);
    }
}

static const uint8_t *group_of(const struct rows16_format *f, const struct weight *w,
                               int64_t expert, int64_t group)
{
    int64_t index = expert * matmul_row_groups(w->n_rows) + group;
    return (const uint8_t *)w->data + (size_t)index * rows16_group_bytes(f, w->n_cols);
}

void matmul_unpack_row(const struct weight *w, int64_t expert, int64_t row, float *out)
{
    const struct rows16_format *f = rows16_format(w->type);
    rows16_unpack_row(f, group_of(f, w, expert, row / ROWS16_ROWS), w->n_cols,
                      (int)(row % ROWS16_ROWS), out);
}

enum matmul_operand matmul_operand_for(enum tensor_type weight_type, bool exact)
{
    const struct rows16_format *f = rows16_format(weight_type);
    return exact || !f || f->kind == ROWS16_ELEMENTS ? MATMUL_F32 : MATMUL_INT8;
}

static size_t tile_bytes(enum matmul_operand operand, int64_t n_cols)
{
    if (operand == MATMUL_INT8)
        return (size_t)(n_cols / 32) * sizeof(struct matmul_block);
    return (size_t)n_cols * MATMUL_TILE * sizeof(float);
}

size_t matmul_operand_bytes(enum matmul_operand operand, int64_t n_tokens, int64_t n_cols)
{
    return (size_t)matmul_token_tiles(n_tokens) * tile_bytes(operand, n_cols);
}

static void interleave(const float *x, int64_t x_stride, int n, int64_t n_cols, float *out)
{
    for (int t = 0; t < MATMUL_TILE; t++)
        for (int64_t c = 0; c < n_cols; c++)
            out[c * MATMUL_TILE + t] = t < n ? x[t * x_stride + c] : 0.0f;
}

void matmul_activate(const struct matmul_kernels *kernels, enum matmul_operand operand,
                     const float *x, int64_t x_stride, int64_t n_tokens, int64_t n_cols, void *out,
                     int64_t from_tile, int64_t to_tile)
{
    for (int64_t i = from_tile; i < to_tile; i++) {
        const float *tokens = x + i * MATMUL_TILE * x_stride;
        int n = (int)MIN(n_tokens - i * MATMUL_TILE, MATMUL_TILE);
        uint8_t *tile = (uint8_t *)out + (size_t)i * tile_bytes(operand, n_cols);
        if (operand == MATMUL_INT8)
            kernels->quantize(tokens, x_stride, n, n_cols / 32, (struct matmul_block *)tile);
        else
            interleave(tokens, x_stride, n, n_cols, (float *)tile);
    }
}

/* A range of token tiles of the operand. */
struct tokens {
    const uint8_t *x; /* first tile */
    size_t tile_bytes;
    int64_t n_tokens;
    int n_tiles;
};

static void unpack_slabs(const struct matmul_kernels *kernels, const struct rows16_format *f,
                         const uint8_t *group, int64_t first, int n, struct rows16_slab *out)
{
    if (kernels->unpack[f->type]) {
        kernels->unpack[f->type](group, first, n, out);
        return;
    }
    for (int i = 0; i < n; i++) {
        int inside;
        const uint8_t *block = rows16_block(f, group, first + i, &inside);
        f->unpack(block, inside, &out[i]);
    }
}

static void direct_int8(const struct matmul_kernels *kernels, const struct rows16_format *f,
                        const uint8_t *group, int64_t n_cols, const struct tokens *tokens,
                        accumulators *acc)
{
    for (int i = 0; i < tokens->n_tiles; i++) {
        int n = (int)MIN(tokens->n_tokens - i * MATMUL_TILE, MATMUL_TILE);
        const void *x = tokens->x + (size_t)i * tokens->tile_bytes;
        kernels->direct[f->type](group, n_cols / 32, x, n, acc[i]);
    }
}

static void tiled_int8(const struct matmul_kernels *kernels, const struct rows16_format *f,
                       const uint8_t *group, int64_t n_cols, const struct tokens *tokens,
                       accumulators *acc)
{
    struct rows16_slab slabs[SLABS_MAX];
    int64_t n_slabs = n_cols / 32, n_blocks = (n_slabs + SLABS_MAX - 1) / SLABS_MAX;
    int64_t step = (n_slabs + n_blocks - 1) / n_blocks;
    for (int64_t first = 0; first < n_slabs; first += step) {
        int n = (int)MIN(step, n_slabs - first);
        unpack_slabs(kernels, f, group, first, n, slabs);
        for (int i = 0; i < tokens->n_tiles; i++) {
            const void *x = tokens->x + (size_t)i * tokens->tile_bytes;
            kernels->tile[f->type](slabs, n, (const struct matmul_block *)x + first, acc[i]);
        }
    }
}

/* Columns [first, first + n) of a group as f32 [n][16 rows]; may be the packed bytes themselves. */
static const float *values(const struct matmul_kernels *kernels, const struct rows16_format *f,
                           const uint8_t *group, int64_t first, int n, float *scratch)
{
    int64_t count = (int64_t)n * ROWS16_ROWS;
    const uint8_t *elements = group + (size_t)first * (size_t)f->block_bytes;
    if (f->type == TENSOR_TYPE_F32)
        return (const float *)(const void *)elements;
    if (f->type == TENSOR_TYPE_F16) {
        kernels->from_f16(elements, scratch, count);
    } else if (f->type == TENSOR_TYPE_BF16) {
        kernels->from_bf16(elements, scratch, count);
    } else if (f->kind == ROWS16_ELEMENTS) {
        dequant_row(f->type, elements, scratch, count);
    } else {
        struct rows16_slab slabs[COLUMNS_MAX / 32];
        unpack_slabs(kernels, f, group, first / 32, n / 32, slabs);
        for (int i = 0; i < n / 32; i++)
            rows16_slab_values(f, &slabs[i], scratch + i * 32 * ROWS16_ROWS);
    }
    return scratch;
}

static void tiled_f32(const struct matmul_kernels *kernels, const struct rows16_format *f,
                      const uint8_t *group, int64_t n_cols, const struct tokens *tokens,
                      accumulators *acc)
{
    _Alignas(64) float scratch[COLUMNS_MAX * ROWS16_ROWS];
    for (int64_t first = 0; first < n_cols; first += COLUMNS_MAX) {
        int n = (int)MIN(COLUMNS_MAX, n_cols - first);
        const float *w = values(kernels, f, group, first, n, scratch);
        for (int i = 0; i < tokens->n_tiles; i++) {
            const void *x = tokens->x + (size_t)i * tokens->tile_bytes;
            kernels->tile_f32(w, n, (const float *)x + first * MATMUL_TILE, acc[i]);
        }
    }
}

/* acc = product of row group `group` of w with the tokens */
static void product(const struct matmul_kernels *kernels, const struct matmul_args *args,
                    const struct weight *w, int64_t group, const struct tokens *tokens,
                    accumulators *acc)
{
    const struct rows16_format *f = rows16_format(w->type);
    const uint8_t *packed = group_of(f, w, args->expert, group);
    memset(acc, 0, (size_t)tokens->n_tiles * sizeof *acc);
    if (args->operand == MATMUL_F32)
        tiled_f32(kernels, f, packed, w->n_cols, tokens, acc);
    else if (kernels->direct[f->type] && tokens->n_tokens <= MATMUL_DIRECT_MAX)
        direct_int8(kernels, f, packed, w->n_cols, tokens, acc);
    else
        tiled_int8(kernels, f, packed, w->n_cols, tokens, acc);
}

/* A factor of the whole tensor or of each row, from outside the blocks. */
static void apply_scale(const struct weight *w, int64_t row, int n, float *values_of_rows)
{
    if (w->scale.kind == WEIGHT_SCALE_NONE)
        return;
    float factor = w->scale.tensor_factor;
    for (int r = 0; r < n; r++) {
        float of_row = factor;
        if (w->scale.kind == WEIGHT_SCALE_ROW) {
            const struct tensor_type_info *info = tensor_type_info(w->scale.type);
            dequant_row(w->scale.type,
                        (const uint8_t *)w->scale.data +
                            (size_t)(row + r) * (size_t)info->block_bytes,
                        &of_row, 1);
            of_row *= factor;
        }
        values_of_rows[r] *= of_row;
    }
}

/* Rows of one group, all tokens: bias, gate, sum. */
static void store(const struct matmul_args *args, int64_t group, int64_t first_token,
                  int64_t n_tokens, accumulators *acc, accumulators *up)
{
    int64_t row = group * ROWS16_ROWS;
    int n = (int)MIN(args->w->n_rows - row, ROWS16_ROWS);
    for (int64_t t = 0; t < n_tokens; t++) {
        float *from = acc[t / MATMUL_TILE][t % MATMUL_TILE];
        float *out = args->out + (first_token + t) * args->out_stride + row;
        apply_scale(args->w, row, n, from);
        if (args->bias)
            for (int r = 0; r < n; r++)
                from[r] += args->bias[row + r];
        if (args->up) {
            float *factor = up[t / MATMUL_TILE][t % MATMUL_TILE];
            apply_scale(args->up, row, n, factor);
            args->glu(from, from, factor, n);
        }
        for (int r = 0; r < n; r++)
            out[r] = args->add ? out[r] + from[r] : from[r];
    }
}

void matmul_run(const struct matmul_kernels *kernels, const struct matmul_args *args,
                int64_t from_group, int64_t to_group)
{
    _Alignas(64) accumulators acc[TILES_MAX], up[TILES_MAX];
    size_t bytes = tile_bytes(args->operand, args->w->n_cols);
    const int64_t tokens_max = TILES_MAX * MATMUL_TILE;
    for (int64_t group = from_group; group < to_group; group++)
        for (int64_t first = 0; first < args->n_tokens; first += tokens_max) {
            int64_t n = MIN(tokens_max, args->n_tokens - first);
            struct tokens tokens = {
                .x = (const uint8_t *)args->x + (size_t)(first / MATMUL_TILE) * bytes,
                .tile_bytes = bytes,
                .n_tokens = n,
                .n_tiles = (int)matmul_token_tiles(n),
            };
            product(kernels, args, args->w, group, &tokens, acc);
            if (args->up)
                product(kernels, args, args->up, group, &tokens, up);
            store(args, group, first, n, acc, up);
        }
}
