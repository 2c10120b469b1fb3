/* vec_neon: the vector vocabulary on 128-bit NEON registers. Included by *_neon.c files only. */
#ifndef CPU_ARM_VEC_NEON_H
#define CPU_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#include "base/compiler.h"

#define VF float32x4_t
#define VF_LANES 4

HOT_INLINE VF vf_load(const float *p) { return vld1q_f32(p); }
HOT_INLINE void vf_store(float *p, VF a) { vst1q_f32(p, a); }
HOT_INLINE VF vf_set(float a) { return vdupq_n_f32(a); }
HOT_INLINE VF vf_add(VF a, VF b) { return vaddq_f32(a, b); }
HOT_INLINE VF vf_sub(VF a, VF b) { return vsubq_f32(a, b); }
HOT_INLINE VF vf_mul(VF a, VF b) { return vmulq_f32(a, b); }
HOT_INLINE VF vf_div(VF a, VF b) { return vdivq_f32(a, b); }
HOT_INLINE VF vf_fma(VF a, VF b, VF c) { return vfmaq_f32(c, a, b); }
HOT_INLINE VF vf_max(VF a, VF b) { return vmaxq_f32(a, b); }
HOT_INLINE VF vf_min(VF a, VF b) { return vminq_f32(a, b); }
HOT_INLINE VF vf_abs(VF a) { return vabsq_f32(a); }
HOT_INLINE VF vf_index(void)
{
    static const float index[4] = { 0, 1, 2, 3 };
    return vld1q_f32(index);
}

/* The first n lanes, n < 4; the others are zero and their memory is not touched. */
HOT_INLINE VF vf_load_part(const float *p, int64_t n)
{
    float lane[4] = { 0 };
    for (int64_t i = 0; i < n; i++)
        lane[i] = p[i];
    return vld1q_f32(lane);
}
HOT_INLINE void vf_store_part(float *p, VF a, int64_t n)
{
    float lane[4];
    vst1q_f32(lane, a);
    for (int64_t i = 0; i < n; i++)
        p[i] = lane[i];
}

/* a < b ? x : y */
HOT_INLINE VF vf_where_less(VF a, VF b, VF x, VF y)
{
    return vbslq_f32(vcltq_f32(a, b), x, y);
}
HOT_INLINE VF vf_round(VF a) { return vrndnq_f32(a); }
/* 2^n for whole n from -127 (gives 0) to 128 (gives infinity) */
HOT_INLINE VF vf_pow2(VF n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
HOT_INLINE float vf_sum(VF a) { return vaddvq_f32(a); }
HOT_INLINE float vf_largest(VF a) { return vmaxvq_f32(a); }
HOT_INLINE VF vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
/* One binary16 in all lanes. */
HOT_INLINE VF vf_set_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(*p)));
}
HOT_INLINE VF vf_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
HOT_INLINE VF vf_load_i8(const int8_t *p)
{
    int32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(word));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}

/* Whole numbers of 32 bits, one for each lane. */
#define VI uint32x4_t
HOT_INLINE VI vi_load_u8(const uint8_t *p)
{
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)))));
}
HOT_INLINE VI vi_set(int a) { return vdupq_n_u32((uint32_t)a); }
HOT_INLINE VI vi_and(VI a, VI b) { return vandq_u32(a, b); }
HOT_INLINE VI vi_or(VI a, VI b) { return vorrq_u32(a, b); }
HOT_INLINE VI vi_sub(VI a, VI b) { return vsubq_u32(a, b); }
HOT_INLINE VI vi_shift_left(VI a, int n) { return vshlq_u32(a, vdupq_n_s32(n)); }
HOT_INLINE VI vi_shift_right(VI a, int n) { return vshlq_u32(a, vdupq_n_s32(-n)); }
HOT_INLINE VF vf_of_vi(VI a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
/* Lane l: the number that starts at bit `bits` * (i + l), with anything above its bits. i is a
 * multiple of the lanes; no byte behind the last number is read. */
HOT_INLINE VI vi_bits3(const uint8_t *p, int i)
{
    static const int32_t shift[4] = { 0, -3, -6, -9 };
    const uint8_t *q = p + i * 3 / 8;
    uint32_t word = (uint32_t)(q[0] | q[1] << 8) >> i * 3 % 8;
    return vshlq_u32(vdupq_n_u32(word), vld1q_s32(shift));
}
HOT_INLINE VI vi_bits4(const uint8_t *p, int i)
{
    static const int32_t shift[4] = { 0, -4, -8, -12 };
    const uint8_t *q = p + i / 2;
    return vshlq_u32(vdupq_n_u32((uint32_t)(q[0] | q[1] << 8)), vld1q_s32(shift));
}
/* table[a mod 8], table[a mod 16] */
HOT_INLINE VF vf_table8(const float *table, VI a)
{
    uint8x16x2_t bytes = { { vld1q_u8((const uint8_t *)table),
                             vld1q_u8((const uint8_t *)(table + 4)) } };
    VI at = vaddq_u32(vmulq_n_u32(vi_and(a, vi_set(7)), 0x04040404u), vdupq_n_u32(0x03020100u));
    return vreinterpretq_f32_u8(vqtbl2q_u8(bytes, vreinterpretq_u8_u32(at)));
}
HOT_INLINE VF vf_table16(const float *table, VI a)
{
    uint8x16x4_t bytes = { { vld1q_u8((const uint8_t *)table),
                             vld1q_u8((const uint8_t *)(table + 4)),
                             vld1q_u8((const uint8_t *)(table + 8)),
                             vld1q_u8((const uint8_t *)(table + 12)) } };
    VI at = vaddq_u32(vmulq_n_u32(vi_and(a, vi_set(15)), 0x04040404u), vdupq_n_u32(0x03020100u));
    return vreinterpretq_f32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(at)));
}
/* e4m3 is binary16 with a bias that is 8 less, so 256 times what its bits mean there. */
HOT_INLINE VF vf_load_e4m3(const uint8_t *p)
{
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    uint16x4_t code = vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word))));
    uint16x4_t magnitude = vshl_n_u16(vand_u16(code, vdup_n_u16(0x7F)), 7);
    uint16x4_t sign = vshl_n_u16(vshr_n_u16(code, 7), 15);
    uint16x4_t nan = vceq_u16(magnitude, vdup_n_u16(0x3F80));
    uint16x4_t half = vorr_u16(vorr_u16(magnitude, sign), nan);
    return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(half)), 256.0f);
}

/* Pairs (even, odd lanes): re and im of 4 neighbouring pairs, and back. */
HOT_INLINE void vf_load_pairs(const float *p, VF *even, VF *odd)
{
    float32x4x2_t both = vld2q_f32(p);
    *even = both.val[0];
    *odd = both.val[1];
}
HOT_INLINE void vf_store_pairs(float *p, VF even, VF odd)
{
    float32x4x2_t both = { { even, odd } };
    vst2q_f32(p, both);
}

#endif
