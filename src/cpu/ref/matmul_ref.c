/* The reference kernels: plain C, correct on every processor, what the others are tested
 * against. */
#include "cpu/matmul_kernels.h"

#include <math.h>
#include <string.h>

#include "quant/dequant.h"
#include "quant/float_convert.h"

static bool always(const struct cpu_features *features)
{
    (void)features;
    return true;
}

/* The largest magnitude as bits: infinities and NaNs, which compare highest, reach the scale. */
static float largest_magnitude(const float *x)
{
    uint32_t largest = 0;
    for (int k = 0; k < 32; k++) {
        uint32_t magnitude = float_bits(x[k]) & 0x7FFFFFFFu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return float_from_bits(largest);
}

static void quantize_block(const float *x, struct matmul_block *out, int token)
{
    float largest = largest_magnitude(x);
    bool usable = largest > 1e-30f && largest <= 3.4e38f;
    float inverse = usable ? 127.0f / largest : 0.0f;
    int sum[2] = { 0, 0 };
    float xq = 0, qq = 0; /* xq / qq makes scale * q the nearest to x in the mean square */
    for (int k = 0; k < 32; k++) {
        int q = usable ? (int)lrintf(x[k] * inverse) : 0;
        out->q[k / 4][token][k % 4] = (int8_t)q;
        sum[k / 16] += q;
        xq += usable ? x[k] * inverse * (float)q : 0;
        qq += (float)(q * q);
    }
    float scale = largest / 127.0f;
    if (usable)
        scale *= xq / qq;
    out->scale[token] = scale;
    const int sums[3] = { sum[0], sum[1], sum[0] + sum[1] };
    for (int g = 0; g < 3; g++) {
        out->code_sum[g][token] = sums[g];
        out->sum[g][token] = scale * (float)sums[g];
    }
}

static void quantize(const float *x, int64_t x_stride, int n, int64_t n_blocks,
                     struct matmul_block *out)
{
    if (n < MATMUL_TILE)
        memset(out, 0, (size_t)n_blocks * sizeof *out);
    for (int t = 0; t < n; t++)
        for (int64_t i = 0; i < n_blocks; i++)
            quantize_block(x + t * x_stride + 32 * i, &out[i], t);
}

/* One term of the accumulator: scale * x.scale * (integer product), minus minimum * x.sum. */
static inline void add_slab(int groups, bool has_min, int offset, const struct rows16_slab *s,
                            const struct matmul_block *x, float acc[MATMUL_TILE][ROWS16_ROWS])
{
    int steps = ROWS16_STEPS / groups;
    for (int t = 0; t < MATMUL_TILE; t++)
        for (int r = 0; r < ROWS16_ROWS; r++)
            for (int g = 0; g < groups; g++) {
                int32_t dot = 0;
                for (int i = g * steps; i < (g + 1) * steps; i++)
                    for (int b = 0; b < 4; b++)
                        dot += ((int)(s->q[i][r] >> 8 * b & 255) - offset) * x->q[i][t][b];
                acc[t][r] += s->scale[g][r] * x->scale[t] * (float)dot;
                if (has_min)
                    acc[t][r] -= s->min[g][r] * x->sum[groups == 1 ? 2 : g][t];
            }
}

#define DEFINE(name, bits, groups, has_min, shift) \
    static void tile_##name(const struct rows16_slab *slabs, int n, const struct matmul_block *x, \
                            float acc[MATMUL_TILE][ROWS16_ROWS]) \
    { \
        for (int i = 0; i < n; i++) \
            add_slab(groups, has_min, shift < 0 ? 0 : 1 << (shift < 0 ? 0 : shift), &slabs[i], \
                     &x[i], acc); \
    }
ROWS16_PLANES_LIST(DEFINE)
ROWS16_BLOCKS_LIST(DEFINE)
#undef DEFINE

static void tile_f32(const float *w, int n_cols, const float *x,
                     float acc[MATMUL_TILE][ROWS16_ROWS])
{
    for (int t = 0; t < MATMUL_TILE; t++)
        for (int r = 0; r < ROWS16_ROWS; r++) {
            float sum = 0;
            for (int c = 0; c < n_cols; c++)
                sum += w[c * ROWS16_ROWS + r] * x[c * MATMUL_TILE + t];
            acc[t][r] += sum;
        }
}

static void from_f16(const void *in, float *out, int64_t n)
{
    dequant_row(TENSOR_TYPE_F16, in, out, n);
}

static void from_bf16(const void *in, float *out, int64_t n)
{
    dequant_row(TENSOR_TYPE_BF16, in, out, n);
}

#define ENTRY(name, bits, groups, min, shift) [TENSOR_TYPE_##name] = tile_##name,
const struct matmul_kernels matmul_kernels_reference = {
    .name = "reference",
    .available = always,
    .quantize = quantize,
    .tile = { ROWS16_PLANES_LIST(ENTRY) ROWS16_BLOCKS_LIST(ENTRY) },
    .tile_f32 = tile_f32,
    .from_f16 = from_f16,
    .from_bf16 = from_bf16,
};
