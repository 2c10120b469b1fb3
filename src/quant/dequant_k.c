/* Decoders of the k formats: super-blocks of 256 with quantized scales.
 * Layouts: quant/blocks.h. Products associate from the left, which settles the sign of zeros. */
#include "quant/dequant.h"

#include "quant/blocks.h"
#include "quant/float_convert.h"
#include "quant/k_scales.h"

void dequant_Q2_K(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q2_k *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d), dmin = f16_to_f32(b[i].dmin);
        for (int s = 0; s < 16; s++, y += 16) {
            float scale = d * (float)(b[i].scales[s] & 15);
            float min = dmin * (float)(b[i].scales[s] >> 4);
            const unsigned char *qs = b[i].qs + 32 * (s / 8) + 16 * (s % 2);
            int shift = s / 2 % 4 * 2;
            for (int l = 0; l < 16; l++)
                y[l] = scale * (float)(qs[l] >> shift & 3) - min;
        }
    }
}

void dequant_Q3_K(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q3_k *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        int8_t scales[16];
        q3_k_scales(b[i].scales, scales);
        for (int s = 0; s < 16; s++, y += 16) {
            float scale = d * (float)scales[s];
            const unsigned char *qs = b[i].qs + 32 * (s / 8) + 16 * (s % 2);
            const unsigned char *hmask = b[i].hmask + 16 * (s % 2);
            int shift = s / 2 % 4 * 2, bit = s / 2;
            for (int l = 0; l < 16; l++)
                y[l] = scale * (float)((qs[l] >> shift & 3) + (hmask[l] >> bit & 1) * 4 - 4);
        }
    }
}

void dequant_Q4_K(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q4_k *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d), dmin = f16_to_f32(b[i].dmin);
        uint8_t scales[8], mins[8];
        k4_scales(b[i].scales, scales, mins);
        for (int s = 0; s < 8; s++, y += 32) {
            float scale = d * (float)scales[s], min = dmin * (float)mins[s];
            const unsigned char *qs = b[i].qs + 32 * (s / 2);
            int shift = s % 2 * 4;
            for (int l = 0; l < 32; l++)
                y[l] = scale * (float)(qs[l] >> shift & 15) - min;
        }
    }
}

void dequant_Q5_K(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q5_k *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d), dmin = f16_to_f32(b[i].dmin);
        uint8_t scales[8], mins[8];
        k4_scales(b[i].scales, scales, mins);
        for (int s = 0; s < 8; s++, y += 32) {
            float scale = d * (float)scales[s], min = dmin * (float)mins[s];
            const unsigned char *qs = b[i].qs + 32 * (s / 2), *qh = b[i].qh;
            int shift = s % 2 * 4;
            for (int l = 0; l < 32; l++)
                y[l] = scale * (float)((qs[l] >> shift & 15) | (qh[l] >> s & 1) << 4) - min;
        }
    }
}

void dequant_Q6_K(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q6_k *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int s = 0; s < 16; s++, y += 16) {
            float scale = d * (float)b[i].scales[s];
            int half = s / 8, quarter = s / 2 % 4;
            const unsigned char *ql = b[i].ql + 64 * half + 32 * (quarter % 2) + 16 * (s % 2);
            const unsigned char *qh = b[i].qh + 32 * half + 16 * (s % 2);
            int low_shift = quarter / 2 * 4, high_shift = quarter * 2;
            for (int l = 0; l < 16; l++) {
                int q = (ql[l] >> low_shift & 15) | (qh[l] >> high_shift & 3) << 4;
                y[l] = scale * (float)(q - 32);
            }
        }
    }
}

void dequant_Q8_K(const void *blocks, float *out, size_t n_blocks)
{
    const struct block_q8_k *b = blocks;
    float *restrict y = out;
    for (size_t i = 0; i < n_blocks; i++, y += QK_SUPER)
        for (int j = 0; j < QK_SUPER; j++)
            y[j] = b[i].d * (float)b[i].qs[j];
}
