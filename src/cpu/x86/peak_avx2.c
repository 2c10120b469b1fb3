/* Accumulators begin with different values: equal ones would be merged by the compiler. */
#include <immintrin.h>

#include "cpu/peak.h"

#define N_CHAINS 12 /* enough to hide the latency of two units, few enough for 16 registers */

/* Keeps a vector in a register and hides from the compiler what is in it. */
#define OPAQUE(v) __asm__ volatile("" : "+x"(v))

static float sum(__m256 v)
{
    float lane[8], all = 0;
    _mm256_storeu_ps(lane, v);
    for (int i = 0; i < 8; i++)
        all += lane[i];
    return all;
}

static float run_f32(int64_t rounds)
{
    __m256 a[N_CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    for (int i = 0; i < N_CHAINS; i++)
        a[i] = _mm256_set1_ps((float)i * 0.1f);
    for (int64_t r = 0; r < rounds; r++) {
        OPAQUE(x);
#pragma GCC unroll 12
        for (int i = 0; i < N_CHAINS; i++)
            a[i] = _mm256_fmadd_ps(a[i], x, y);
    }
    for (int i = 1; i < N_CHAINS; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    return sum(a[0]);
}

/* Unsigned times signed bytes to 16 bits, those to 32 bits, and the sum: what a product of
 * quantized rows needs without dot product instructions. */
static float run_int8(int64_t rounds)
{
    __m256i a[N_CHAINS], codes = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < N_CHAINS; i++)
        a[i] = _mm256_set1_epi32(i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < N_CHAINS; i++) {
            OPAQUE(codes);
            __m256i pairs = _mm256_maddubs_epi16(codes, x);
            a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int i = 1; i < N_CHAINS; i++)
        a[0] = _mm256_add_epi32(a[0], a[i]);
    return sum(_mm256_cvtepi32_ps(a[0]));
}

static float run_read(const void *bytes, int64_t n)
{
    const char *at = bytes, *end = at + n;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (; at < end; at += 256) {
        _mm_prefetch(at + 4096, _MM_HINT_T0);
        _mm_prefetch(at + 4160, _MM_HINT_T0);
        _mm_prefetch(at + 4224, _MM_HINT_T0);
        _mm_prefetch(at + 4288, _MM_HINT_T0);
        const __m256i *v = (const __m256i *)at;
        a = _mm256_xor_si256(a, _mm256_xor_si256(_mm256_load_si256(v), _mm256_load_si256(v + 4)));
        b = _mm256_xor_si256(b, _mm256_xor_si256(_mm256_load_si256(v + 1),
                                                 _mm256_load_si256(v + 5)));
        c = _mm256_xor_si256(c, _mm256_xor_si256(_mm256_load_si256(v + 2),
                                                 _mm256_load_si256(v + 6)));
        d = _mm256_xor_si256(d, _mm256_xor_si256(_mm256_load_si256(v + 3),
                                                 _mm256_load_si256(v + 7)));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    return sum(_mm256_cvtepi32_ps(a));
}

const struct peak_kernels peak_kernels_avx2 = {
    .isa = "avx2",
    .f32 = run_f32,
    .int8 = run_int8,
    .read = run_read,
    .f32_ops = N_CHAINS * 8 * 2,
    .int8_ops = N_CHAINS * 32 * 2,
};
