/* Decoders of the codebook formats: super-blocks of 256 whose codes pick points of a grid.
 * Layouts: quant/blocks.h. */
#include "quant/dequant.h"

#include "quant/blocks.h"
#include "quant/codebooks.h"
#include "quant/float_convert.h"

static inline uint32_t load_u32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline void eight(float *restrict y, float scale, const uint8_t grid[8], unsigned signs)
{
    for (int j = 0; j < 8; j++)
        y[j] = scale * (float)grid[j] * (float)iq_signs[signs][j];
}

static inline void four_and_four(float *restrict y, float scale, const uint8_t first[4],
                                 const uint8_t second[4], unsigned signs)
{
    for (int j = 0; j < 4; j++) {
        y[j] = scale * (float)first[j] * (float)iq_signs[signs][j];
        y[j + 4] = scale * (float)second[j] * (float)iq_signs[signs][j + 4];
    }
}

static inline void eight_shifted(float *restrict y, float scale, const int8_t grid[8], float shift)
{
    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)grid[j] + shift);
}

void dequant_IQ2_XXS(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq2_xxs *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int group = 0; group < 8; group++) {
            const unsigned short *q = b[i].qs + 4 * group;
            uint32_t a = q[2] | (uint32_t)q[3] << 16;
            float scale = d * ((float)(a >> 28) + 0.5f) * 0.25f;
            for (int l = 0; l < 4; l++, y += 8) {
                int code = q[l / 2] >> 8 * (l % 2) & 255;
                eight(y, scale, iq2_xxs_grid[code], iq_sign_bits[a >> 7 * l & 127]);
            }
        }
    }
}

void dequant_IQ2_XS(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq2_xs *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int g = 0; g < 32; g++, y += 8) {
            int s = b[i].scales[g / 4] >> 4 * (g % 4 / 2) & 15;
            float scale = d * ((float)s + 0.5f) * 0.25f;
            unsigned q = b[i].qs[g];
            eight(y, scale, iq2_xs_grid[q & 511], iq_sign_bits[q >> 9]);
        }
    }
}

void dequant_IQ2_S(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq2_s *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int g = 0; g < 32; g++, y += 8) {
            int s = b[i].scales[g / 4] >> 4 * (g % 4 / 2) & 15;
            float scale = d * ((float)s + 0.5f) * 0.25f;
            int code = b[i].qs[g] | (b[i].qh[g / 4] >> 2 * (g % 4) & 3) << 8;
            eight(y, scale, iq2_s_grid[code], b[i].signs[g]);
        }
    }
}

void dequant_IQ3_XXS(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq3_xxs *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int g = 0; g < 32; g++, y += 8) {
            uint32_t a = load_u32(b[i].gas + 4 * (g / 4));
            float scale = d * ((float)(a >> 28) + 0.5f) * 0.5f;
            const unsigned char *q = b[i].qs + 2 * g;
            four_and_four(y, scale, iq3_xxs_grid[q[0]], iq3_xxs_grid[q[1]],
                          iq_sign_bits[a >> 7 * (g % 4) & 127]);
        }
    }
}

void dequant_IQ3_S(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq3_s *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int g = 0; g < 32; g++, y += 8) {
            int s = b[i].scales[g / 8] >> 4 * (g / 4 % 2) & 15;
            float scale = d * (float)(2 * s + 1);
            int high = b[i].qh[g / 4] >> 2 * (g % 4);
            int first = b[i].qs[2 * g] | (high & 1) << 8;
            int second = b[i].qs[2 * g + 1] | (high >> 1 & 1) << 8;
            four_and_four(y, scale, iq3_s_grid[first], iq3_s_grid[second], b[i].signs[g]);
        }
    }
}

void dequant_IQ1_S(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq1_s *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int g = 0; g < 32; g++, y += 8) {
            int h = b[i].qh[g / 4];
            float scale = d * (float)(2 * (h >> 12 & 7) + 1);
            int code = b[i].qs[g] | (h >> 3 * (g % 4) & 7) << 8;
            eight_shifted(y, scale, iq1_grid[code], h & 0x8000 ? -0.125f : 0.125f);
        }
    }
}

void dequant_IQ1_M(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq1_m *b = blocks;
    float *y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        const unsigned short *w = b[i].scales;
        float d = f16_to_f32((uint16_t)(w[0] >> 12 | (w[1] >> 8 & 0xF0) | (w[2] >> 4 & 0xF00) |
                                        (w[3] & 0xF000)));
        for (int g = 0; g < 32; g++, y += 8) {
            float scale = d * (float)(2 * (w[g / 8] >> 3 * (g / 2 % 4) & 7) + 1);
            int h = b[i].qh[g / 2] >> 4 * (g % 2);
            int code = b[i].qs[g] | (h & 7) << 8;
            eight_shifted(y, scale, iq1_grid[code], h & 8 ? -0.125f : 0.125f);
        }
    }
}

void dequant_IQ4_XS(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_iq4_xs *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int s = 0; s < 8; s++, y += 32) {
            int low = b[i].scales_l[s / 2] >> 4 * (s % 2) & 15;
            int high = b[i].scales_h >> 2 * s & 3;
            float scale = d * (float)((low | high << 4) - 32);
            const unsigned char *qs = b[i].qs + 16 * s;
            for (int j = 0; j < 16; j++) {
                y[j] = scale * (float)iq4_values[qs[j] & 15];
                y[j + 16] = scale * (float)iq4_values[qs[j] >> 4];
            }
        }
    }
}
