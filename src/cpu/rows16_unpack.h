/* rows16_unpack: codes and scales of the planes types, one inline pair per type, for vectors of
 * LANES rows. Written with the compiler's vector types, so that each instruction set's kernels
 * include it once; the including file defines LANES (4, 8 or 16) and, where the set has better
 * instructions, LANES_F16 and LANES_TABLE. Layout: cpu/rows16.h.
 *   codes_T(block, slab, part, step): four columns of rows part * LANES and on
 *   scales_T(block, slab, part, scale, min): scale[g], min[g] of the slab's scale groups */
#ifndef CPU_ROWS16_UNPACK_H
#define CPU_ROWS16_UNPACK_H

#include <string.h>

#include "base/compiler.h"
#include "cpu/rows16.h"
#include "quant/codebooks.h"
#include "quant/float_convert.h"

#define PARTS (ROWS16_ROWS / LANES)

typedef uint32_t lanes_u32 __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_i32 __attribute__((vector_size(4 * LANES)));
typedef float lanes_f32 __attribute__((vector_size(4 * LANES)));
typedef uint8_t lanes_u8 __attribute__((vector_size(LANES)));
typedef int8_t lanes_i8 __attribute__((vector_size(LANES)));

HOT_INLINE lanes_u32 lanes_load(const void *p)
{
    lanes_u32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Vector i of a field of dwords. */
HOT_INLINE lanes_u32 dwords(const uint8_t *field, int i, int part)
{
    return lanes_load(field + 64 * i + 4 * LANES * part);
}

HOT_INLINE lanes_f32 from_u8(const uint8_t *field, int i, int part)
{
    lanes_u8 v;
    memcpy(&v, field + 16 * i + LANES * part, sizeof v);
    return __builtin_convertvector(__builtin_convertvector(v, lanes_i32), lanes_f32);
}

HOT_INLINE lanes_f32 from_i8(const uint8_t *field, int i, int part)
{
    lanes_i8 v;
    memcpy(&v, field + 16 * i + LANES * part, sizeof v);
    return __builtin_convertvector(__builtin_convertvector(v, lanes_i32), lanes_f32);
}

#ifndef LANES_F16
HOT_INLINE lanes_f32 lanes_f16(const void *p)
{
    uint16_t h[LANES];
    lanes_f32 v;
    memcpy(h, p, sizeof h);
    for (int i = 0; i < LANES; i++)
        v[i] = f16_to_f32(h[i]);
    return v;
}
#endif

#ifndef LANES_TABLE
/* table[low nibble] for each byte whose upper nibble is zero. */
HOT_INLINE lanes_u32 lanes_table(lanes_u32 index, const int8_t table[16])
{
    uint8_t byte[4 * LANES];
    memcpy(byte, &index, sizeof byte);
    for (int i = 0; i < 4 * LANES; i++)
        byte[i] = (uint8_t)table[byte[i] & 15];
    return lanes_load(byte);
}
#endif

/* Columns 4 * step and on of 32 nibbles in four dwords, low nibbles first. */
HOT_INLINE lanes_u32 nibbles(const uint8_t *field, int part, int step)
{
    return dwords(field, step % 4, part) >> 4 * (step / 4) & 0x0F0F0F0F;
}

HOT_INLINE lanes_f32 halves(const uint8_t *field, int part)
{
    return lanes_f16(field + 2 * LANES * part);
}

HOT_INLINE lanes_u32 codes_Q4_0(const uint8_t *b, int slab, int part, int step)
{
    (void)slab;
    return nibbles(b + 32, part, step);
}

HOT_INLINE void scales_Q4_0(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    (void)slab, (void)min;
    scale[0] = halves(b, part);
}

HOT_INLINE lanes_u32 codes_Q4_1(const uint8_t *b, int slab, int part, int step)
{
    (void)slab;
    return nibbles(b + 64, part, step);
}

HOT_INLINE void scales_Q4_1(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    (void)slab;
    scale[0] = halves(b, part);
    min[0] = -halves(b + 32, part);
}

HOT_INLINE lanes_u32 fifth_bits(const uint8_t *field, int part, int step)
{
    lanes_u32 h = dwords(field, 0, part);
    return (step < 4 ? h << (4 - step) % 8 : h >> (step - 4) % 8) & 0x10101010;
}

HOT_INLINE lanes_u32 codes_Q5_0(const uint8_t *b, int slab, int part, int step)
{
    (void)slab;
    return nibbles(b + 96, part, step) | fifth_bits(b + 32, part, step);
}

HOT_INLINE void scales_Q5_0(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scales_Q4_0(b, slab, part, scale, min);
}

HOT_INLINE lanes_u32 codes_Q5_1(const uint8_t *b, int slab, int part, int step)
{
    (void)slab;
    return nibbles(b + 128, part, step) | fifth_bits(b + 64, part, step);
}

HOT_INLINE void scales_Q5_1(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scales_Q4_1(b, slab, part, scale, min);
}

/* Signed codes are made unsigned by an offset of 128. */
HOT_INLINE lanes_u32 codes_Q8_0(const uint8_t *b, int slab, int part, int step)
{
    (void)slab;
    return dwords(b + 32, step, part) ^ 0x80808080;
}

HOT_INLINE void scales_Q8_0(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scales_Q4_0(b, slab, part, scale, min);
}

HOT_INLINE lanes_u32 codes_IQ4_NL(const uint8_t *b, int slab, int part, int step)
{
    (void)slab;
    return lanes_table(nibbles(b + 32, part, step), iq4_values) ^ 0x80808080;
}

HOT_INLINE void scales_IQ4_NL(const uint8_t *b, int slab, int part, lanes_f32 *scale,
                              lanes_f32 *min)
{
    scales_Q4_0(b, slab, part, scale, min);
}

/* The sums stay below 32, so that no byte carries into the next. */
HOT_INLINE lanes_u32 codes_MXFP4(const uint8_t *b, int slab, int part, int step)
{
    static const int8_t e2m1_doubled_plus_16[16] = { 16, 17, 18, 19, 20, 22, 24, 28,
                                                     16, 15, 14, 13, 12, 10, 8,  4 };
    (void)slab;
    return lanes_table(nibbles(b + 16, part, step), e2m1_doubled_plus_16);
}

/* 2^(e - 128): half of the value, as the codes are doubled; subnormal below e = 2. */
HOT_INLINE void scales_MXFP4(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    (void)slab, (void)min;
    lanes_u8 bytes;
    memcpy(&bytes, b + LANES * part, sizeof bytes);
    lanes_u32 e = __builtin_convertvector(bytes, lanes_u32);
    lanes_u32 small = (lanes_u32)(e < 2);
    lanes_u32 bits = (small & (0x00200000u + 0x00200000u * e)) | (~small & (e - 1) << 23);
    memcpy(&scale[0], &bits, sizeof bits);
}

/* Two-bit codes: half slab / 4, quarter slab % 4. */
HOT_INLINE lanes_u32 pairs(const uint8_t *field, int slab, int part, int step)
{
    return dwords(field, 8 * (slab / 4) + step, part) >> 2 * (slab % 4) & 0x03030303;
}

HOT_INLINE lanes_u32 codes_Q2_K(const uint8_t *b, int slab, int part, int step)
{
    return pairs(b + 320, slab, part, step);
}

HOT_INLINE void scales_Q2_K(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    lanes_f32 d = halves(b, part), dmin = halves(b + 32, part);
    for (int g = 0; g < 2; g++) {
        lanes_u8 bytes;
        memcpy(&bytes, b + 64 + 16 * (2 * slab + g) + LANES * part, sizeof bytes);
        lanes_i32 both = __builtin_convertvector(bytes, lanes_i32);
        scale[g] = d * __builtin_convertvector(both & 15, lanes_f32);
        min[g] = dmin * __builtin_convertvector(both >> 4, lanes_f32);
    }
}

HOT_INLINE lanes_u32 codes_Q3_K(const uint8_t *b, int slab, int part, int step)
{
    lanes_u32 third = dwords(b + 288, step, part) >> slab & 0x01010101;
    return pairs(b + 800, slab, part, step) | third << 2;
}

HOT_INLINE void scales_Q3_K(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    (void)min;
    lanes_f32 d = halves(b, part);
    scale[0] = d * from_i8(b + 32, 2 * slab, part);
    scale[1] = d * from_i8(b + 32, 2 * slab + 1, part);
}

HOT_INLINE lanes_u32 codes_Q4_K(const uint8_t *b, int slab, int part, int step)
{
    return dwords(b + 320, 8 * (slab / 2) + step, part) >> 4 * (slab % 2) & 0x0F0F0F0F;
}

HOT_INLINE void scales_Q4_K(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scale[0] = halves(b, part) * from_u8(b + 64, slab, part);
    min[0] = halves(b + 32, part) * from_u8(b + 192, slab, part);
}

HOT_INLINE lanes_u32 codes_Q5_K(const uint8_t *b, int slab, int part, int step)
{
    lanes_u32 low = dwords(b + 832, 8 * (slab / 2) + step, part) >> 4 * (slab % 2) & 0x0F0F0F0F;
    return low | (dwords(b + 320, step, part) >> slab & 0x01010101) << 4;
}

HOT_INLINE void scales_Q5_K(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scales_Q4_K(b, slab, part, scale, min);
}

HOT_INLINE lanes_u32 codes_Q6_K(const uint8_t *b, int slab, int part, int step)
{
    int half = slab / 4, quarter = slab % 4;
    lanes_u32 low = dwords(b + 288, 16 * half + 8 * (quarter % 2) + step, part);
    lanes_u32 high = dwords(b + 2336, 8 * half + step, part);
    return (low >> 4 * (quarter / 2) & 0x0F0F0F0F) | (high >> 2 * quarter & 0x03030303) << 4;
}

HOT_INLINE void scales_Q6_K(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scales_Q3_K(b, slab, part, scale, min);
}

HOT_INLINE lanes_u32 codes_IQ4_XS(const uint8_t *b, int slab, int part, int step)
{
    return lanes_table(nibbles(b + 160 + 256 * slab, part, step), iq4_values) ^ 0x80808080;
}

HOT_INLINE void scales_IQ4_XS(const uint8_t *b, int slab, int part, lanes_f32 *scale,
                              lanes_f32 *min)
{
    (void)min;
    scale[0] = halves(b, part) * from_i8(b + 32, slab, part);
}

HOT_INLINE lanes_u32 codes_TQ2_0(const uint8_t *b, int slab, int part, int step)
{
    return pairs(b + 32, slab, part, step);
}

HOT_INLINE void scales_TQ2_0(const uint8_t *b, int slab, int part, lanes_f32 *scale, lanes_f32 *min)
{
    scales_Q4_0(b, slab, part, scale, min);
}

#endif
