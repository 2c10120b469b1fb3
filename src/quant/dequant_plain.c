/* Decoders of the types that store plain numbers, and the dispatch over all types. */
#include "quant/dequant.h"

#include <string.h>

#include "base/compiler.h"
#include "quant/float_convert.h"

void dequant_row(enum tensor_type type, const void *blocks, float *out, int64_t n)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    CHECK(info && n >= 0 && n % info->block_elements == 0);
    info->dequant(blocks, out, (size_t)(n / info->block_elements));
}

void dequant_F32(const void *blocks, float *out, size_t n)
{
    memcpy(out, blocks, n * sizeof *out);
}

/* Rows in a file need not be aligned for their element, so numbers are read by memcpy. */
#define DEQUANT_NUMBERS(name, element, convert)                        \
    void dequant_##name(const void *blocks, float *out, size_t n)      \
    {                                                                  \
        const unsigned char *bytes = blocks;                           \
        float *restrict y = out;                                       \
        for (size_t i = 0; i < n; i++) {                               \
            element x;                                                 \
            memcpy(&x, bytes + i * sizeof x, sizeof x);                \
            y[i] = convert(x);                                         \
        }                                                              \
    }

DEQUANT_NUMBERS(F16, uint16_t, f16_to_f32)
DEQUANT_NUMBERS(BF16, uint16_t, bf16_to_f32)
DEQUANT_NUMBERS(F64, double, (float))
DEQUANT_NUMBERS(F8_E4M3, uint8_t, f8_e4m3_to_f32)
DEQUANT_NUMBERS(F8_E5M2, uint8_t, f8_e5m2_to_f32)
DEQUANT_NUMBERS(F8_E8M0, uint8_t, f8_e8m0_to_f32)
DEQUANT_NUMBERS(I8, int8_t, (float))
DEQUANT_NUMBERS(I16, int16_t, (float))
DEQUANT_NUMBERS(I32, int32_t, (float))
DEQUANT_NUMBERS(I64, int64_t, (float))
DEQUANT_NUMBERS(BOOL, uint8_t, (float))
DEQUANT_NUMBERS(U8, uint8_t, (float))
DEQUANT_NUMBERS(U16, uint16_t, (float))
DEQUANT_NUMBERS(U32, uint32_t, (float))
DEQUANT_NUMBERS(U64, uint64_t, (float))

void dequant_F4(const void *blocks, float *out, size_t n_blocks)
{
    const unsigned char *bytes = blocks;
    for (size_t i = 0; i < n_blocks; i++) {
        out[2 * i] = f4_e2m1_to_f32(bytes[i] & 15);
        out[2 * i + 1] = f4_e2m1_to_f32(bytes[i] >> 4);
    }
}
