/* matmul_body: the loops of the int8 kernels, written once for all vector instruction sets.
 *
 * The including file defines LANES and the vocabulary before it includes this header:
 *   lanes_fma(a, b, c)     a * b + c with one rounding
 *   lanes_fnma(a, b, c)    c - a * b with one rounding
 *   lanes_dot_step(bits, run_first, run_last, any, q, x, &mid, &dot)
 *       one step of the integer product of unsigned codes q < 2^bits and signed bytes x
 *   LANES_RUN(bits)        steps that `mid` may sum before it goes to `dot`
 *   LANES_SIGNED_8         1: eight-bit codes are turned signed again, so no offset is subtracted
 * All loops below have constant bounds and unroll; accumulators stay in registers for the
 * direct kernels, and one load and store per slab for full tiles. */
#ifndef CPU_MATMUL_BODY_H
#define CPU_MATMUL_BODY_H

#include "cpu/matmul_kernels.h"
#include "cpu/rows16_unpack.h"

#define UNROLL _Pragma("GCC unroll 16")

typedef lanes_u32 codes_function(const uint8_t *block, int turn, int phase, int part, int step);
typedef void heads_function(const uint8_t *block, int part, lanes_f32 *head);
typedef void scales_function(const uint8_t *block, int slab, int part, const lanes_f32 *head,
                             lanes_f32 *scale, lanes_f32 *min);

struct code_traits {
    int bits, groups, shift;
    bool has_min;
};

/* How a type's blocks are read; all constant. */
struct block_reader {
    codes_function *codes;
    heads_function *heads;
    scales_function *scales;
    int slabs, phases;
    size_t bytes;
};

HOT_INLINE lanes_u32 splat_dword(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x - (lanes_u32){ 0 };
}

HOT_INLINE lanes_f32 splat_f32(const float *p)
{
    return *p - (lanes_f32){ 0 };
}

HOT_INLINE lanes_u32 codes_slab(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return dwords(b, step, part);
}

HOT_INLINE void scales_slab(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    const struct rows16_slab *s = (const void *)b;
    (void)slab, (void)head;
    for (int g = 0; g < 2; g++) {
        memcpy(&scale[g], &s->scale[g][part * LANES], sizeof scale[g]);
        memcpy(&min[g], &s->min[g][part * LANES], sizeof min[g]);
    }
}

/* The integer products of scale group g with n tokens. */
HOT_INLINE void group_dots(const struct code_traits f, codes_function *codes, const uint8_t *block,
                           int turn, int phase, int g, int n, const struct matmul_block *x,
                           lanes_i32 dot[PARTS][MATMUL_TILE])
{
    const int steps = ROWS16_STEPS / f.groups;
    const int run = MIN(LANES_RUN(f.bits), steps);
    lanes_i32 mid[PARTS][MATMUL_TILE];
    UNROLL
    for (int i = 0; i < steps; i++) {
        const int step = g * steps + i;
        lanes_u32 q[PARTS];
        UNROLL
        for (int p = 0; p < PARTS; p++)
            q[p] = codes(block, turn, phase, p, step);
        UNROLL
        for (int t = 0; t < n; t++) {
            lanes_u32 xs = splat_dword(x->q[step][t]);
            UNROLL
            for (int p = 0; p < PARTS; p++)
                lanes_dot_step(f.bits, i % run == 0, i % run == run - 1, i / run > 0, q[p], xs,
                               &mid[p][t], &dot[p][t]);
        }
    }
}

/* acc += one slab times n tokens; slab = turn * r.phases + phase. */
HOT_INLINE void add_slab(const struct code_traits f, const struct block_reader r,
                         const uint8_t *block, int turn, int phase, lanes_f32 head[PARTS][2], int n,
                         const struct matmul_block *x, lanes_f32 acc[PARTS][MATMUL_TILE])
{
    lanes_f32 scale[PARTS][2], min[PARTS][2];
    UNROLL
    for (int p = 0; p < PARTS; p++)
        r.scales(block, turn * r.phases + phase, p, head[p], scale[p], min[p]);
    UNROLL
    for (int g = 0; g < f.groups; g++) {
        const int sums = f.groups == 1 ? 2 : g;
        lanes_i32 dot[PARTS][MATMUL_TILE];
        group_dots(f, r.codes, block, turn, phase, g, n, x, dot);
        UNROLL
        for (int t = 0; t < n; t++) {
            lanes_f32 x_scale = splat_f32(&x->scale[t]);
            const bool offset = f.shift >= 0 && !(f.bits == 8 && LANES_SIGNED_8);
            lanes_i32 correction = { 0 };
            if (offset)
                correction = (lanes_i32)splat_dword(&x->code_sum[sums][t]) << f.shift;
            UNROLL
            for (int p = 0; p < PARTS; p++) {
                lanes_i32 exact = offset ? dot[p][t] - correction : dot[p][t];
                lanes_f32 product = __builtin_convertvector(exact, lanes_f32);
                acc[p][t] = lanes_fma(product, scale[p][g] * x_scale, acc[p][t]);
                if (f.has_min)
                    acc[p][t] = lanes_fnma(min[p][g], splat_f32(&x->sum[sums][t]), acc[p][t]);
            }
        }
    }
}

HOT_INLINE void load_acc(int n, float from[MATMUL_TILE][ROWS16_ROWS],
                         lanes_f32 acc[PARTS][MATMUL_TILE])
{
    UNROLL
    for (int t = 0; t < n; t++)
        UNROLL
        for (int p = 0; p < PARTS; p++)
            memcpy(&acc[p][t], &from[t][p * LANES], sizeof acc[p][t]);
}

HOT_INLINE void store_acc(int n, lanes_f32 acc[PARTS][MATMUL_TILE],
                          float to[MATMUL_TILE][ROWS16_ROWS])
{
    UNROLL
    for (int t = 0; t < n; t++)
        UNROLL
        for (int p = 0; p < PARTS; p++)
            memcpy(&to[t][p * LANES], &acc[p][t], sizeof acc[p][t]);
}

HOT_INLINE void tile_body(const struct code_traits f, const struct rows16_slab *slabs, int n,
                          const struct matmul_block *x, float out[MATMUL_TILE][ROWS16_ROWS])
{
    const struct block_reader r = { .codes = codes_slab, .scales = scales_slab, .phases = 1 };
    lanes_f32 acc[PARTS][MATMUL_TILE], head[PARTS][2] = { 0 };
    load_acc(MATMUL_TILE, out, acc);
    for (int i = 0; i < n; i++)
        add_slab(f, r, (const uint8_t *)&slabs[i], 0, 0, head, MATMUL_TILE, &x[i], acc);
    store_acc(MATMUL_TILE, acc, out);
}

HOT_INLINE void direct_body(const struct code_traits f, const struct block_reader r,
                            const uint8_t *group, int64_t n_slabs, int n,
                            const struct matmul_block *x, float out[MATMUL_TILE][ROWS16_ROWS])
{
    lanes_f32 acc[PARTS][MATMUL_TILE], head[PARTS][2];
    load_acc(n, out, acc);
    const size_t turn_bytes = r.bytes / (size_t)(r.slabs / r.phases);
    for (int64_t i = 0; i < n_slabs; i += r.slabs, group += r.bytes) {
        UNROLL
        for (int p = 0; p < PARTS; p++)
            r.heads(group, p, head[p]);
        for (int turn = 0; turn < r.slabs / r.phases; turn++, x += r.phases) {
            for (size_t line = 0; line < turn_bytes; line += 64)
                __builtin_prefetch(group + PREFETCH_BYTES + (size_t)turn * turn_bytes + line);
            UNROLL
            for (int phase = 0; phase < r.phases; phase++)
                add_slab(f, r, group, turn, phase, head, n, &x[phase], acc);
        }
    }
    store_acc(n, acc, out);
}

HOT_INLINE void unpack_slab(const struct code_traits f, const struct block_reader r,
                            const uint8_t *block, int turn, int phase, lanes_f32 head[PARTS][2],
                            struct rows16_slab *out)
{
    for (int p = 0; p < PARTS; p++) {
        lanes_f32 scale[2], min[2];
        UNROLL
        for (int step = 0; step < ROWS16_STEPS; step++) {
            lanes_u32 q = r.codes(block, turn, phase, p, step);
            memcpy(&out->q[step][p * LANES], &q, sizeof q);
        }
        r.scales(block, turn * r.phases + phase, p, head[p], scale, min);
        for (int g = 0; g < f.groups; g++) {
            memcpy(&out->scale[g][p * LANES], &scale[g], sizeof scale[g]);
            if (f.has_min)
                memcpy(&out->min[g][p * LANES], &min[g], sizeof min[g]);
        }
    }
}

HOT_INLINE void unpack_body(const struct code_traits f, const struct block_reader r,
                            const uint8_t *group, int64_t first, int n, struct rows16_slab *out)
{
    lanes_f32 head[PARTS][2];
    for (int64_t i = first; i < first + n; i++, out++) {
        const uint8_t *block = group + (size_t)(i / r.slabs) * r.bytes;
        int slab = (int)(i % r.slabs);
        for (int p = 0; p < PARTS; p++)
            r.heads(block, p, head[p]);
        unpack_slab(f, r, block, slab / r.phases, slab % r.phases, head, out);
    }
}

#define TRAITS(bits_, groups_, min_, shift_) \
    (struct code_traits) { .bits = bits_, .groups = groups_, .shift = shift_, .has_min = min_ }

#define DEFINE_TILE(name, bits, groups, min, shift)                                                \
    static void tile_##name(const struct rows16_slab *slabs, int n, const struct matmul_block *x,  \
                            float acc[MATMUL_TILE][ROWS16_ROWS])                                   \
    {                                                                                              \
        tile_body(TRAITS(bits, groups, min, shift), slabs, n, x, acc);                             \
    }

#define READER(name)                                                                               \
    (struct block_reader)                                                                          \
    {                                                                                              \
        .codes = codes_##name, .heads = heads_##name, .scales = scales_##name,                     \
        .slabs = ROWS16_COLUMNS_##name / 32, .phases = PHASES_##name, .bytes = ROWS16_BYTES_##name \
    }

/* Three tokens are computed as four. */
#define DEFINE_PLANES(name, bits, groups, min, shift)                                              \
    static void unpack_##name(const uint8_t *group, int64_t first, int n, struct rows16_slab *out) \
    {                                                                                              \
        unpack_body(TRAITS(bits, groups, min, shift), READER(name), group, first, n, out);         \
    }                                                                                              \
    static void direct_##name(const uint8_t *group, int64_t n_slabs, const struct matmul_block *x, \
                              int n_tokens, float acc[MATMUL_TILE][ROWS16_ROWS])                   \
    {                                                                                              \
        const struct code_traits f = TRAITS(bits, groups, min, shift);                             \
        if (n_tokens == 1)                                                                         \
            direct_body(f, READER(name), group, n_slabs, 1, x, acc);                               \
        else if (n_tokens == 2)                                                                    \
            direct_body(f, READER(name), group, n_slabs, 2, x, acc);                               \
        else                                                                                       \
            direct_body(f, READER(name), group, n_slabs, 4, x, acc);                               \
    }

ROWS16_PLANES_LIST(DEFINE_TILE)
ROWS16_BLOCKS_LIST(DEFINE_TILE)
ROWS16_PLANES_LIST(DEFINE_PLANES)

#define TILE_ENTRY(name, bits, groups, min, shift) [TENSOR_TYPE_##name] = tile_##name,
#define UNPACK_ENTRY(name, bits, groups, min, shift) [TENSOR_TYPE_##name] = unpack_##name,
#define DIRECT_ENTRY(name, bits, groups, min, shift) [TENSOR_TYPE_##name] = direct_##name,

/* A tile of f32 products; a K block is summed from zero, then added. */
static void tile_f32_lanes(const float *w, int n_cols, const float *x,
                           float out[MATMUL_TILE][ROWS16_ROWS])
{
    lanes_f32 sum[PARTS][MATMUL_TILE] = { 0 }, acc[PARTS][MATMUL_TILE];
    for (int c = 0; c < n_cols; c++, w += ROWS16_ROWS, x += MATMUL_TILE) {
        lanes_f32 row[PARTS];
        UNROLL
        for (int p = 0; p < PARTS; p++)
            memcpy(&row[p], w + p * LANES, sizeof row[p]);
        UNROLL
        for (int t = 0; t < MATMUL_TILE; t++) {
            lanes_f32 xs = splat_f32(x + t);
            UNROLL
            for (int p = 0; p < PARTS; p++)
                sum[p][t] = lanes_fma(row[p], xs, sum[p][t]);
        }
    }
    load_acc(MATMUL_TILE, out, acc);
    UNROLL
    for (int t = 0; t < MATMUL_TILE; t++)
        UNROLL
        for (int p = 0; p < PARTS; p++)
            acc[p][t] += sum[p][t];
    store_acc(MATMUL_TILE, acc, out);
}

static void bf16_lanes(const void *in, float *out, int64_t n)
{
    const uint8_t *bytes = in;
    for (int64_t i = 0; i < n; i += LANES) {
        uint16_t h[LANES];
        memcpy(h, bytes + 2 * i, sizeof h);
        for (int l = 0; l < LANES; l++)
            out[i + l] = bf16_to_f32(h[l]);
    }
}

#endif
