/* Decoders of the types with one scale, or one scale and one minimum, for a small block.
 * Layouts: quant/blocks.h. */
#include "quant/dequant.h"

#include "quant/blocks.h"
#include "quant/codebooks.h"
#include "quant/float_convert.h"

static inline uint32_t load_u32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Five-bit codes: nibbles, low ones first, and a mask of fifth bits. */
static inline void codes5(const unsigned char *nibbles, const unsigned char *qh, int *restrict q)
{
    uint32_t fifth = load_u32(qh);
    for (int j = 0; j < 16; j++) {
        q[j] = (nibbles[j] & 15) | (int)(fifth >> j & 1) << 4;
        q[j + 16] = nibbles[j] >> 4 | (int)(fifth >> (j + 16) & 1) << 4;
    }
}

void dequant_Q4_0(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q4_0 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)((b[i].qs[j] & 15) - 8);
            y[j + 16] = d * (float)((b[i].qs[j] >> 4) - 8);
        }
    }
}

void dequant_Q4_1(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q4_1 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d), m = f16_to_f32(b[i].m);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)(b[i].qs[j] & 15) + m;
            y[j + 16] = d * (float)(b[i].qs[j] >> 4) + m;
        }
    }
}

void dequant_Q5_0(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q5_0 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d);
        int q[QK_SMALL];
        codes5(b[i].qs, b[i].qh, q);
        for (int j = 0; j < QK_SMALL; j++)
            y[j] = d * (float)(q[j] - 16);
    }
}

void dequant_Q5_1(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q5_1 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d), m = f16_to_f32(b[i].m);
        int q[QK_SMALL];
        codes5(b[i].qs, b[i].qh, q);
        for (int j = 0; j < QK_SMALL; j++)
            y[j] = d * (float)q[j] + m;
    }
}

void dequant_Q8_0(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q8_0 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < QK_SMALL; j++)
            y[j] = d * (float)b[i].qs[j];
    }
}

void dequant_Q8_1(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q8_1 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < QK_SMALL; j++)
            y[j] = d * (float)b[i].qs[j];
    }
}

void dequant_IQ4_NL(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq4_nl *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)iq4_values[b[i].qs[j] & 15];
            y[j + 16] = d * (float)iq4_values[b[i].qs[j] >> 4];
        }
    }
}

/* The exponent byte 255, NaN by the standard, is read as 2^127; files that hold it are refused
 * where they are checked. */
void dequant_MXFP4(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_mxfp4 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SMALL) {
        uint32_t e = b[i].e;
        float half = float_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); /* 2^(e - 128) */
        for (int j = 0; j < 16; j++) {
            y[j] = half * (float)e2m1_doubled[b[i].qs[j] & 15];
            y[j + 16] = half * (float)e2m1_doubled[b[i].qs[j] >> 4];
        }
    }
}

/* The sign bit of a scale is unused and its NaN code 0x7F means 0. */
void dequant_NVFP4(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_nvfp4 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        for (int group = 0; group < 4; group++, y += 16) {
            uint8_t code = b[i].scales[group] & 0x7F;
            float half = code == 0x7F ? 0.0f : 0.5f * f8_e4m3_to_f32(code);
            const unsigned char *qs = b[i].qs + 8 * group;
            for (int j = 0; j < 8; j++) {
                y[j] = half * (float)e2m1_doubled[qs[j] & 15];
                y[j + 8] = half * (float)e2m1_doubled[qs[j] >> 4];
            }
        }
    }
}

void dequant_Q1_0(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q1_0 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int k = 0; k < 16; k++, y += 8)
            for (int j = 0; j < 8; j++)
                y[j] = b[i].qs[k] >> j & 1 ? d : -d;
    }
}

void dequant_Q2_0(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q2_0 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int k = 0; k < 16; k++, y += 4)
            for (int j = 0; j < 4; j++)
                y[j] = d * (float)((b[i].qs[k] >> 2 * j & 3) - 1);
    }
}

/* Digit `power` (3^k) of n bytes. */
static inline float *ternary(const unsigned char *qs, int n, unsigned power, float d, float *y)
{
    for (int j = 0; j < n; j++)
        y[j] = d * (float)((int)(((qs[j] * power & 255) * 3) >> 8) - 1);
    return y + n;
}

void dequant_TQ1_0(const void *blocks, float *out, size_t n_blocks)
{
    static const unsigned powers[5] = { 1, 3, 9, 27, 81 };
    const struct block_tq1_0 *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int k = 0; k < 5; k++)
            y = ternary(b[i].qs, 32, powers[k], d, y);
        for (int k = 0; k < 5; k++)
            y = ternary(b[i].qs + 32, 16, powers[k], d, y);
        for (int k = 0; k < 4; k++)
            y = ternary(b[i].qh, 4, powers[k], d, y);
    }
}

void dequant_TQ2_0(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_tq2_0 *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int part = 0; part < 8; part++, y += 32) {
            const unsigned char *qs = b[i].qs + 32 * (part / 4);
            for (int j = 0; j < 32; j++)
                y[j] = d * (float)((qs[j] >> 2 * (part % 4) & 3) - 1);
        }
    }
}
