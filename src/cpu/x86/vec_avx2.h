/* vec_avx2: the vector vocabulary on 256-bit registers. Included by *_avx2.c files only. */
#ifndef CPU_X86_VEC_AVX2_H
#define CPU_X86_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define VF __m256
#define VF_LANES 8

HOT_INLINE VF vf_load(const float *p) { return _mm256_loadu_ps(p); }
HOT_INLINE void vf_store(float *p, VF a) { _mm256_storeu_ps(p, a); }
HOT_INLINE VF vf_set(float a) { return _mm256_set1_ps(a); }
HOT_INLINE VF vf_add(VF a, VF b) { return _mm256_add_ps(a, b); }
HOT_INLINE VF vf_sub(VF a, VF b) { return _mm256_sub_ps(a, b); }
HOT_INLINE VF vf_mul(VF a, VF b) { return _mm256_mul_ps(a, b); }
HOT_INLINE VF vf_div(VF a, VF b) { return _mm256_div_ps(a, b); }
HOT_INLINE VF vf_fma(VF a, VF b, VF c) { return _mm256_fmadd_ps(a, b, c); }
HOT_INLINE VF vf_max(VF a, VF b) { return _mm256_max_ps(a, b); }
HOT_INLINE VF vf_min(VF a, VF b) { return _mm256_min_ps(a, b); }
HOT_INLINE VF vf_abs(VF a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
HOT_INLINE VF vf_index(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }

HOT_INLINE __m256i vf_part_mask(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/* The first n lanes; the others are zero and their memory is not touched. */
HOT_INLINE VF vf_load_part(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, vf_part_mask(n));
}
HOT_INLINE void vf_store_part(float *p, VF a, int64_t n)
{
    _mm256_maskstore_ps(p, vf_part_mask(n), a);
}

/* a < b ? x : y */
HOT_INLINE VF vf_where_less(VF a, VF b, VF x, VF y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
HOT_INLINE VF vf_round(VF a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* 2^n for whole n from -127 (gives 0) to 128 (gives infinity) */
HOT_INLINE VF vf_pow2(VF n)
{
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
HOT_INLINE float vf_sum(VF a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
HOT_INLINE float vf_largest(VF a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
HOT_INLINE VF vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
/* One binary16 in all lanes. */
HOT_INLINE VF vf_set_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_set1_epi16((short)*p));
}
HOT_INLINE VF vf_load_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
HOT_INLINE VF vf_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* Whole numbers of 32 bits, one for each lane. */
#define VI __m256i
HOT_INLINE VI vi_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
HOT_INLINE VI vi_set(int a) { return _mm256_set1_epi32(a); }
HOT_INLINE VI vi_and(VI a, VI b) { return _mm256_and_si256(a, b); }
HOT_INLINE VI vi_or(VI a, VI b) { return _mm256_or_si256(a, b); }
HOT_INLINE VI vi_sub(VI a, VI b) { return _mm256_sub_epi32(a, b); }
HOT_INLINE VI vi_shift_left(VI a, int n) { return _mm256_slli_epi32(a, n); }
HOT_INLINE VI vi_shift_right(VI a, int n) { return _mm256_srli_epi32(a, n); }
HOT_INLINE VF vf_of_vi(VI a) { return _mm256_cvtepi32_ps(a); }
/* Lane l: the number that starts at bit `bits` * (i + l), with anything above its bits. i is a
 * multiple of the lanes; no byte behind the last number is read. */
HOT_INLINE VI vi_bits3(const uint8_t *p, int i)
{
    const uint8_t *q = p + i / 8 * 3;
    int word = q[0] | q[1] << 8 | q[2] << 16;
    return _mm256_srlv_epi32(_mm256_set1_epi32(word),
                             _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21));
}
HOT_INLINE VI vi_bits4(const uint8_t *p, int i)
{
    int word;
    memcpy(&word, p + i / 2, sizeof word);
    return _mm256_srlv_epi32(_mm256_set1_epi32(word),
                             _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}
/* table[a mod 8], table[a mod 16] */
HOT_INLINE VF vf_table8(const float *table, VI a)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), a);
}
HOT_INLINE VF vf_table16(const float *table, VI a)
{
    VF low = vf_table8(table, a), high = vf_table8(table + 8, a);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(a, 28)));
}
/* e4m3 is binary16 with a bias that is 8 less, so 256 times what its bits mean there. */
HOT_INLINE VF vf_load_e4m3(const uint8_t *p)
{
    __m128i code = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)p));
    __m128i magnitude = _mm_slli_epi16(_mm_and_si128(code, _mm_set1_epi16(0x7F)), 7);
    __m128i sign = _mm_slli_epi16(_mm_srli_epi16(code, 7), 15);
    __m128i nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x3F80));
    __m128i half = _mm_or_si128(_mm_or_si128(magnitude, sign), nan);
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
}

/* Pairs (even, odd lanes): re and im of 8 neighbouring pairs, and back. */
HOT_INLINE void vf_load_pairs(const float *p, VF *even, VF *odd)
{
    VF a = vf_load(p), b = vf_load(p + 8);
    VF low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    *even = _mm256_shuffle_ps(low, high, 0x88);
    *odd = _mm256_shuffle_ps(low, high, 0xDD);
}
HOT_INLINE void vf_store_pairs(float *p, VF even, VF odd)
{
    VF low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    vf_store(p, _mm256_permute2f128_ps(low, high, 0x20));
    vf_store(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

#endif
