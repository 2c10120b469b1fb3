/* tensor_types: the one list of element types a tensor may have.
 *
 * An enum value is the type id of a GGUF file (ggml's numbering, 0 to 42); types that only
 * safetensors files or caches hold have ids of our own from 1000 on, never written to a GGUF. Ids
 * that once existed (4, 5, 31 to 33, 36 to 38) have no row: such files are refused.
 * All values are stored in blocks; a plain number is a block of one element.
 * Everything here is constant data: any thread may call it. */
#ifndef QUANT_TENSOR_TYPES_H
#define QUANT_TENSOR_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum tensor_type_flags {
    TENSOR_TYPE_FLOAT = 1,            /* plain numbers with a sign, an exponent and a mantissa */
    TENSOR_TYPE_INTEGER = 2,          /* plain integers and BOOL */
    TENSOR_TYPE_QUANTIZED = 4,        /* codes with scales in the same block */
    TENSOR_TYPE_NEEDS_IMPORTANCE = 8, /* too coarse to be written without an importance matrix */
    TENSOR_TYPE_ACTIVATION_ONLY = 16, /* made while computing, never found in a file */
};

/* name, id, block elements, block bytes, flags */
#define TENSOR_TYPE_LIST(X)                                                        \
    X(F32, 0, 1, 4, TENSOR_TYPE_FLOAT)                                             \
    X(F16, 1, 1, 2, TENSOR_TYPE_FLOAT)                                             \
    X(Q4_0, 2, 32, 18, TENSOR_TYPE_QUANTIZED)                                      \
    X(Q4_1, 3, 32, 20, TENSOR_TYPE_QUANTIZED)                                      \
    X(Q5_0, 6, 32, 22, TENSOR_TYPE_QUANTIZED)                                      \
    X(Q5_1, 7, 32, 24, TENSOR_TYPE_QUANTIZED)                                      \
    X(Q8_0, 8, 32, 34, TENSOR_TYPE_QUANTIZED)                                      \
    X(Q8_1, 9, 32, 36, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_ACTIVATION_ONLY)        \
    X(Q2_K, 10, 256, 84, TENSOR_TYPE_QUANTIZED)                                    \
    X(Q3_K, 11, 256, 110, TENSOR_TYPE_QUANTIZED)                                   \
    X(Q4_K, 12, 256, 144, TENSOR_TYPE_QUANTIZED)                                   \
    X(Q5_K, 13, 256, 176, TENSOR_TYPE_QUANTIZED)                                   \
    X(Q6_K, 14, 256, 210, TENSOR_TYPE_QUANTIZED)                                   \
    X(Q8_K, 15, 256, 292, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_ACTIVATION_ONLY)     \
    X(IQ2_XXS, 16, 256, 66, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_NEEDS_IMPORTANCE)  \
    X(IQ2_XS, 17, 256, 74, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_NEEDS_IMPORTANCE)   \
    X(IQ3_XXS, 18, 256, 98, TENSOR_TYPE_QUANTIZED)                                 \
    X(IQ1_S, 19, 256, 50, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_NEEDS_IMPORTANCE)    \
    X(IQ4_NL, 20, 32, 18, TENSOR_TYPE_QUANTIZED)                                   \
    X(IQ3_S, 21, 256, 110, TENSOR_TYPE_QUANTIZED)                                  \
    X(IQ2_S, 22, 256, 82, TENSOR_TYPE_QUANTIZED)                                   \
    X(IQ4_XS, 23, 256, 136, TENSOR_TYPE_QUANTIZED)                                 \
    X(I8, 24, 1, 1, TENSOR_TYPE_INTEGER)                                           \
    X(I16, 25, 1, 2, TENSOR_TYPE_INTEGER)                                          \
    X(I32, 26, 1, 4, TENSOR_TYPE_INTEGER)                                          \
    X(I64, 27, 1, 8, TENSOR_TYPE_INTEGER)                                          \
    X(F64, 28, 1, 8, TENSOR_TYPE_FLOAT)                                            \
    X(IQ1_M, 29, 256, 56, TENSOR_TYPE_QUANTIZED)                                   \
    X(BF16, 30, 1, 2, TENSOR_TYPE_FLOAT)                                           \
    X(TQ1_0, 34, 256, 54, TENSOR_TYPE_QUANTIZED)                                   \
    X(TQ2_0, 35, 256, 66, TENSOR_TYPE_QUANTIZED)                                   \
    X(MXFP4, 39, 32, 17, TENSOR_TYPE_QUANTIZED)                                    \
    X(NVFP4, 40, 64, 36, TENSOR_TYPE_QUANTIZED)                                    \
    X(Q1_0, 41, 128, 18, TENSOR_TYPE_QUANTIZED)                                    \
    X(Q2_0, 42, 64, 18, TENSOR_TYPE_QUANTIZED)                                     \
    X(F8_E4M3, 1000, 1, 1, TENSOR_TYPE_FLOAT)                                      \
    X(F8_E5M2, 1001, 1, 1, TENSOR_TYPE_FLOAT)                                      \
    X(F8_E8M0, 1002, 1, 1, TENSOR_TYPE_FLOAT)                                      \
    X(F4, 1003, 2, 1, TENSOR_TYPE_FLOAT) /* e2m1, the even element in the low nibble */ \
    X(BOOL, 1004, 1, 1, TENSOR_TYPE_INTEGER)                                       \
    X(U8, 1005, 1, 1, TENSOR_TYPE_INTEGER)                                         \
    X(U16, 1006, 1, 2, TENSOR_TYPE_INTEGER)                                        \
    X(U32, 1007, 1, 4, TENSOR_TYPE_INTEGER)                                        \
    X(U64, 1008, 1, 8, TENSOR_TYPE_INTEGER)                                        \
    X(TURBO3, 1009, 32, 14, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_ACTIVATION_ONLY)   \
    X(TURBO4, 1010, 32, 18, TENSOR_TYPE_QUANTIZED | TENSOR_TYPE_ACTIVATION_ONLY)

enum tensor_type {
#define TENSOR_TYPE_ENUM(name, id, elements, bytes, flags) TENSOR_TYPE_##name = id,
    TENSOR_TYPE_LIST(TENSOR_TYPE_ENUM)
#undef TENSOR_TYPE_ENUM
};

#define TENSOR_TYPE_FIRST_OWN 1000 /* ids from here on never appear in a GGUF */

struct tensor_type_info {
    enum tensor_type type;
    const char *name;     /* "Q4_K" */
    int block_elements;   /* a row holds a whole number of blocks */
    int block_bytes;
    unsigned flags;       /* enum tensor_type_flags */
    /* Decodes n_blocks blocks: the reference, see quant/dequant.h. */
    void (*dequant)(const void *blocks, float *out, size_t n_blocks);
};

/* NULL for an id that is unknown or was removed; any integer from a file may be passed. */
const struct tensor_type_info *tensor_type_info(enum tensor_type type);

/* "Q4_2" for id 4: what an id that has no row any more once meant; NULL when it never existed. */
const char *tensor_type_removed_name(enum tensor_type type);

/* The name alone; "unknown" where tensor_type_info is NULL. */
const char *tensor_type_name(enum tensor_type type);

/* Not case-sensitive. */
bool tensor_type_from_name(struct str name, enum tensor_type *type);

/* Bytes of a row of n_cols elements; false when the type is unknown, n_cols is not a multiple of
 * the block or negative, or the size does not fit. */
bool tensor_type_row_bytes(enum tensor_type type, int64_t n_cols, size_t *bytes);

#endif
