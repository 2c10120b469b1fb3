/* Accumulators begin with different values: equal ones would be merged by the compiler. */
#include <immintrin.h>

#include "cpu/peak.h"

#define N_CHAINS 12 /* hides the latency of two units */

/* Keeps a vector in a register and hides from the compiler what is in it. */
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))

static float run_bf16(int64_t rounds)
{
    __m512 a[N_CHAINS];
    __m512i small = _mm512_set1_epi16(0x3c23), x = _mm512_set1_epi16(0x3c24); /* about 0.01 */
#pragma GCC unroll 12
    for (int i = 0; i < N_CHAINS; i++)
        a[i] = _mm512_set1_ps((float)i * 0.1f);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < N_CHAINS; i++) {
            a[i] = _mm512_dpbf16_ps(a[i], (__m512bh)small, (__m512bh)x);
            OPAQUE(a[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < N_CHAINS; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    float lane[16], all = 0;
    _mm512_storeu_ps(lane, a[0]);
    for (int i = 0; i < 16; i++)
        all += lane[i];
    return all;
}

const struct peak_loop peak_bf16_avx512bf16 = { .run = run_bf16, .ops = N_CHAINS * 32 * 2 };
