/* dequant: the reference decoder of every type, and the row reader where no kernel has its own.
 *
 * Blocks of quantized types are read at even addresses, plain numbers at any.
 * Plain loops that compilers vectorize, without state: any thread may call them. Results are exact
 * except for one rounded addition in the types with a minimum, so that every correct decoder gives
 * the same bits; integers beyond 2^24 and binary64 round to nearest. */
#ifndef QUANT_DEQUANT_H
#define QUANT_DEQUANT_H

#include "quant/tensor_types.h"

/* One function for each type: n_blocks blocks to n_blocks * block_elements numbers. */
#define DEQUANT_DECLARE(name, id, elements, bytes, flags) \
    void dequant_##name(const void *blocks, float *out, size_t n_blocks);
TENSOR_TYPE_LIST(DEQUANT_DECLARE)
#undef DEQUANT_DECLARE

/* n elements; the type must be known and n a multiple of its block (a caller's bug traps). */
void dequant_row(enum tensor_type type, const void *blocks, float *out, int64_t n);

#endif
