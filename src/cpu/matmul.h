/* matmul: matrix products of the CPU device, out[t][r] = sum_k x[t][k] * w[r][k].
 *
 * Three steps, each split over threads by the caller, none allocating:
 *   1. At load, matmul_pack rearranges a weight into the rows16 layout (cpu/rows16.h), the only
 *      resident copy. A row group is 16 rows; ranges of row groups are independent.
 *   2. Per product (or group of products that share x), matmul_activate turns x into the operand
 *      format: int8 with an f32 scale for every 32 columns, or f32 as it is for float weights and
 *      in exact mode. A token tile is 4 tokens; ranges of token tiles are independent.
 *   3. matmul_run computes all tokens of a range of row groups. Threads may take any ranges.
 *
 * A token's result does not depend on the other tokens, on the ranges, or on the threads: block
 * products are exact integers, and each (row, token) adds one f32 term per block in block order.
 *
 * Ownership: nothing is kept. Threads: all functions may run concurrently on disjoint ranges.
 * Scratch: matmul_run uses up to MATMUL_STACK_BYTES of the calling thread's stack. */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/cpu_features.h"
#include "tensor/tensor.h"

#define MATMUL_ROWS 16   /* rows of a row group */
#define MATMUL_TOKENS 4  /* tokens of a token tile */
#define MATMUL_STACK_BYTES (192 * 1024)

/* One instruction set's implementation: cpu/matmul_kernels.h. */
struct matmul_kernels;

/* The best set that the processor has and that does not lie above `isa` ("reference", "avx2",
 * "avx512", ...; NULL: no bound); NULL when `isa` is not a known name or not available here. */
const struct matmul_kernels *matmul_kernels_choose(const struct cpu_features *, const char *isa);
const char *matmul_kernels_name(const struct matmul_kernels *);
/* Sets this processor can run, weakest first: for tests; NULL past the last. */
const struct matmul_kernels *matmul_kernels_at(const struct cpu_features *, int index);

/* Can a weight of this type and row length be packed and multiplied? */
bool matmul_supports(enum tensor_type type, int64_t n_cols);

int64_t matmul_row_groups(int64_t n_rows);
int64_t matmul_token_tiles(int64_t n_tokens);

/* Bytes of one packed [n_rows][n_cols] matrix; 0 when it is not supported or does not fit.
 * Experts are packed one after the other. */
size_t matmul_packed_bytes(enum tensor_type type, int64_t n_rows, int64_t n_cols);

/* `file` holds n_rows rows as in the file, without alignment; `packed` is 64-aligned. */
void matmul_pack(enum tensor_type type, int64_t n_rows, int64_t n_cols, const void *file,
                 void *packed, int64_t from_group, int64_t to_group);

/* The f32 values of one row of a packed weight, exactly those of the reference dequantization. */
void matmul_unpack_row(const struct weight *w, int64_t expert, int64_t row, float *out);

enum matmul_operand {
    MATMUL_INT8, /* for quantized weights */
    MATMUL_F32,  /* for float weights; for all weights in exact mode */
};
enum matmul_operand matmul_operand_for(enum tensor_type weight_type, bool exact);

/* x: [n_tokens][n_cols] with x_stride floats from token to token; `out`: 64-aligned. */
size_t matmul_operand_bytes(enum matmul_operand, int64_t n_tokens, int64_t n_cols);
void matmul_activate(const struct matmul_kernels *, enum matmul_operand, const float *x,
                     int64_t x_stride, int64_t n_tokens, int64_t n_cols, void *out,
                     int64_t from_tile, int64_t to_tile);

/* out[i] = activation(gate[i]) * up[i] for i < n; out may be gate. */
typedef void matmul_glu_function(float *out, const float *gate, const float *up, int n);

struct matmul_args {
    const struct weight *w;  /* packed */
    int64_t expert;
    const struct weight *up; /* gated product: w is the gate, of the same shape; NULL: plain */
    matmul_glu_function *glu; /* required with `up` */
    enum matmul_operand operand;
    const void *x;           /* from matmul_activate */
    int64_t n_tokens;
    float *out;              /* [n_tokens][out_stride] */
    int64_t out_stride;      /* floats, at least n_rows */
    const float *bias;       /* [n_rows]; NULL: none */
    bool add;                /* out += instead of out = */
};
void matmul_run(const struct matmul_kernels *, const struct matmul_args *, int64_t from_group,
                int64_t to_group);

#endif
