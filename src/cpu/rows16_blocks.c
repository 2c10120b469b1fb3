/* Unpackers of the blocks types: 32 columns of 16 file blocks to a slab. Each type says what 32
 * codes and one or two scales of one file block are; the rest is shared.
 * Formats: quant/blocks.h. */
#include "cpu/rows16.h"

#include <string.h>

#include "base/compiler.h"
#include "quant/blocks.h"
#include "quant/codebooks.h"
#include "quant/float_convert.h"

struct codes32 {
    int8_t code[32];
    float scale[2];
};

static inline uint32_t load_u32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline void put_signed(int8_t *restrict out, const uint8_t *grid, const int8_t *sign, int n)
{
    for (int j = 0; j < n; j++)
        out[j] = (int8_t)(grid[j] * sign[j]);
}

static void decode_IQ2_XXS(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq2_xxs *b = block;
    const unsigned short *q = b->qs + 4 * slab;
    uint32_t a = q[2] | (uint32_t)q[3] << 16;
    out->scale[0] = f16_to_f32(b->d) * ((float)(a >> 28) + 0.5f) * 0.25f;
    for (int l = 0; l < 4; l++)
        put_signed(out->code + 8 * l, iq2_xxs_grid[q[l / 2] >> 8 * (l % 2) & 255],
                   iq_signs[iq_sign_bits[a >> 7 * l & 127]], 8);
}

static void decode_IQ2_XS(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq2_xs *b = block;
    float d = f16_to_f32(b->d);
    for (int g = 0; g < 2; g++)
        out->scale[g] = d * ((float)(b->scales[slab] >> 4 * g & 15) + 0.5f) * 0.25f;
    for (int l = 0; l < 4; l++) {
        unsigned q = b->qs[4 * slab + l];
        put_signed(out->code + 8 * l, iq2_xs_grid[q & 511], iq_signs[iq_sign_bits[q >> 9]], 8);
    }
}

static void decode_IQ2_S(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq2_s *b = block;
    float d = f16_to_f32(b->d);
    for (int g = 0; g < 2; g++)
        out->scale[g] = d * ((float)(b->scales[slab] >> 4 * g & 15) + 0.5f) * 0.25f;
    for (int l = 0; l < 4; l++) {
        int code = b->qs[4 * slab + l] | (b->qh[slab] >> 2 * l & 3) << 8;
        put_signed(out->code + 8 * l, iq2_s_grid[code], iq_signs[b->signs[4 * slab + l]], 8);
    }
}

static void decode_IQ3_XXS(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq3_xxs *b = block;
    uint32_t a = load_u32(b->gas + 4 * slab);
    out->scale[0] = f16_to_f32(b->d) * ((float)(a >> 28) + 0.5f) * 0.5f;
    for (int l = 0; l < 8; l++)
        put_signed(out->code + 4 * l, iq3_xxs_grid[b->qs[8 * slab + l]],
                   iq_signs[iq_sign_bits[a >> 7 * (l / 2) & 127]] + 4 * (l % 2), 4);
}

static void decode_IQ3_S(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq3_s *b = block;
    out->scale[0] =
        f16_to_f32(b->d) * (float)(2 * (b->scales[slab / 2] >> 4 * (slab % 2) & 15) + 1);
    for (int l = 0; l < 8; l++)
        put_signed(out->code + 4 * l, iq3_s_grid[b->qs[8 * slab + l] | (b->qh[slab] >> l & 1) << 8],
                   iq_signs[b->signs[4 * slab + l / 2]] + 4 * (l % 2), 4);
}

/* grid +- 1/8 as an integer: eight times the grid, plus or minus one. */
static inline void put_shifted(int8_t *restrict out, const int8_t grid[8], int shift)
{
    for (int j = 0; j < 8; j++)
        out[j] = (int8_t)(8 * grid[j] + shift);
}

static void decode_IQ1_S(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq1_s *b = block;
    int h = b->qh[slab];
    out->scale[0] = f16_to_f32(b->d) * (float)(2 * (h >> 12 & 7) + 1) * 0.125f;
    for (int l = 0; l < 4; l++)
        put_shifted(out->code + 8 * l, iq1_grid[b->qs[4 * slab + l] | (h >> 3 * l & 7) << 8],
                    h & 0x8000 ? -1 : 1);
}

static void decode_IQ1_M(const void *block, int slab, struct codes32 *out)
{
    const struct block_iq1_m *b = block;
    const unsigned short *w = b->scales;
    float d = f16_to_f32(
        (uint16_t)(w[0] >> 12 | (w[1] >> 8 & 0xF0) | (w[2] >> 4 & 0xF00) | (w[3] & 0xF000)));
    for (int g = 0; g < 2; g++) {
        int s = w[slab / 2] >> (6 * (slab % 2) + 3 * g) & 7;
        out->scale[g] = d * (float)(2 * s + 1) * 0.125f;
    }
    for (int l = 0; l < 4; l++) {
        int h = b->qh[2 * slab + l / 2] >> 4 * (l % 2);
        put_shifted(out->code + 8 * l, iq1_grid[b->qs[4 * slab + l] | (h & 7) << 8],
                    h & 8 ? -1 : 1);
    }
}

/* Columns of one digit of the bytes first .. first + n - 1. */
static inline void put_ternary(int8_t *restrict out, const unsigned char *bytes, int n, int digit)
{
    static const unsigned powers[5] = { 1, 3, 9, 27, 81 };
    for (int j = 0; j < n; j++)
        out[j] = (int8_t)((int)((bytes[j] * powers[digit] & 255) * 3 >> 8) - 1);
}

/* Slabs 0-4 are the digits of bytes 0-31, then digits 0-4 of bytes 32-47, then qh. */
static void decode_TQ1_0(const void *block, int slab, struct codes32 *out)
{
    const struct block_tq1_0 *b = block;
    out->scale[0] = f16_to_f32(b->d);
    if (slab < 5) {
        put_ternary(out->code, b->qs, 32, slab);
        return;
    }
    int digit = 2 * (slab - 5);
    put_ternary(out->code, b->qs + 32, 16, digit);
    if (slab < 7) {
        put_ternary(out->code + 16, b->qs + 32, 16, digit + 1);
        return;
    }
    for (int k = 0; k < 4; k++)
        put_ternary(out->code + 16 + 4 * k, b->qh, 4, k);
}

static void decode_NVFP4(const void *block, int slab, struct codes32 *out)
{
    const struct block_nvfp4 *b = block;
    for (int g = 0; g < 2; g++) {
        uint8_t code = b->scales[2 * slab + g] & 0x7F;
        const unsigned char *qs = b->qs + 16 * slab + 8 * g;
        out->scale[g] = code == 0x7F ? 0.0f : 0.5f * f8_e4m3_to_f32(code);
        for (int j = 0; j < 8; j++) {
            out->code[16 * g + j] = e2m1_doubled[qs[j] & 15];
            out->code[16 * g + 8 + j] = e2m1_doubled[qs[j] >> 4];
        }
    }
}

static void decode_Q1_0(const void *block, int slab, struct codes32 *out)
{
    const struct block_q1_0 *b = block;
    out->scale[0] = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++)
        out->code[j] = (int8_t)(2 * (b->qs[4 * slab + j / 8] >> j % 8 & 1) - 1);
}

static void decode_Q2_0(const void *block, int slab, struct codes32 *out)
{
    const struct block_q2_0 *b = block;
    out->scale[0] = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++)
        out->code[j] = (int8_t)((b->qs[8 * slab + j / 4] >> 2 * (j % 4) & 3) - 1);
}

/* Codes become unsigned by the type's offset and go to their row's lane. */
HOT_INLINE void unpack(void (*decode)(const void *, int, struct codes32 *), size_t block_bytes,
                       int groups, int shift, const uint8_t *block, int slab,
                       struct rows16_slab *out)
{
    for (int r = 0; r < ROWS16_ROWS; r++) {
        struct codes32 c;
        decode(block + (size_t)r * block_bytes, slab, &c);
        for (int g = 0; g < groups; g++)
            out->scale[g][r] = c.scale[g];
        uint8_t code[32];
        for (int k = 0; k < 32; k++)
            code[k] = (uint8_t)(c.code[k] + (1 << shift));
        for (int s = 0; s < ROWS16_STEPS; s++)
            memcpy(&out->q[s][r], code + 4 * s, 4);
    }
}

#define FILE_BYTES(name, id, elements, bytes, flags) FILE_BYTES_##name = bytes,
enum { TENSOR_TYPE_LIST(FILE_BYTES) };

#define DEFINE(name, bits, groups, min, shift) \
    void rows16_unpack_##name(const uint8_t *block, int slab, struct rows16_slab *out) \
    { \
        unpack(decode_##name, FILE_BYTES_##name, groups, shift, block, slab, out); \
    }
ROWS16_BLOCKS_LIST(DEFINE)
