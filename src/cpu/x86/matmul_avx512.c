/* Matrix products with AVX-512 VNNI: vpdpbusd on unsigned codes and signed activations. Eight-bit
 * codes keep their offset of 128, which the exact sum of the activations takes off again. */
#include <immintrin.h>

#define LANES 16
#define LANES_F16
#define LANES_TABLE
#define LANES_WIDEN
#define LANES_SIGNED_8 0
#define LANES_RUN(bits) ROWS16_STEPS
#define PREFETCH_BYTES 2048

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

HOT_INLINE __attribute__((vector_size(64))) float lanes_f16(const void *p)
{
    return (__attribute__((vector_size(64))) float)_mm512_cvtph_ps(_mm256_loadu_si256(p));
}

HOT_INLINE __attribute__((vector_size(64))) uint32_t
lanes_table(__attribute__((vector_size(64))) uint32_t index, const int8_t table[16])
{
    __m512i entries = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
    return (__attribute__((vector_size(64))) uint32_t)_mm512_shuffle_epi8(entries, (__m512i)index);
}

HOT_INLINE __attribute__((vector_size(64))) int32_t lanes_u8_i32(const void *p)
{
    return (__attribute__((vector_size(64))) int32_t)_mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}

HOT_INLINE __attribute__((vector_size(64))) int32_t lanes_i8_i32(const void *p)
{
    return (__attribute__((vector_size(64))) int32_t)_mm512_cvtepi8_epi32(_mm_loadu_si128(p));
}

#include "cpu/rows16_unpack.h"

HOT_INLINE lanes_f32 lanes_fma(lanes_f32 a, lanes_f32 b, lanes_f32 c)
{
    return (lanes_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

HOT_INLINE lanes_f32 lanes_fnma(lanes_f32 a, lanes_f32 b, lanes_f32 c)
{
    return (lanes_f32)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

HOT_INLINE void lanes_dot_step(int bits, bool run_first, bool run_last, bool any, lanes_u32 q,
                               lanes_u32 x, lanes_i32 *mid, lanes_i32 *dot)
{
    (void)bits, (void)run_last, (void)any, (void)mid;
    __m512i before = run_first ? _mm512_setzero_si512() : (__m512i)*dot;
    *dot = (lanes_i32)_mm512_dpbusd_epi32(before, (__m512i)q, (__m512i)x);
}

#include "cpu/matmul_body.h"

static bool available(const struct cpu_features *features)
{
    return features->avx512;
}

/* What makes scale * q the nearest to x in the mean square: sum(xq) / sum(qq), x in steps. */
static inline float best_factor(__m512 low, __m512 high, __m512 q_low, __m512 q_high)
{
    __m512 xq = _mm512_fmadd_ps(high, q_high, _mm512_mul_ps(low, q_low));
    __m512 qq = _mm512_fmadd_ps(q_high, q_high, _mm512_mul_ps(q_low, q_low));
    return _mm512_reduce_add_ps(xq) / _mm512_reduce_add_ps(qq);
}

/* Two vectors of the 32 columns of one token. */
static inline void quantize_block(const float *x, struct matmul_block *out, int token)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    __m512i largest = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                       _mm512_and_si512(_mm512_castps_si512(high), magnitude));
    float amax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(
        (int)_mm512_reduce_max_epu32(largest))));
    bool usable = amax > 1e-30f && amax <= 3.4e38f;
    __m512i q[2] = { _mm512_setzero_si512(), _mm512_setzero_si512() };
    float scale = amax / 127.0f;
    if (usable) {
        __m512 inverse = _mm512_set1_ps(127.0f / amax);
        low = _mm512_mul_ps(low, inverse);
        high = _mm512_mul_ps(high, inverse);
        q[0] = _mm512_cvtps_epi32(low);
        q[1] = _mm512_cvtps_epi32(high);
        scale *= best_factor(low, high, _mm512_cvtepi32_ps(q[0]), _mm512_cvtepi32_ps(q[1]));
    }
    int sum[3] = { _mm512_reduce_add_epi32(q[0]), _mm512_reduce_add_epi32(q[1]), 0 };
    sum[2] = sum[0] + sum[1];
    uint32_t dword[8];
    _mm_storeu_si128((void *)dword, _mm512_cvtepi32_epi8(q[0]));
    _mm_storeu_si128((void *)(dword + 4), _mm512_cvtepi32_epi8(q[1]));
    for (int i = 0; i < 8; i++)
        memcpy(out->q[i][token], &dword[i], 4);
    out->scale[token] = scale;
    for (int g = 0; g < 3; g++) {
        out->code_sum[g][token] = sum[g];
        out->sum[g][token] = scale * (float)sum[g];
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

static void from_f16(const void *in, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        lanes_f32 v = lanes_f16((const uint8_t *)in + 2 * i);
        memcpy(out + i, &v, sizeof v);
    }
}

const struct matmul_kernels matmul_kernels_avx512 = {
    .name = "avx512",
    .available = available,
    .quantize = quantize,
    .unpack = { ROWS16_PLANES_LIST(UNPACK_ENTRY) },
    .tile = { ROWS16_PLANES_LIST(TILE_ENTRY) ROWS16_BLOCKS_LIST(TILE_ENTRY) },
    .direct = { ROWS16_PLANES_LIST(DIRECT_ENTRY) },
    .tile_f32 = tile_f32_lanes,
    .from_f16 = from_f16,
    .from_bf16 = bf16_lanes,
};
