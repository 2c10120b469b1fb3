/* rows16: the one resident layout of weights on the CPU, 16 rows interleaved.
 *
 * A packed matrix is a sequence of row groups; a row group is a sequence of blocks; a block holds
 * the file blocks (32 to 256 columns) of its 16 rows. The last group is padded with zero rows.
 *
 *   group 0                          group 1
 *   +---------+---------+-- ... --+ +---------+-- ...
 *   | block 0 | block 1 |         | | block 0 |
 *   +---------+---------+-- ... --+ +---------+-- ...
 *
 * Inside a block (planes types) every field of the file's block becomes an array over rows:
 *   scales: [n][16 rows]     bits: [dword of the file's field][16 rows][4 bytes]
 * so that a 64-byte vector holds the same four bytes of 16 rows: after a shift and a mask, four
 * consecutive columns ("step") of 16 rows, the operand of an int8 dot-product instruction. No bit
 * moves inside its dword, except the fifth bits of Q5_0 and Q5_1. Six-bit scales become bytes.
 *   Q4_0, IQ4_NL  d 0      q 32 [4]                                              288 bytes
 *   Q4_1          d 0      m 32   q 64 [4]                                       320
 *   Q5_0          d 0      h 32 [1]  q 96 [4]                                    352
 *   Q5_1          d 0      m 32   h 64 [1]  q 128 [4]                            384
 *   Q8_0          d 0      q 32 [8]                                              544
 *   MXFP4         e 0 (16 bytes)  q 16 [4]                                       272
 *   Q2_K          d 0      dmin 32   scales 64 [16][16]   q 320 [16]             1344
 *   Q3_K          d 0      scales 32 [16][16]   h 288 [8]   q 800 [16]           1824
 *   Q4_K          d 0      dmin 32   scales 64 [8][16]  mins 192 [8][16]  q 320 [32]    2368
 *   Q5_K          as Q4_K, h 320 [8]   q 832 [32]                                2880
 *   Q6_K          d 0      scales 32 [16][16]   q 288 [32]   h 2336 [16]         3360
 *   IQ4_XS        d 0      scales 32 [8][16]   q 160 [32]                        2208
 *   TQ2_0         d 0      q 32 [16]                                             1056
 *   h (Q5_0, Q5_1): bit s of byte b is the fifth bit of column 4s + b.
 * Blocks types (grids and the rest): 16 file blocks, one row after the other, unchanged.
 * Elements types (plain numbers): [column][16 rows] elements as in the file.
 *
 * Whatever the type, 32 columns of a row group unpack to one slab; w = scale * (q - offset) - min,
 * exactly the reference dequantization. */
#ifndef CPU_ROWS16_H
#define CPU_ROWS16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/tensor_types.h"

#define ROWS16_ROWS 16
#define ROWS16_STEPS 8 /* of four columns in a slab */

struct rows16_slab {
    uint32_t q[ROWS16_STEPS][ROWS16_ROWS]; /* four codes of one byte, ascending columns */
    float scale[2][ROWS16_ROWS];           /* for columns 0-15 and 16-31, or [0] for all 32 */
    float min[2][ROWS16_ROWS];             /* where has_min */
};

/* Types kept as bit planes. name, code bits, scale groups of 32 columns, has a minimum, log2 of
 * the offset or -1. With b code bits an unsigned code is below 2^b. */
#define ROWS16_PLANES_LIST(X) \
    X(Q4_0, 4, 1, 0, 3)       \
    X(Q4_1, 4, 1, 1, -1)      \
    X(Q5_0, 5, 1, 0, 4)       \
    X(Q5_1, 5, 1, 1, -1)      \
    X(Q8_0, 8, 1, 0, 7)       \
    X(Q2_K, 2, 2, 1, -1)      \
    X(Q3_K, 3, 2, 0, 2)       \
    X(Q4_K, 4, 1, 1, -1)      \
    X(Q5_K, 5, 1, 1, -1)      \
    X(Q6_K, 6, 2, 0, 5)       \
    X(IQ4_NL, 8, 1, 0, 7)     \
    X(IQ4_XS, 8, 1, 0, 7)     \
    X(TQ2_0, 2, 1, 0, 0)      \
    X(MXFP4, 5, 1, 0, 4)

/* Types whose file blocks are kept. */
#define ROWS16_BLOCKS_LIST(X) \
    X(IQ2_XXS, 7, 1, 0, 6)    \
    X(IQ2_XS, 7, 2, 0, 6)     \
    X(IQ2_S, 7, 2, 0, 6)      \
    X(IQ3_XXS, 7, 1, 0, 6)    \
    X(IQ3_S, 5, 1, 0, 4)      \
    X(IQ1_S, 5, 1, 0, 4)      \
    X(IQ1_M, 5, 2, 0, 4)      \
    X(TQ1_0, 2, 1, 0, 0)      \
    X(NVFP4, 5, 2, 0, 4)      \
    X(Q1_0, 2, 1, 0, 0)       \
    X(Q2_0, 2, 1, 0, 0)

/* Columns and packed bytes (16 rows) of a block. */
enum rows16_sizes {
    ROWS16_BYTES_Q4_0 = 288, ROWS16_BYTES_Q4_1 = 320, ROWS16_BYTES_Q5_0 = 352,
    ROWS16_BYTES_Q5_1 = 384, ROWS16_BYTES_Q8_0 = 544, ROWS16_BYTES_Q2_K = 1344,
    ROWS16_BYTES_Q3_K = 1824, ROWS16_BYTES_Q4_K = 2368, ROWS16_BYTES_Q5_K = 2880,
    ROWS16_BYTES_Q6_K = 3360, ROWS16_BYTES_IQ4_NL = 288, ROWS16_BYTES_IQ4_XS = 2208,
    ROWS16_BYTES_TQ2_0 = 1056, ROWS16_BYTES_MXFP4 = 272,
#define ROWS16_COLUMNS(name, id, elements, bytes, flags) ROWS16_COLUMNS_##name = elements,
    TENSOR_TYPE_LIST(ROWS16_COLUMNS)
#undef ROWS16_COLUMNS
};

enum rows16_kind { ROWS16_PLANES, ROWS16_BLOCKS, ROWS16_ELEMENTS };

struct rows16_format {
    enum tensor_type type;
    enum rows16_kind kind;
    int block_columns, block_bytes; /* of 16 rows */
    /* for quantized types */
    int code_bits, scale_groups, offset_shift;
    bool has_min;
    void (*pack)(const uint8_t *const row[ROWS16_ROWS], uint8_t *block); /* planes types */
    void (*unpack)(const uint8_t *block, int slab, struct rows16_slab *out);
};

/* NULL when the type cannot be packed. */
const struct rows16_format *rows16_format(enum tensor_type type);

/* The size of one row group; the columns are a multiple of the block. */
size_t rows16_group_bytes(const struct rows16_format *f, int64_t n_cols);

/* Packs n_rows (1 to 16) rows that lie row_bytes apart. */
void rows16_pack_group(const struct rows16_format *f, int64_t n_cols, int n_rows,
                       const uint8_t *file, size_t row_bytes, uint8_t *group);

/* Where slab number `slab` of a group lies: its block, and its number inside the block. */
static inline const uint8_t *rows16_block(const struct rows16_format *f, const uint8_t *group,
                                          int64_t slab, int *inside)
{
    int slabs = f->block_columns / 32;
    *inside = (int)(slab % slabs);
    return group + (size_t)(slab / slabs) * (size_t)f->block_bytes;
}

/* f32 values [32 columns][16 rows] of a slab. */
void rows16_slab_values(const struct rows16_format *f, const struct rows16_slab *s,
                        float *restrict out);

/* One row of a group as f32. */
void rows16_unpack_row(const struct rows16_format *f, const uint8_t *group, int64_t n_cols,
                       int row, float *out);

/* The unpackers of the blocks types, portable C: rows16_blocks.c. */
#define ROWS16_DECLARE(name, bits, groups, min, shift) \
    void rows16_unpack_##name(const uint8_t *block, int slab, struct rows16_slab *out);
ROWS16_BLOCKS_LIST(ROWS16_DECLARE)
ROWS16_PLANES_LIST(ROWS16_DECLARE)
#undef ROWS16_DECLARE

/* The packers of the planes types: rows16_pack.c. */
#define ROWS16_DECLARE(name, bits, groups, min, shift) \
    void rows16_pack_##name(const uint8_t *const row[ROWS16_ROWS], uint8_t *block);
ROWS16_PLANES_LIST(ROWS16_DECLARE)
#undef ROWS16_DECLARE

#endif
