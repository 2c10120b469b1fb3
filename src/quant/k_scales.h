/* k_scales: the packed six-bit scales of the k formats, read and written.
 * Layouts: quant/blocks.h, block_q3_k and block_q4_k. No state. */
#ifndef QUANT_K_SCALES_H
#define QUANT_K_SCALES_H

#include <stdint.h>

/* Sixteen scales of a Q3_K block, -32 to 31. */
static inline void q3_k_scales(const unsigned char packed[12], int8_t scales[16])
{
    for (int j = 0; j < 16; j++) {
        int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
        int high = packed[8 + j % 4] >> 2 * (j / 4) & 3;
        scales[j] = (int8_t)((low | high << 4) - 32);
    }
}

static inline void q3_k_pack_scales(const int8_t scales[16], unsigned char packed[12])
{
    for (int j = 0; j < 12; j++)
        packed[j] = 0;
    for (int j = 0; j < 16; j++) {
        int code = scales[j] + 32;
        packed[j % 8] |= (unsigned char)(j < 8 ? code & 15 : (code & 15) << 4);
        packed[8 + j % 4] |= (unsigned char)(code >> 4 << 2 * (j / 4));
    }
}

/* Eight scales and minimums of a Q4_K or Q5_K block, 0 to 63. */
static inline void k4_scales(const unsigned char packed[12], uint8_t scales[8], uint8_t mins[8])
{
    for (int j = 0; j < 4; j++) {
        scales[j] = packed[j] & 63;
        mins[j] = packed[j + 4] & 63;
        scales[j + 4] = (uint8_t)((packed[j + 8] & 15) | packed[j] >> 6 << 4);
        mins[j + 4] = (uint8_t)(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4);
    }
}

static inline void k4_pack_scales(const uint8_t scales[8], const uint8_t mins[8],
                                  unsigned char packed[12])
{
    for (int j = 0; j < 4; j++) {
        packed[j] = (unsigned char)(scales[j] | scales[j + 4] >> 4 << 6);
        packed[j + 4] = (unsigned char)(mins[j] | mins[j + 4] >> 4 << 6);
        packed[j + 8] = (unsigned char)((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
    }
}

#endif
