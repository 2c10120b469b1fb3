#include "quant/kv_codec.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "quant/blocks.h"
#include "quant/dequant.h"
#include "quant/float_convert.h"

/* --- encoders: one block each ------------------------------------------------------------- */

static void encode_f32(const float *x, void *block)
{
    memcpy(block, x, sizeof *x);
}

static void encode_f16(const float *x, void *block)
{
    uint16_t half = f32_to_f16(*x);
    memcpy(block, &half, sizeof half);
}

static void encode_bf16(const float *x, void *block)
{
    uint16_t half = f32_to_bf16(*x);
    memcpy(block, &half, sizeof half);
}

static void encode_fp8(const float *x, void *block)
{
    *(uint8_t *)block = f32_to_f8_e4m3(*x);
}

static float largest_of(const float *x, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

/* A NaN or an infinity among x: no code can be chosen, the scale says so. */
static bool all_finite(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * 0.0f;
    return sum == 0;
}

/* Codes -127 to 127. Halves round away from zero. */
static void encode_q8_0(const float *x, void *block)
{
    struct block_q8_0 *b = block;
    float scale = largest_of(x, 32) / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0;
    if (!all_finite(x, 32) || !isfinite(inverse)) {
        memset(b, 0, sizeof *b);
        b->d = isfinite(scale) && all_finite(x, 32) ? 0 : 0x7E00;
        return;
    }
    for (int i = 0; i < 32; i++)
        b->qs[i] = (int8_t)roundf(x[i] * inverse);
    b->d = f32_to_f16(scale);
}

static uint8_t q4_code(float x, float inverse)
{
    int q = (int)(x * inverse + 8.5f);
    return (uint8_t)(q > 15 ? 15 : q);
}

/* The value farthest from zero becomes code -8 exactly. */
static void encode_q4_0(const float *x, void *block)
{
    uint8_t *b = block;
    float extreme = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    float scale = extreme / -8.0f, inverse = scale != 0 ? 1.0f / scale : 0;
    uint16_t half = all_finite(x, 32) ? 0 : 0x7E00;
    if (half == 0 && isfinite(inverse))
        half = f32_to_f16(scale);
    else
        inverse = 0;
    memcpy(b, &half, sizeof half);
    for (int i = 0; i < 16; i++) {
        uint8_t low = inverse != 0 ? q4_code(x[2 * i], inverse) : 8;
        uint8_t high = inverse != 0 ? q4_code(x[2 * i + 1], inverse) : 8;
        b[2 + i] = (uint8_t)(low | high << 4);
    }
}

/* Squared error of 16 values under one scale. */
static float fp4_error(const float *x, float scale)
{
    float inverse = 1.0f / scale, sum = 0;
    for (int i = 0; i < 16; i++) {
        float d = x[i] - scale * f4_e2m1_to_f32(f32_to_f4_e2m1(x[i] * inverse));
        sum += d * d;
    }
    return sum;
}

/* The best of the scales around largest / 6; smaller ones cut the largest value. */
static void encode_nvfp4(const float *x, void *block)
{
    uint8_t *b = block;
    float largest = largest_of(x, 16);
    memset(b, 0, 9);
    if (!all_finite(x, 16)) {
        b[0] = 0x7F;
        return;
    }
    int first = f32_to_f8_e4m3(largest / 6.0f), code = 0;
    float least = INFINITY;
    for (int c = MAX(1, first - 2); c <= MIN(0x7E, first + 1) && largest > 0; c++) {
        float error = fp4_error(x, f8_e4m3_to_f32((uint8_t)c));
        if (error < least) {
            least = error;
            code = c;
        }
    }
    if (code == 0)
        return;
    b[0] = (uint8_t)code;
    float inverse = 1.0f / f8_e4m3_to_f32(b[0]);
    for (int i = 0; i < 8; i++)
        b[1 + i] = (uint8_t)(f32_to_f4_e2m1(x[2 * i] * inverse) |
                             f32_to_f4_e2m1(x[2 * i + 1] * inverse) << 4);
}

static void encode_turbo3(const float *x, void *block)
{
    turbo_encode_best(x, 3, block);
}

static void encode_turbo4(const float *x, void *block)
{
    turbo_encode_best(x, 4, block);
}

/* --- decoders ----------------------------------------------------------------------------- */

static void decode_nvfp4(const void *block, float *out)
{
    const uint8_t *b = block;
    float scale = f8_e4m3_to_f32(b[0]);
    for (int i = 0; i < 16; i++)
        out[i] = scale * f4_e2m1_to_f32((uint8_t)(b[1 + i / 2] >> i % 2 * 4 & 15));
}

static void decode_q4_0(const void *block, float *out)
{
    const uint8_t *b = block;
    uint16_t half;
    memcpy(&half, b, sizeof half);
    float scale = f16_to_f32(half);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)((b[2 + i / 2] >> i % 2 * 4 & 15) - 8);
}

#define DECODE(name, type) \
    static void decode_##name(const void *block, float *out) \
    { \
        dequant_##type(block, out, 1); \
    }
DECODE(f32, F32)
DECODE(f16, F16)
DECODE(bf16, BF16)
DECODE(fp8, F8_E4M3)
DECODE(q8_0, Q8_0)
DECODE(turbo3, TURBO3)
DECODE(turbo4, TURBO4)

/* --- the table ---------------------------------------------------------------------------- */

static const struct kv_codec codecs[] = {
    { TENSOR_TYPE_F32, "f32", 1, 0, 4, 4, false, encode_f32, decode_f32 },
    { TENSOR_TYPE_F16, "f16", 1, 0, 2, 2, false, encode_f16, decode_f16 },
    { TENSOR_TYPE_BF16, "bf16", 1, 0, 2, 2, false, encode_bf16, decode_bf16 },
    { TENSOR_TYPE_Q8_0, "q8_0", 32, 2, 32, 1, false, encode_q8_0, decode_q8_0 },
    { TENSOR_TYPE_F8_E4M3, "fp8_e4m3", 1, 0, 1, 1, false, encode_fp8, decode_fp8 },
    { TENSOR_TYPE_Q4_0, "q4_0", 32, 2, 16, 1, false, encode_q4_0, decode_q4_0 },
    { TENSOR_TYPE_NVFP4, "nvfp4", 16, 1, 8, 1, false, encode_nvfp4, decode_nvfp4 },
    { TENSOR_TYPE_TURBO3, "turbo3", 32, 2, 12, 1, true, encode_turbo3, decode_turbo3 },
    { TENSOR_TYPE_TURBO4, "turbo4", 32, 2, 16, 1, true, encode_turbo4, decode_turbo4 },
};

const struct kv_codec *kv_codec_of(enum tensor_type type)
{
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
        if (codecs[i].type == type)
            return &codecs[i];
    return NULL;
}

bool kv_type_from_name(struct str name, enum tensor_type *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
        if (name.len == strlen(codecs[i].name) &&
            strncasecmp(name.ptr, codecs[i].name, name.len) == 0) {
            *type = codecs[i].type;
            return true;
        }
    return false;
}

const char *kv_type_name(enum tensor_type type)
{
    const struct kv_codec *c = kv_codec_of(type);
    return c ? c->name : tensor_type_name(type);
}

int64_t kv_row_bytes(enum tensor_type type, int32_t dim)
{
    const struct kv_codec *c = kv_codec_of(type);
    if (!c || dim < 1 || dim > KV_DIM_MAX || dim % c->block_elements ||
        (c->rotated && !turbo_dim_supported(dim)))
        return 0;
    return (int64_t)dim / c->block_elements * (c->scale_bytes + c->code_bytes);
}

const char *kv_dim_expected(enum tensor_type type)
{
    const struct kv_codec *c = kv_codec_of(type);
    if (!c)
        return "another type";
    if (c->rotated)
        return "a power of two from 32 to 1024";
    return c->block_elements == 32   ? "a multiple of 32, at most 1024"
           : c->block_elements == 16 ? "a multiple of 16, at most 1024"
                                     : "at most 1024";
}

void kv_encode_row(const struct kv_codec *c, const float *x, int32_t dim, enum turbo_stream stream,
                   uint8_t *row)
{
    float rotated[KV_DIM_MAX];
    CHECK(dim <= KV_DIM_MAX);
    if (c->rotated) {
        memcpy(rotated, x, (size_t)dim * sizeof *x);
        turbo_rotate(rotated, dim, stream);
        x = rotated;
    }
    for (int32_t d = 0; d < dim; d += c->block_elements, row += c->scale_bytes + c->code_bytes)
        c->encode(x + d, row);
}

void kv_decode_row(const struct kv_codec *c, const uint8_t *row, float *out, int32_t dim)
{
    for (int32_t d = 0; d < dim; d += c->block_elements, row += c->scale_bytes + c->code_bytes)
        c->decode(row, out + d);
}
