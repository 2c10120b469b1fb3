#include "quant/turbo.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "quant/dequant.h"
#include "quant/float_convert.h"

#define BLOCK 32

const float turbo3_codebook[8] = { -2.15194570f, -1.34390928f, -0.75600528f, -0.24509418f,
                                   0.24509418f,  0.75600528f,  1.34390928f,  2.15194570f };
const float turbo4_codebook[16] = { -2.73258956f, -2.06901721f, -1.61804637f, -1.25623118f,
                                    -0.94234045f, -0.65675911f, -0.38804829f, -0.12839503f,
                                    0.12839503f,  0.38804829f,  0.65675911f,  0.94234045f,
                                    1.25623118f,  1.61804637f,  2.06901721f,  2.73258956f };

bool turbo_dim_supported(int32_t dim)
{
    return dim >= BLOCK && dim <= 1024 && (dim & (dim - 1)) == 0;
}

/* --- rotation ----------------------------------------------------------------------------- */

static void change_signs(float *x, int32_t dim, enum turbo_stream stream)
{
    for (int32_t i = 0; i < dim; i++) {
        uint32_t h = (uint32_t)i * 0x9e3779b9u + (uint32_t)stream * 0x85ebca6bu + 0x165667b1u;
        h ^= h >> 15;
        h *= 0x2545f491u;
        h ^= h >> 13;
        x[i] = float_from_bits(float_bits(x[i]) ^ h << 31);
    }
}

static void hadamard(float *x, int32_t dim)
{
    for (int32_t span = 1; span < dim; span *= 2)
        for (int32_t from = 0; from < dim; from += 2 * span)
            for (int32_t i = from; i < from + span; i++) {
                float a = x[i], b = x[i + span];
                x[i] = a + b;
                x[i + span] = a - b;
            }
    float factor = 1.0f / sqrtf((float)dim);
    for (int32_t i = 0; i < dim; i++)
        x[i] *= factor;
}

void turbo_rotate(float *x, int32_t dim, enum turbo_stream stream)
{
    CHECK(turbo_dim_supported(dim));
    change_signs(x, dim, stream);
    hadamard(x, dim);
}

void turbo_unrotate(float *x, int32_t dim, enum turbo_stream stream)
{
    CHECK(turbo_dim_supported(dim));
    hadamard(x, dim);
    change_signs(x, dim, stream);
}

/* --- blocks ------------------------------------------------------------------------------- */

/* The first of the nearest levels. */
static int nearest(const float *codebook, int levels, float x)
{
    int best = 0;
    for (int i = 1; i < levels; i++)
        if (fabsf(x - codebook[i]) < fabsf(x - codebook[best]))
            best = i;
    return best;
}

static void put_indices(const int32_t *index, int bits, uint8_t *codes)
{
    memset(codes, 0, (size_t)(BLOCK * bits / 8));
    for (int i = 0; i < BLOCK; i++) {
        int at = i * bits;
        unsigned wide = (unsigned)index[i] << at % 8;
        codes[at / 8] |= (uint8_t)wide;
        if (at % 8 + bits > 8)
            codes[at / 8 + 1] |= (uint8_t)(wide >> 8);
    }
}

void turbo_encode_block(const float *x, int bits, uint8_t *block)
{
    const float *codebook = bits == 3 ? turbo3_codebook : turbo4_codebook;
    int levels = 1 << bits;
    int32_t index[BLOCK];
    float squares = 0, product = 0, power = 0;
    for (int i = 0; i < BLOCK; i++)
        squares += x[i] * x[i];
    float rms = sqrtf(squares / BLOCK), inverse = rms > 0 ? 1.0f / rms : 0;
    for (int i = 0; i < BLOCK; i++) {
        index[i] = rms > 0 ? nearest(codebook, levels, x[i] * inverse) : levels / 2 - 1;
        product += x[i] * codebook[index[i]];
        power += codebook[index[i]] * codebook[index[i]];
    }
    /* Least squares for the levels chosen; a scale beyond binary16 is cut, a NaN stays one. */
    float scale = rms > 0 ? product / power : squares;
    uint16_t half = f32_to_f16(scale > 65504.0f ? 65504.0f : scale);
    memcpy(block, &half, sizeof half);
    put_indices(index, bits, block + 2);
}

/* --- the best of several scales ------------------------------------------------------------- */

#define SCALES 9 /* 0.76 to 1.24 of the root mean square */
#define SCALE_FIRST 0.76f
#define SCALE_STEP 0.06f

/* Codes of x * inverse. The error that the best scale for them leaves is sum x^2 - what this
 * returns; *scale is that scale. */
static float try_scale(const float *x, float inverse, const float *codebook, int levels,
                       int32_t *code, float *scale)
{
    float scaled[BLOCK], product = 0, power = 0;
    for (int i = 0; i < BLOCK; i++) {
        scaled[i] = x[i] * inverse;
        code[i] = 0;
    }
    for (int k = 0; k + 1 < levels; k++) {
        float middle = 0.5f * (codebook[k] + codebook[k + 1]);
        for (int i = 0; i < BLOCK; i++)
            code[i] += scaled[i] > middle;
    }
    for (int i = 0; i < BLOCK; i++) {
        float level = codebook[code[i]];
        product += x[i] * level;
        power += level * level;
    }
    *scale = product / power;
    return product * *scale;
}

void turbo_encode_best(const float *x, int bits, uint8_t *block)
{
    const float *codebook = bits == 3 ? turbo3_codebook : turbo4_codebook;
    int32_t code[BLOCK], best[BLOCK];
    float squares = 0, explained = 0, scale = 0;
    for (int i = 0; i < BLOCK; i++)
        squares += x[i] * x[i];
    float rms = sqrtf(squares / BLOCK);
    for (int t = 0; t < SCALES; t++) {
        float now, inverse = 1.0f / (rms * (SCALE_FIRST + SCALE_STEP * (float)t));
        float found = try_scale(x, inverse, codebook, 1 << bits, code, &now);
        if (found > explained && now <= 65504.0f) {
            explained = found;
            scale = now;
            memcpy(best, code, sizeof best);
        }
    }
    if (!(scale > 0)) { /* zeros, or numbers that no scale fits */
        turbo_encode_block(x, bits, block);
        return;
    }
    uint16_t half = f32_to_f16(scale);
    memcpy(block, &half, sizeof half);
    put_indices(best, bits, block + 2);
}

/* --- back ----------------------------------------------------------------------------------- */

static void decode(const uint8_t *block, int bits, float *out, size_t n_blocks)
{
    const float *codebook = bits == 3 ? turbo3_codebook : turbo4_codebook;
    int bytes = 2 + BLOCK * bits / 8;
    for (size_t b = 0; b < n_blocks; b++, block += bytes, out += BLOCK) {
        uint16_t half;
        memcpy(&half, block, sizeof half);
        float scale = f16_to_f32(half);
        for (int i = 0; i < BLOCK; i++) {
            int at = i * bits, byte = 2 + at / 8;
            unsigned wide = block[byte] | (unsigned)block[byte + (at % 8 + bits > 8)] << 8;
            out[i] = scale * codebook[wide >> at % 8 & ((1u << bits) - 1u)];
        }
    }
}

void dequant_TURBO3(const void *blocks, float *out, size_t n_blocks)
{
    decode(blocks, 3, out, n_blocks);
}

void dequant_TURBO4(const void *blocks, float *out, size_t n_blocks)
{
    decode(blocks, 4, out, n_blocks);
}
