/* rows16_unpack: codes and scales of the planes types, one inline pair per type, for vectors of
 * LANES rows. Written with the compiler's vector types, so that each instruction set's kernels
 * include it once; the including file defines LANES (4, 8 or 16) and, where the set has better
 * instructions, LANES_F16, LANES_TABLE and LANES_WIDEN. Layout: cpu/rows16.h.
 *
 * PHASES_T slabs in a row share the dwords of their codes: slab = turn * PHASES_T + phase. Kernels
 * unroll the phases, so that shifts are constant.
 *   codes_T(block, turn, phase, part, step): four columns of rows part * LANES and on
 *   heads_T(block, part, head): the scale and minimum that all slabs of a block share, as f32
 *   scales_T(block, slab, part, head, scale, min): scale[g], min[g] of the slab's scale groups */
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

#ifndef LANES_WIDEN
HOT_INLINE lanes_i32 lanes_u8_i32(const void *p)
{
    lanes_u8 v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, lanes_i32);
}

HOT_INLINE lanes_i32 lanes_i8_i32(const void *p)
{
    lanes_i8 v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, lanes_i32);
}
#endif

/* Vector i of a field of byte arrays over rows. */
HOT_INLINE lanes_i32 bytes_u8(const uint8_t *field, int i, int part)
{
    return lanes_u8_i32(field + 16 * i + LANES * part);
}

HOT_INLINE lanes_f32 from_u8(const uint8_t *field, int i, int part)
{
    return __builtin_convertvector(bytes_u8(field, i, part), lanes_f32);
}

HOT_INLINE lanes_f32 from_i8(const uint8_t *field, int i, int part)
{
    return __builtin_convertvector(lanes_i8_i32(field + 16 * i + LANES * part), lanes_f32);
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

enum rows16_phases {
    PHASES_Q4_0 = 1, PHASES_Q4_1 = 1, PHASES_Q5_0 = 1, PHASES_Q5_1 = 1, PHASES_Q8_0 = 1,
    PHASES_Q2_K = 4, PHASES_Q3_K = 4, PHASES_Q4_K = 2, PHASES_Q5_K = 2, PHASES_Q6_K = 4,
    PHASES_IQ4_NL = 1, PHASES_IQ4_XS = 1, PHASES_TQ2_0 = 4, PHASES_MXFP4 = 1,
};

HOT_INLINE lanes_u32 codes_Q4_0(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return nibbles(b + 32, part, step);
}

HOT_INLINE void heads_Q4_0(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_Q4_0(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part, (void)min;
    scale[0] = head[0];
}

HOT_INLINE lanes_u32 codes_Q4_1(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return nibbles(b + 64, part, step);
}

HOT_INLINE void heads_Q4_1(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
    head[1] = halves(b + 32, part);
}

HOT_INLINE void scales_Q4_1(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part;
    scale[0] = head[0];
    min[0] = -head[1];
}

HOT_INLINE lanes_u32 fifth_bits(const uint8_t *field, int part, int step)
{
    lanes_u32 h = dwords(field, 0, part);
    return (step < 4 ? h << (4 - step) % 8 : h >> (step - 4) % 8) & 0x10101010;
}

HOT_INLINE lanes_u32 codes_Q5_0(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return nibbles(b + 96, part, step) | fifth_bits(b + 32, part, step);
}

HOT_INLINE void heads_Q5_0(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_Q5_0(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part, (void)min;
    scale[0] = head[0];
}

HOT_INLINE lanes_u32 codes_Q5_1(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return nibbles(b + 128, part, step) | fifth_bits(b + 64, part, step);
}

HOT_INLINE void heads_Q5_1(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
    head[1] = halves(b + 32, part);
}

HOT_INLINE void scales_Q5_1(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part;
    scale[0] = head[0];
    min[0] = -head[1];
}

/* Signed codes are made unsigned by an offset of 128. */
HOT_INLINE lanes_u32 codes_Q8_0(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return dwords(b + 32, step, part) ^ 0x80808080;
}

HOT_INLINE void heads_Q8_0(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_Q8_0(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part, (void)min;
    scale[0] = head[0];
}

HOT_INLINE lanes_u32 codes_IQ4_NL(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    return lanes_table(nibbles(b + 32, part, step), iq4_values) ^ 0x80808080;
}

HOT_INLINE void heads_IQ4_NL(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_IQ4_NL(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                              lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part, (void)min;
    scale[0] = head[0];
}

/* The sums stay below 32, so that no byte carries into the next. */
HOT_INLINE lanes_u32 codes_MXFP4(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)turn, (void)phase;
    static const int8_t e2m1_doubled_plus_16[16] = { 16, 17, 18, 19, 20, 22, 24, 28,
                                                     16, 15, 14, 13, 12, 10, 8,  4 };
    return lanes_table(nibbles(b + 16, part, step), e2m1_doubled_plus_16);
}

HOT_INLINE void heads_MXFP4(const uint8_t *b, int part, lanes_f32 *head)
{
    (void)b, (void)part, (void)head;
}

/* 2^(e - 128): half of the value, as the codes are doubled; subnormal below e = 2. */
HOT_INLINE void scales_MXFP4(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                             lanes_f32 *scale, lanes_f32 *min)
{
    (void)slab, (void)head, (void)min;
    lanes_u32 e = (lanes_u32)bytes_u8(b, 0, part);
    lanes_u32 small = (lanes_u32)(e < 2);
    lanes_u32 bits = (small & (0x00200000u + 0x00200000u * e)) | (~small & (e - 1) << 23);
    memcpy(&scale[0], &bits, sizeof bits);
}

/* Two-bit codes: turns are halves of the block, phases quarters of a half. */
HOT_INLINE lanes_u32 pairs(const uint8_t *field, int turn, int phase, int part, int step)
{
    return dwords(field, 8 * turn + step, part) >> 2 * phase & 0x03030303;
}

HOT_INLINE lanes_u32 codes_Q2_K(const uint8_t *b, int turn, int phase, int part, int step)
{
    return pairs(b + 320, turn, phase, part, step);
}

HOT_INLINE void heads_Q2_K(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
    head[1] = halves(b + 32, part);
}

HOT_INLINE void scales_Q2_K(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    for (int g = 0; g < 2; g++) {
        lanes_i32 both = bytes_u8(b + 64, 2 * slab + g, part);
        scale[g] = head[0] * __builtin_convertvector(both & 15, lanes_f32);
        min[g] = head[1] * __builtin_convertvector(both >> 4, lanes_f32);
    }
}

HOT_INLINE lanes_u32 codes_Q3_K(const uint8_t *b, int turn, int phase, int part, int step)
{
    lanes_u32 third = dwords(b + 288, step, part) >> (4 * turn + phase) & 0x01010101;
    return pairs(b + 800, turn, phase, part, step) | third << 2;
}

HOT_INLINE void heads_Q3_K(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_Q3_K(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)min;
    scale[0] = head[0] * from_i8(b + 32, 2 * slab, part);
    scale[1] = head[0] * from_i8(b + 32, 2 * slab + 1, part);
}

HOT_INLINE lanes_u32 codes_Q4_K(const uint8_t *b, int turn, int phase, int part, int step)
{
    return dwords(b + 320, 8 * turn + step, part) >> 4 * phase & 0x0F0F0F0F;
}

HOT_INLINE void heads_Q4_K(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
    head[1] = halves(b + 32, part);
}

HOT_INLINE void scales_Q4_K(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    scale[0] = head[0] * from_u8(b + 64, slab, part);
    min[0] = head[1] * from_u8(b + 192, slab, part);
}

HOT_INLINE lanes_u32 codes_Q5_K(const uint8_t *b, int turn, int phase, int part, int step)
{
    lanes_u32 low = dwords(b + 832, 8 * turn + step, part) >> 4 * phase & 0x0F0F0F0F;
    return low | (dwords(b + 320, step, part) >> (2 * turn + phase) & 0x01010101) << 4;
}

HOT_INLINE void heads_Q5_K(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
    head[1] = halves(b + 32, part);
}

HOT_INLINE void scales_Q5_K(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    scale[0] = head[0] * from_u8(b + 64, slab, part);
    min[0] = head[1] * from_u8(b + 192, slab, part);
}

HOT_INLINE lanes_u32 codes_Q6_K(const uint8_t *b, int turn, int phase, int part, int step)
{
    lanes_u32 low = dwords(b + 288, 16 * turn + 8 * (phase % 2) + step, part);
    lanes_u32 high = dwords(b + 2336, 8 * turn + step, part);
    lanes_u32 moved = phase < 2 ? high << (4 - 2 * phase) % 8 : high >> (2 * phase - 4) % 8;
    return (low >> 4 * (phase / 2) & 0x0F0F0F0F) | (moved & 0x30303030);
}

HOT_INLINE void heads_Q6_K(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_Q6_K(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                            lanes_f32 *scale, lanes_f32 *min)
{
    (void)min;
    scale[0] = head[0] * from_i8(b + 32, 2 * slab, part);
    scale[1] = head[0] * from_i8(b + 32, 2 * slab + 1, part);
}

HOT_INLINE lanes_u32 codes_IQ4_XS(const uint8_t *b, int turn, int phase, int part, int step)
{
    (void)phase;
    return lanes_table(nibbles(b + 160 + 256 * turn, part, step), iq4_values) ^ 0x80808080;
}

HOT_INLINE void heads_IQ4_XS(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_IQ4_XS(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                              lanes_f32 *scale, lanes_f32 *min)
{
    (void)min;
    scale[0] = head[0] * from_i8(b + 32, slab, part);
}

HOT_INLINE lanes_u32 codes_TQ2_0(const uint8_t *b, int turn, int phase, int part, int step)
{
    return pairs(b + 32, turn, phase, part, step);
}

HOT_INLINE void heads_TQ2_0(const uint8_t *b, int part, lanes_f32 *head)
{
    head[0] = halves(b, part);
}

HOT_INLINE void scales_TQ2_0(const uint8_t *b, int slab, int part, const lanes_f32 *head,
                             lanes_f32 *scale, lanes_f32 *min)
{
    (void)b, (void)slab, (void)part, (void)min;
    scale[0] = head[0];
}

#endif
