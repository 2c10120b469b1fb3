/* float_convert: the small float formats to binary32 and back, bit for bit.
 *
 * Decoding is exact. Encoding rounds to nearest, ties to even. Values too large become infinity in
 * the formats that have one (f16, bf16, e5m2) and the largest value in the others (e4m3, e2m1),
 * infinities included. A NaN stays a NaN, quiet, with the upper bits of its payload; e2m1 has none
 * and is only given numbers. Subnormals are handled everywhere, also when the thread's control
 * word flushes them. No branches on values: loops over these functions vectorize.
 * Formats: IEEE 754-2008; OCP 8-bit Floating Point 1.0 (e4m3, e5m2); OCP Microscaling Formats 1.0
 * (e8m0, e2m1). */
#ifndef QUANT_FLOAT_CONVERT_H
#define QUANT_FLOAT_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Bits of 2^exponent as binary32. */
#define FLOAT_EXPONENT_BITS(exponent) ((uint32_t)((exponent) + 127) << 23)

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t magnitude = h & 0x7FFFu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    normal += magnitude >= 0x7C00u ? 112u << 23 : 0;     /* infinity and NaN: exponent 255 */
    normal |= magnitude > 0x7C00u ? 0x400000u : 0;       /* NaN becomes quiet */
    uint32_t subnormal = float_bits((float)(int32_t)magnitude * 0x1p-24f);
    return float_from_bits(sign | (magnitude < 0x400u ? subnormal : normal));
}

static inline uint16_t f32_to_f16(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t special = magnitude > 0x7F800000u ? 0x7E00u | (magnitude >> 13 & 0x3FFu) : 0x7C00u;
    /* Next to 1/2 a unit in the last place is 2^-24, the step of f16 subnormals. */
    uint32_t subnormal = float_bits(float_from_bits(magnitude) + 0.5f) - FLOAT_EXPONENT_BITS(-1);
    uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t finite = magnitude < FLOAT_EXPONENT_BITS(-14) ? subnormal : normal;
    return (uint16_t)(sign | (magnitude >= FLOAT_EXPONENT_BITS(16) ? special : finite));
}

static inline float bf16_to_f32(uint16_t h)
{
    return float_from_bits((uint32_t)h << 16);
}

static inline uint16_t f32_to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, 0x7F is NaN, largest 448 */
static inline float f8_e4m3_to_f32(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t magnitude = code & 0x7Fu;
    uint32_t normal = (magnitude << 20) + (120u << 23);
    normal = magnitude == 0x7Fu ? 0x7FC00000u : normal;
    uint32_t subnormal = float_bits((float)(int32_t)magnitude * 0x1p-9f);
    return float_from_bits(sign | (magnitude < 8u ? subnormal : normal));
}

static inline uint8_t f32_to_f8_e4m3(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t special = magnitude > 0x7F800000u ? 0x7Fu : 0x7Eu;
    /* Next to 2^14 a unit in the last place is 2^-9, the step of e4m3 subnormals. */
    uint32_t subnormal = float_bits(float_from_bits(magnitude) + 0x1p14f) - FLOAT_EXPONENT_BITS(14);
    uint32_t normal = (magnitude - (120u << 23) + 0x7FFFFu + (magnitude >> 20 & 1u)) >> 20;
    uint32_t finite = magnitude < FLOAT_EXPONENT_BITS(-6) ? subnormal : normal;
    return (uint8_t)(sign | (magnitude >= 0x43E00000u /* 448 */ ? special : finite));
}

/* 1 sign, 5 exponent (bias 15), 2 mantissa bits: the upper half of an f16 */
static inline float f8_e5m2_to_f32(uint8_t code)
{
    return f16_to_f32((uint16_t)(code << 8));
}

static inline uint8_t f32_to_f8_e5m2(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t special = magnitude > 0x7F800000u ? 0x7Fu : 0x7Cu;
    /* Next to 2^7 a unit in the last place is 2^-16, the step of e5m2 subnormals. */
    uint32_t subnormal = float_bits(float_from_bits(magnitude) + 0x1p7f) - FLOAT_EXPONENT_BITS(7);
    uint32_t normal = (magnitude - (112u << 23) + 0xFFFFFu + (magnitude >> 21 & 1u)) >> 21;
    uint32_t finite = magnitude < FLOAT_EXPONENT_BITS(-14) ? subnormal : normal;
    return (uint8_t)(sign | (magnitude >= FLOAT_EXPONENT_BITS(16) ? special : finite));
}

/* 2^(code - 127); 0 is the binary32 subnormal 2^-127, 255 is NaN */
static inline float f8_e8m0_to_f32(uint8_t code)
{
    uint32_t normal = code == 0xFFu ? 0x7FC00000u : (uint32_t)code << 23;
    return float_from_bits(code == 0 ? 0x00400000u : normal);
}

/* 1 sign, 2 exponent (bias 1), 1 mantissa bit: 0, 1/2, 1, 3/2, 2, 3, 4, 6; bits 4-7 are ignored */
static inline float f4_e2m1_to_f32(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 8u) << 28;
    uint32_t magnitude = code & 7u;
    uint32_t normal = (magnitude << 22) + (126u << 23);
    uint32_t subnormal = magnitude == 0 ? 0 : FLOAT_EXPONENT_BITS(-1);
    return float_from_bits(sign | (magnitude < 2u ? subnormal : normal));
}

static inline uint8_t f32_to_f4_e2m1(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 28 & 8u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    /* Next to 2^22 a unit in the last place is 1/2, the step below 1. */
    uint32_t subnormal = float_bits(float_from_bits(magnitude) + 0x1p22f) - FLOAT_EXPONENT_BITS(22);
    uint32_t normal = (magnitude - (126u << 23) + 0x1FFFFFu + (magnitude >> 22 & 1u)) >> 22;
    uint32_t finite = magnitude < FLOAT_EXPONENT_BITS(0) ? subnormal : normal;
    return (uint8_t)(sign | (magnitude >= 0x40C00000u /* 6 */ ? 7u : finite));
}

#endif
