/* Packers of the planes types: one block of each of 16 rows to the layout of cpu/rows16.h.
 * A field of n dwords is transposed as dwords; scales become arrays over rows. */
#include "cpu/rows16.h"

#include <string.h>

#include "cpu/transpose.h"
#include "quant/blocks.h"

static void put_halves(const uint8_t *const row[ROWS16_ROWS], size_t offset, uint8_t *out)
{
    for (int r = 0; r < ROWS16_ROWS; r++)
        memcpy(out + 2 * r, row[r] + offset, 2);
}

/* Bits b, b + 4, ... b + 28 to the lowest byte. */
HOT_INLINE quad_u32 every_fourth(quad_u32 x, int b)
{
    x = x >> b & 0x11111111u;
    x = (x | x >> 3) & 0x03030303u;
    x = (x | x >> 6) & 0x000F000Fu;
    return (x | x >> 12) & 0xFFu;
}

/* Bit 4s + b of each row's mask to bit s of byte b. */
static void put_fifth_bits(const uint8_t *const row[ROWS16_ROWS], size_t offset, uint8_t *out)
{
    for (int r = 0; r < ROWS16_ROWS; r++)
        memcpy(out + 4 * r, row[r] + offset, 4);
    for (int g = 0; g < 4; g++) {
        quad_u32 x = load_dwords(out + 16 * g);
        quad_u32 bits = every_fourth(x, 0) | every_fourth(x, 1) << 8 | every_fourth(x, 2) << 16 |
                        every_fourth(x, 3) << 24;
        memcpy(out + 16 * g, &bits, sizeof bits);
    }
}

/* [16][row] from the sixteen bytes at `offset`. */
static void put_sixteen_bytes(const uint8_t *const row[ROWS16_ROWS], size_t offset, uint8_t *out)
{
    struct row_dwords x[4];
    gather_four(row, offset, x);
    for (int i = 0; i < 4; i++)
        store_bytes(&x[i], out + 64 * i);
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
    put_sixteen_bytes(row, FIELD(block_q2_k, scales), block + 64);
    put_dwords(row, FIELD(block_q2_k, qs), 16, block + 320);
}

/* Scales and d are the last 16 bytes of the block: 12 of the six-bit scales (quant/blocks.h). */
static void put_q3_k_scales(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    struct row_dwords x[4], scales[4];
    _Static_assert(FIELD(block_q3_k, d) == FIELD(block_q3_k, scales) + 12 &&
                       sizeof(struct block_q3_k) == FIELD(block_q3_k, d) + 2,
                   "the scales end two bytes before the block");
    gather_four(row, FIELD(block_q3_k, scales) - 2, x);
    for (int g = 0; g < 4; g++) {
        /* Two bytes early, so as not to read behind the block. */
        quad_u32 a = x[0].of[g] >> 16 | x[1].of[g] << 16, b = x[1].of[g] >> 16 | x[2].of[g] << 16;
        quad_u32 c = x[2].of[g] >> 16 | x[3].of[g] << 16;
        scales[0].of[g] = (a & 0x0F0F0F0Fu) | (c << 4 & 0x30303030u);
        scales[1].of[g] = (b & 0x0F0F0F0Fu) | (c << 2 & 0x30303030u);
        scales[2].of[g] = (a >> 4 & 0x0F0F0F0Fu) | (c & 0x30303030u);
        scales[3].of[g] = (b >> 4 & 0x0F0F0F0Fu) | (c >> 2 & 0x30303030u);
    }
    for (int i = 0; i < 4; i++) {
        for (int g = 0; g < 4; g++) /* code - 32 in every byte */
            scales[i].of[g] = (quad_u32)((quad_bytes)scales[i].of[g] - 32);
        store_bytes(&scales[i], block + 32 + 64 * i);
    }
    uint8_t unused[32];
    store_halves(&x[3], unused, block);
}

void rows16_pack_Q3_K(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    put_q3_k_scales(row, block);
    put_dwords(row, FIELD(block_q3_k, hmask), 8, block + 288);
    put_dwords(row, FIELD(block_q3_k, qs), 16, block + 800);
}

/* What Q4_K and Q5_K share, their first 16 bytes: d, dmin and the six-bit scales and minimums. */
static void put_k4_scales(const uint8_t *const row[ROWS16_ROWS], uint8_t *block)
{
    struct row_dwords x[4], scales[2], mins[2];
    _Static_assert(FIELD(block_q4_k, d) == 0 && FIELD(block_q4_k, scales) == 4, "the first bytes");
    gather_four(row, 0, x);
    for (int g = 0; g < 4; g++) {
        quad_u32 a = x[1].of[g], b = x[2].of[g], c = x[3].of[g];
        scales[0].of[g] = a & 0x3F3F3F3Fu;
        mins[0].of[g] = b & 0x3F3F3F3Fu;
        scales[1].of[g] = (c & 0x0F0F0F0Fu) | (a >> 2 & 0x30303030u);
        mins[1].of[g] = (c >> 4 & 0x0F0F0F0Fu) | (b >> 2 & 0x30303030u);
    }
    store_halves(&x[0], block, block + 32);
    for (int i = 0; i < 2; i++) {
        store_bytes(&scales[i], block + 64 + 64 * i);
        store_bytes(&mins[i], block + 192 + 64 * i);
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
    put_sixteen_bytes(row, FIELD(block_q6_k, scales), block + 32);
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
