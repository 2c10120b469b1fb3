/* Matrix products with AVX2 and FMA: vpmaddubsw on unsigned codes and signed activations.
 *
 * vpmaddubsw sums two products in 16 bits. With codes below 2^bits and activations of at most 127,
 * `run` such sums still fit: 2^bits * 127 * 2 * run < 2^15, so only every run-th step widens to 32
 * bits. Eight-bit codes give their sign to the activation, which never is -128, and stay within
 * 128 * 127 * 2. */
#include <immintrin.h>

#define LANES 8
#define LANES_F16
#define LANES_TABLE
#define LANES_WIDEN
#define LANES_SIGNED_8 1
#define LANES_RUN(bits) ((bits) <= 4 ? 8 : (bits) == 5 ? 4 : (bits) == 6 ? 2 : 1)
#define PREFETCH_BYTES 2048

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

HOT_INLINE __attribute__((vector_size(32))) float lanes_f16(const void *p)
{
    return (__attribute__((vector_size(32))) float)_mm256_cvtph_ps(_mm_loadu_si128(p));
}

HOT_INLINE __attribute__((vector_size(32))) uint32_t
lanes_table(__attribute__((vector_size(32))) uint32_t index, const int8_t table[16])
{
    __m256i entries = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
    return (__attribute__((vector_size(32))) uint32_t)_mm256_shuffle_epi8(entries, (__m256i)index);
}

HOT_INLINE __attribute__((vector_size(32))) int32_t lanes_u8_i32(const void *p)
{
    return (__attribute__((vector_size(32))) int32_t)_mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}

HOT_INLINE __attribute__((vector_size(32))) int32_t lanes_i8_i32(const void *p)
{
    return (__attribute__((vector_size(32))) int32_t)_mm256_cvtepi8_epi32(_mm_loadl_epi64(p));
}

#include "cpu/rows16_unpack.h"

HOT_INLINE lanes_f32 lanes_fma(lanes_f32 a, lanes_f32 b, lanes_f32 c)
{
    return (lanes_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

HOT_INLINE lanes_f32 lanes_fnma(lanes_f32 a, lanes_f32 b, lanes_f32 c)
{
    return (lanes_f32)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

HOT_INLINE void lanes_dot_step(int bits, bool run_first, bool run_last, bool any, lanes_u32 q,
                               lanes_u32 x, lanes_i32 *mid, lanes_i32 *dot)
{
    __m256i pairs;
    if (bits == 8) {
        __m256i w = (__m256i)(q ^ 0x80808080);
        pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8((__m256i)x, w));
    } else {
        pairs = _mm256_maddubs_epi16((__m256i)q, (__m256i)x);
    }
    if (!run_first)
        pairs = _mm256_add_epi16(pairs, (__m256i)*mid);
    if (!run_last) {
        __asm__("" : "+x"(pairs)); /* or the compiler reassociates the sums and spills them all */
        *mid = (lanes_i32)pairs;
        return;
    }
    lanes_i32 wide = (lanes_i32)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    wide = any ? *dot + wide : wide;
    __asm__("" : "+x"(wide));
    *dot = wide;
}

#include "cpu/matmul_body.h"

static bool available(const struct cpu_features *features)
{
    return features->avx2;
}

/* What makes scale * q the nearest to x in the mean square: sum(xq) / sum(qq), x in steps. */
static inline float best_factor(const __m256 v[4], __m256 inverse, const __m256i q[4])
{
    __m256 xq = _mm256_setzero_ps(), qq = _mm256_setzero_ps();
    for (int i = 0; i < 4; i++) {
        __m256 f = _mm256_cvtepi32_ps(q[i]);
        xq = _mm256_fmadd_ps(_mm256_mul_ps(v[i], inverse), f, xq);
        qq = _mm256_fmadd_ps(f, f, qq);
    }
    __m256 pairs = _mm256_hadd_ps(xq, qq);
    pairs = _mm256_hadd_ps(pairs, pairs);
    __m128 two = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    return _mm_cvtss_f32(two) / _mm_cvtss_f32(_mm_movehdup_ps(two));
}

/* Eight vectors of the 32 columns of one token. */
static inline void quantize_block(const float *x, struct matmul_block *out, int token)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    __m256 v[4];
    __m256i largest = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
    }
    __m128i m =
        _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
    float amax = _mm_cvtss_f32(_mm_castsi128_ps(m));
    bool usable = amax > 1e-30f && amax <= 3.4e38f;
    __m256 inverse = _mm256_set1_ps(usable ? 127.0f / amax : 0.0f);
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
    __m256i first = _mm256_add_epi32(q[0], q[1]), second = _mm256_add_epi32(q[2], q[3]);
    __m256i sums = _mm256_hadd_epi32(first, second);
    sums = _mm256_hadd_epi32(sums, sums);
    __m128i two = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    int32_t sum[3] = { _mm_cvtsi128_si32(two), _mm_extract_epi32(two, 1), 0 };
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if (!usable) {
        bytes = _mm256_setzero_si256();
        sum[0] = sum[1] = 0;
    }
    sum[2] = sum[0] + sum[1];
    uint32_t dword[8];
    _mm256_storeu_si256((__m256i *)dword, bytes);
    for (int i = 0; i < 8; i++)
        memcpy(out->q[i][token], &dword[i], 4);
    float scale = amax / 127.0f;
    if (usable)
        scale *= best_factor(v, inverse, q);
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

const struct matmul_kernels matmul_kernels_avx2 = {
    .name = "avx2",
    .available = available,
    .quantize = quantize,
    .unpack = { ROWS16_PLANES_LIST(UNPACK_ENTRY) },
    .tile = { ROWS16_PLANES_LIST(TILE_ENTRY) ROWS16_BLOCKS_LIST(TILE_ENTRY) },
    .direct = { ROWS16_PLANES_LIST(DIRECT_ENTRY) },
    .tile_f32 = tile_f32_lanes,
    .from_f16 = from_f16,
    .from_bf16 = bf16_lanes,
};
