/* transpose: 16 rows of dwords to arrays over rows, for packers of weights.
 *
 * Vectors of 16 bytes, which every supported processor has: the transposes take half a cycle for
 * four dwords, less than the memory that they read and write, so no instruction set needs a copy.
 * Leaf functions; inputs and outputs without alignment. */
#ifndef CPU_TRANSPOSE_H
#define CPU_TRANSPOSE_H

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define TRANSPOSE_ROWS 16

typedef uint32_t quad_u32 __attribute__((vector_size(16)));
typedef uint8_t quad_bytes __attribute__((vector_size(16)));

/* One dword of each of 16 rows, in four vectors of four rows. */
struct row_dwords {
    quad_u32 of[4];
};

HOT_INLINE quad_u32 load_dwords(const uint8_t *in)
{
    quad_u32 v;
    memcpy(&v, in, sizeof v);
    return v;
}

/* out[i] lane j = in[j] lane i */
HOT_INLINE void transpose_4x4(const quad_u32 in[4], quad_u32 out[4])
{
    quad_u32 a = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
    quad_u32 b = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
    quad_u32 c = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
    quad_u32 d = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* The four dwords at `offset` of every row. */
HOT_INLINE void gather_four(const uint8_t *const row[TRANSPOSE_ROWS], size_t offset,
                            struct row_dwords out[4])
{
    for (int g = 0; g < 4; g++) {
        quad_u32 in[4], turned[4];
        for (int r = 0; r < 4; r++)
            in[r] = load_dwords(row[4 * g + r] + offset);
        transpose_4x4(in, turned);
        for (int i = 0; i < 4; i++)
            out[i].of[g] = turned[i];
    }
}

/* [row][4 bytes] */
HOT_INLINE void store_rows(const struct row_dwords *x, uint8_t *out)
{
    memcpy(out, x->of, sizeof x->of);
}

/* [byte of the dword][row] */
HOT_INLINE void store_bytes(const struct row_dwords *x, uint8_t *out)
{
    quad_u32 in[4], turned[4];
    for (int g = 0; g < 4; g++) {
        quad_bytes v = (quad_bytes)x->of[g];
        in[g] = (quad_u32)__builtin_shufflevector(v, v, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3,
                                                  7, 11, 15);
    }
    transpose_4x4(in, turned);
    memcpy(out, turned, sizeof turned);
}

/* [half of the dword][row], 2 bytes each */
HOT_INLINE void store_halves(const struct row_dwords *x, uint8_t *low, uint8_t *high)
{
    typedef uint16_t halves __attribute__((vector_size(16)));
    for (int g = 0; g < 2; g++) {
        halves a = (halves)x->of[2 * g], b = (halves)x->of[2 * g + 1];
        halves even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
        halves odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
        memcpy(low + 16 * g, &even, sizeof even);
        memcpy(high + 16 * g, &odd, sizeof odd);
    }
}

/* [dword][row][4 bytes] of the n dwords at `offset`; n is a multiple of four */
HOT_INLINE void put_dwords(const uint8_t *const row[TRANSPOSE_ROWS], size_t offset, int n,
                           uint8_t *out)
{
    for (int i = 0; i < n; i += 4) {
        struct row_dwords x[4];
        gather_four(row, offset + 4 * (size_t)i, x);
        for (int k = 0; k < 4; k++)
            store_rows(&x[k], out + 64 * (i + k));
    }
}

#endif
