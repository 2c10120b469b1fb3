/* Accumulators begin with different values: equal ones would be merged by the compiler. */
#include <immintrin.h>

#include "cpu/peak.h"

#define N_CHAINS 12 /* hides the latency of two units */

/* Keeps a vector in a register and hides from the compiler what is in it: gcc 12 otherwise moves
 * accumulators through memory, as it does when a loop over them is not unrolled. */
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))

static float sum(__m512 v)
{
    float lane[16], all = 0;
    _mm512_storeu_ps(lane, v);
    for (int i = 0; i < 16; i++)
        all += lane[i];
    return all;
}

static float run_f32(int64_t rounds)
{
    __m512 a[N_CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int i = 0; i < N_CHAINS; i++)
        a[i] = _mm512_set1_ps((float)i * 0.1f);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < N_CHAINS; i++) {
            a[i] = _mm512_fmadd_ps(a[i], x, y);
            OPAQUE(a[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < N_CHAINS; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    return sum(a[0]);
}

/* VNNI: four products of unsigned and signed bytes and their sum in one instruction. */
static float run_int8(int64_t rounds)
{
    __m512i a[N_CHAINS], codes = _mm512_set1_epi8(3), x = _mm512_set1_epi8(5);
#pragma GCC unroll 12
    for (int i = 0; i < N_CHAINS; i++)
        a[i] = _mm512_set1_epi32(i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < N_CHAINS; i++) {
            a[i] = _mm512_dpbusd_epi32(a[i], codes, x);
            OPAQUE(a[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < N_CHAINS; i++)
        a[0] = _mm512_add_epi32(a[0], a[i]);
    return sum(_mm512_cvtepi32_ps(a[0]));
}

static float run_read(const void *bytes, int64_t n)
{
    const char *at = bytes, *end = at + n;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (; at < end; at += 256) {
        _mm_prefetch(at + 4096, _MM_HINT_T0);
        _mm_prefetch(at + 4160, _MM_HINT_T0);
        _mm_prefetch(at + 4224, _MM_HINT_T0);
        _mm_prefetch(at + 4288, _MM_HINT_T0);
        a = _mm512_xor_si512(a, _mm512_loadu_si512(at));
        b = _mm512_xor_si512(b, _mm512_loadu_si512(at + 64));
        c = _mm512_xor_si512(c, _mm512_loadu_si512(at + 128));
        d = _mm512_xor_si512(d, _mm512_loadu_si512(at + 192));
    }
    a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
    return sum(_mm512_cvtepi32_ps(a));
}

const struct peak_kernels peak_kernels_avx512 = {
    .isa = "avx512",
    .f32 = run_f32,
    .int8 = run_int8,
    .read = run_read,
    .f32_ops = N_CHAINS * 16 * 2,
    .int8_ops = N_CHAINS * 64 * 2,
};
