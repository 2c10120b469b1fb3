/* vec_avx512: the vector vocabulary on 512-bit registers. Included by *_avx512.c files only. */
#ifndef CPU_X86_VEC_AVX512_H
#define CPU_X86_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define VF __m512
#define VF_LANES 16

HOT_INLINE VF vf_load(const float *p) { return _mm512_loadu_ps(p); }
HOT_INLINE void vf_store(float *p, VF a) { _mm512_storeu_ps(p, a); }
HOT_INLINE VF vf_set(float a) { return _mm512_set1_ps(a); }
HOT_INLINE VF vf_add(VF a, VF b) { return _mm512_add_ps(a, b); }
HOT_INLINE VF vf_sub(VF a, VF b) { return _mm512_sub_ps(a, b); }
HOT_INLINE VF vf_mul(VF a, VF b) { return _mm512_mul_ps(a, b); }
HOT_INLINE VF vf_div(VF a, VF b) { return _mm512_div_ps(a, b); }
HOT_INLINE VF vf_fma(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
HOT_INLINE VF vf_max(VF a, VF b) { return _mm512_max_ps(a, b); }
HOT_INLINE VF vf_min(VF a, VF b) { return _mm512_min_ps(a, b); }
HOT_INLINE VF vf_abs(VF a) { return _mm512_abs_ps(a); }
HOT_INLINE VF vf_index(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

HOT_INLINE __mmask16 vf_part_mask(int64_t n)
{
    return (__mmask16)((1u << n) - 1u);
}
/* The first n lanes, n < 16; the others are zero and their memory is not touched. */
HOT_INLINE VF vf_load_part(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(vf_part_mask(n), p);
}
HOT_INLINE void vf_store_part(float *p, VF a, int64_t n)
{
    _mm512_mask_storeu_ps(p, vf_part_mask(n), a);
}

/* a < b ? x : y */
HOT_INLINE VF vf_where_less(VF a, VF b, VF x, VF y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
/* For numbers within a binary32's whole range of int32. */
HOT_INLINE VF vf_round(VF a)
{
    return _mm512_cvtepi32_ps(_mm512_cvtps_epi32(a));
}
/* 2^n for whole n from -127 (gives 0) to 128 (gives infinity) */
HOT_INLINE VF vf_pow2(VF n)
{
    __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}
HOT_INLINE float vf_sum(VF a) { return _mm512_reduce_add_ps(a); }
HOT_INLINE float vf_largest(VF a) { return _mm512_reduce_max_ps(a); }
HOT_INLINE VF vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
/* One binary16 in all lanes. */
HOT_INLINE VF vf_set_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)*p));
}
HOT_INLINE VF vf_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
HOT_INLINE VF vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* Whole numbers of 32 bits, one for each lane. */
#define VI __m512i
HOT_INLINE VI vi_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
HOT_INLINE VI vi_set(int a) { return _mm512_set1_epi32(a); }
HOT_INLINE VI vi_and(VI a, VI b) { return _mm512_and_si512(a, b); }
HOT_INLINE VI vi_or(VI a, VI b) { return _mm512_or_si512(a, b); }
HOT_INLINE VI vi_sub(VI a, VI b) { return _mm512_sub_epi32(a, b); }
HOT_INLINE VI vi_shift_left(VI a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
HOT_INLINE VI vi_shift_right(VI a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
HOT_INLINE VF vf_of_vi(VI a) { return _mm512_cvtepi32_ps(a); }
/* `low` in the lower eight lanes, `high` in the upper ones, lane l shifted by step * (l mod 8) */
HOT_INLINE VI vi_spread(int low, int high, int step)
{
    VI word = _mm512_mask_blend_epi32(0xFF00, _mm512_set1_epi32(low), _mm512_set1_epi32(high));
    VI lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    return _mm512_srlv_epi32(word, _mm512_mullo_epi32(lane, _mm512_set1_epi32(step)));
}
/* Lane l: the number that starts at bit `bits` * (i + l), with anything above its bits. i is a
 * multiple of the lanes; no byte behind the last number is read. */
HOT_INLINE VI vi_bits3(const uint8_t *p, int i)
{
    const uint8_t *q = p + i / 8 * 3;
    return vi_spread(q[0] | q[1] << 8 | q[2] << 16, q[3] | q[4] << 8 | q[5] << 16, 3);
}
HOT_INLINE VI vi_bits4(const uint8_t *p, int i)
{
    int word[2];
    memcpy(word, p + i / 2, sizeof word);
    return vi_spread(word[0], word[1], 4);
}
/* table[a mod 8], table[a mod 16] */
HOT_INLINE VF vf_table8(const float *table, VI a)
{
    VF t = _mm512_castps256_ps512(_mm256_loadu_ps(table));
    return _mm512_permutexvar_ps(vi_and(a, vi_set(7)), t);
}
HOT_INLINE VF vf_table16(const float *table, VI a)
{
    return _mm512_permutexvar_ps(a, _mm512_loadu_ps(table));
}
/* e4m3 is binary16 with a bias that is 8 less, so 256 times what its bits mean there. */
HOT_INLINE VF vf_load_e4m3(const uint8_t *p)
{
    __m256i code = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    __m256i magnitude = _mm256_slli_epi16(_mm256_and_si256(code, _mm256_set1_epi16(0x7F)), 7);
    __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(code, 7), 15);
    __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x3F80));
    __m256i half = _mm256_or_si256(_mm256_or_si256(magnitude, sign), nan);
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
}

/* Pairs (even, odd lanes): re and im of 16 neighbouring pairs, and back. */
HOT_INLINE void vf_load_pairs(const float *p, VF *even, VF *odd)
{
    __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    VF a = vf_load(p), b = vf_load(p + 16);
    *even = _mm512_permutex2var_ps(a, at, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(1)), b);
}
HOT_INLINE void vf_store_pairs(float *p, VF even, VF odd)
{
    __m512i at = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    vf_store(p, _mm512_permutex2var_ps(even, at, odd));
    vf_store(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(at, _mm512_set1_epi32(8)), odd));
}

#endif
