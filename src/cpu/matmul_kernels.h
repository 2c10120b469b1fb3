/* matmul_kernels: what an instruction set provides to matmul_run, and the int8 operand format.
 * Tables are constant; all functions are leaves that may run on any thread. */
#ifndef CPU_MATMUL_KERNELS_H
#define CPU_MATMUL_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/cpu_features.h"
#include "cpu/rows16.h"

#define MATMUL_TILE 4       /* tokens of a tile; MATMUL_TOKENS of the interface */
#define MATMUL_TYPES 43     /* type ids of quantized types lie below */
#define MATMUL_DIRECT_MAX 8 /* tokens up to which codes are unpacked in registers */

/* 32 columns of a token tile: x = scale * q. Zero for tokens past the last.
 *   sums of q for the offset of unsigned codes, scale * sum for minimums;
 *   [0], [1]: columns 0-15, 16-31; [2]: all 32. */
struct matmul_block {
    int8_t q[8][MATMUL_TILE][4]; /* [four columns][token] */
    float scale[MATMUL_TILE];
    float sum[3][MATMUL_TILE];
    int32_t code_sum[3][MATMUL_TILE];
};

struct matmul_kernels {
    const char *name;
    bool (*available)(const struct cpu_features *);

    /* n (1 to 4) tokens of a tile, n_blocks blocks each */
    void (*quantize)(const float *x, int64_t x_stride, int n, int64_t n_blocks,
                     struct matmul_block *out);

    /* slabs [first, first + n) of a group; NULL: rows16_format.unpack */
    void (*unpack[MATMUL_TYPES])(const uint8_t *group, int64_t first, int n,
                                 struct rows16_slab *out);

    /* acc[token][row] += slabs * x, one f32 term for each scale group, ascending */
    void (*tile[MATMUL_TYPES])(const struct rows16_slab *slabs, int n, const struct matmul_block *x,
                               float acc[MATMUL_TILE][ROWS16_ROWS]);

    /* The same from the packed group for the first n_tokens; NULL: unpack and tile. */
    void (*direct[MATMUL_TYPES])(const uint8_t *group, int64_t n_slabs,
                                 const struct matmul_block *x, int n_tokens,
                                 float acc[MATMUL_TILE][ROWS16_ROWS]);

    /* acc[token][row] += sum over columns of w[column][row] * x[column][token] */
    void (*tile_f32)(const float *w, int n_cols, const float *x,
                     float acc[MATMUL_TILE][ROWS16_ROWS]);

    /* n f16 or bf16 numbers to f32 */
    void (*from_f16)(const void *in, float *out, int64_t n);
    void (*from_bf16)(const void *in, float *out, int64_t n);
};

extern const struct matmul_kernels matmul_kernels_reference;
#if defined(__x86_64__)
extern const struct matmul_kernels matmul_kernels_avx2;
extern const struct matmul_kernels matmul_kernels_avx512;
#endif

#endif
