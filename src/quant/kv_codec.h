/* kv_codec: how a key or a value of one head is written in a cache, for every type of a cache.
 *
 * A row of `dim` values is a row of blocks of the type, as in a file, with these exceptions:
 *   Q4_0           the even element of a byte is the low nibble (in a file: the first 16)
 *   NVFP4          blocks of 16: one e4m3 scale, then 8 bytes of e2m1, the even element low, so
 *                  that any multiple of 16 fits (a file has 64 in a block)
 *   TURBO3/TURBO4  a row is rotated before it is encoded: quant/turbo.h
 * Numbers too large for a type become its largest or an infinity; a NaN makes its block NaN.
 * Constant data and pure functions: any thread may call them. */
#ifndef QUANT_KV_CODEC_H
#define QUANT_KV_CODEC_H

#include "quant/tensor_types.h"
#include "quant/turbo.h"

struct kv_codec {
    enum tensor_type type;
    const char *name; /* as users write it: "fp8_e4m3" */
    int block_elements;
    int scale_bytes; /* of one block, at its start */
    int code_bytes;  /* of one block, behind the scale */
    int code_unit;   /* bytes that belong together: 4, 2 or 1 */
    bool rotated;
    void (*encode)(const float *x, void *block); /* one block */
    void (*decode)(const void *block, float *out);
};

/* NULL: the type is not one of a cache. */
const struct kv_codec *kv_codec_of(enum tensor_type);

/* "fp8_e4m3"; not case-sensitive. */
bool kv_type_from_name(struct str name, enum tensor_type *type);
const char *kv_type_name(enum tensor_type);

/* Bytes of a row; 0: the type cannot hold rows of that length. */
int64_t kv_row_bytes(enum tensor_type, int32_t dim);

/* What kv_row_bytes asks of `dim`: "a multiple of 32", "a power of two from 32 to 1024". */
const char *kv_dim_expected(enum tensor_type);

/* dim <= KV_DIM_MAX. Decoding gives rotated values for rotated types. */
#define KV_DIM_MAX 1024
void kv_encode_row(const struct kv_codec *, const float *x, int32_t dim, enum turbo_stream,
                   uint8_t *row);
void kv_decode_row(const struct kv_codec *, const uint8_t *row, float *out, int32_t dim);

#endif
