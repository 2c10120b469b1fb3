/* Packers of the planes types: one block of each of 16 rows to the layout of cpu/rows16.h.
 * A field of n dwords is transposed as dwords; scales become arrays over rows. */
#include "cpu/rows16.h"

#include <string.h>

#include "quant/blocks.h"
#include "quant/k_scales.h"

/* Dwords first .. first + n - 1 of the field at `offset` of every row's block. */
static void put_dwords(const uint8_t *const row[ROWS16_ROWS], size_t offset, int n, uint8_t *out)
{
    for (int r = 0; r < ROWS16_ROWS; r++) {
        const uint8_t *in = row[r] + offset;
        for (int i = 0; i < n; i++)
            memcpy(out + 64 * i + 4 * r, in + 4 * i, 4);
    }
}

static void put_halves(const uint8_t *const row[ROWS16_ROWS], size_t offset, uint8_t *out)
{
    for (int r = 0; r < ROWS16_ROWS; r++)
        memcpy(out + 2 * r, row[r] + offset, 2);
}

/* Bit 4s + b of each row's mask to bit s of byte b. */
static void put_fifth_bits(const uint8_t *const row[ROWS16_ROWS], size_t offset, uint8_t *out)
{
    for (int r = 0; r < ROWS16_ROWS; r++) {
        const uint8_t *in = row[r] + offset;
        for (int b = 0; b < 4; b++) {
            unsigned bits = 0;
            for (int i = 0; i < 4; i++)
                bits |= (in[i] >> b & 1u) << 2 * i | (in[i] >> (b + 4) & 1u) << (2 * i + 1);
            out[4 * r + b] = (uint8_t)bits;
        }
    }
}

#define FIELD(type, member) offsetof(struct type, member)

void rows16_pack_Q4_0(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q4_0, d), block);
    put_dwords(row, FIELD(block_q4_0, qs), 4, block + 32);
}

void rows16_pack_Q4_1(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q4_1, d), block);
    put_halves(row, FIELD(block_q4_1, m), block + 32);
    put_dwords(row, FIELD(block_q4_1, qs), 4, block + 64);
}

void rows16_pack_Q5_0(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q5_0, d), block);
    put_fifth_bits(row, FIELD(block_q5_0, qh), block + 32);
    put_dwords(row, FIELD(block_q5_0, qs), 4, block + 96);
}

void rows16_pack_Q5_1(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q5_1, d), block);
    put_halves(row, FIELD(block_q5_1, m), block + 32);
    put_fifth_bits(row, FIELD(block_q5_1, qh), block + 64);
    put_dwords(row, FIELD(block_q5_1, qs), 4, block + 128);
}

void rows16_pack_Q8_0(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q8_0, d), block);
    put_dwords(row, FIELD(block_q8_0, qs), 8, block + 32);
}

void rows16_pack_IQ4_NL(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_iq4_nl, d), block);
    put_dwords(row, FIELD(block_iq4_nl, qs), 4, block + 32);
}

void rows16_pack_MXFP4(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    for (int r = 0; r < ROWS16_ROWS; r++)
        block[r] = row[r][FIELD(block_mxfp4, e)];
    put_dwords(row, FIELD(block_mxfp4, qs), 4, block + 16);
}

void rows16_pack_Q2_K(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q2_k, d), block);
    put_halves(row, FIELD(block_q2_k, dmin), block + 32);
    for (int r = 0; r < ROWS16_ROWS; r++)
        for (int s = 0; s < 16; s++)
            block[64 + 16 * s + r] = row[r][FIELD(block_q2_k, scales) + (size_t)s];
    put_dwords(row, FIELD(block_q2_k, qs), 16, block + 320);
}

void rows16_pack_Q3_K(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q3_k, d), block);
    for (int r = 0; r < ROWS16_ROWS; r++) {
        int8_t scales[16];
        q3_k_scales(row[r] + FIELD(block_q3_k, scales), scales);
        for (int s = 0; s < 16; s++)
            block[32 + 16 * s + r] = (uint8_t)scales[s];
    }
    put_dwords(row, FIELD(block_q3_k, hmask), 8, block + 288);
    put_dwords(row, FIELD(block_q3_k, qs), 16, block + 800);
}

/* What Q4_K and Q5_K share: d, dmin and the expanded scales. */
static void put_k4_scales(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q4_k, d), block);
    put_halves(row, FIELD(block_q4_k, dmin), block + 32);
    for (int r = 0; r < ROWS16_ROWS; r++) {
        uint8_t scales[8], mins[8];
        k4_scales(row[r] + FIELD(block_q4_k, scales), scales, mins);
        for (int s = 0; s < 8; s++) {
            block[64 + 16 * s + r] = scales[s];
            block[192 + 16 * s + r] = mins[s];
        }
    }
}

void rows16_pack_Q4_K(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_k4_scales(row, block);
    put_dwords(row, FIELD(block_q4_k, qs), 32, block + 320);
}

void rows16_pack_Q5_K(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_k4_scales(row, block);
    put_dwords(row, FIELD(block_q5_k, qh), 8, block + 320);
    put_dwords(row, FIELD(block_q5_k, qs), 32, block + 832);
}

void rows16_pack_Q6_K(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_q6_k, d), block);
    for (int r = 0; r < ROWS16_ROWS; r++)
        for (int s = 0; s < 16; s++)
            block[32 + 16 * s + r] = row[r][FIELD(block_q6_k, scales) + (size_t)s];
    put_dwords(row, FIELD(block_q6_k, ql), 32, block + 288);
    put_dwords(row, FIELD(block_q6_k, qh), 16, block + 2336);
}

void rows16_pack_IQ4_XS(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_iq4_xs, d), block);
    for (int r = 0; r < ROWS16_ROWS; r++) {
        const uint8_t *low = row[r] + FIELD(block_iq4_xs, scales_l);
        const uint8_t *high = row[r] + FIELD(block_iq4_xs, scales_h);
        for (int s = 0; s < 8; s++) {
            int code = (low[s / 2] >> 4 * (s % 2) & 15) | (high[s / 4] >> 2 * (s % 4) & 3) << 4;
            block[32 + 16 * s + r] = (uint8_t)(code - 32);
        }
    }
    put_dwords(row, FIELD(block_iq4_xs, qs), 32, block + 160);
}

void rows16_pack_TQ2_0(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_halves(row, FIELD(block_tq2_0, d), block);
    put_dwords(row, FIELD(block_tq2_0, qs), 16, block + 32);
}
