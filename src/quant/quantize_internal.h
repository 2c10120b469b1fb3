/* quantize_internal: what the quantize_*.c files share; not for others.
 *
 * Every fit minimizes sum w * (x - y)^2 over the n values of a block, n a multiple of 8 and at most
 * 256, all w > 0. */
#ifndef QUANT_QUANTIZE_INTERNAL_H
#define QUANT_QUANTIZE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "quant/float_convert.h"

/* Types with a quantizer, and the largest magnitude that each can store. */
#define WRITABLE_LIST(X)      \
    X(F16, 65504.0f)          \
    X(BF16, 3.3895314e38f)    \
    X(Q4_0, 8 * 65504.0f)     \
    X(Q4_1, 65504.0f)         \
    X(Q5_0, 16 * 65504.0f)    \
    X(Q5_1, 65504.0f)         \
    X(Q8_0, 127 * 65504.0f)   \
    X(Q2_K, 15 * 65504.0f)    \
    X(Q3_K, 128 * 65504.0f)   \
    X(Q4_K, 63 * 65504.0f)    \
    X(Q5_K, 63 * 65504.0f)    \
    X(Q6_K, 4096 * 65504.0f)

/* x, w: n_blocks blocks of finite values and positive weights. */
#define QUANTIZE_DECLARE(name, largest) \
    void quantize_##name(const float *x, const float *w, size_t n_blocks, void *out);
WRITABLE_LIST(QUANTIZE_DECLARE)
#undef QUANTIZE_DECLARE

#define FIT_LANES 8 /* independent partial sums, so that sums vectorize and stay reproducible */

/* To the nearest integer, ties to even; |v| < 2^22. */
static inline float round_even(float v)
{
    return (v + 0x1.8p23f) - 0x1.8p23f;
}

static inline float clamped(float v, float low, float high)
{
    v = v > low ? v : low;
    return v < high ? v : high;
}

static inline float lane_sum(const float lane[FIT_LANES])
{
    float even = (lane[0] + lane[4]) + (lane[2] + lane[6]);
    float odd = (lane[1] + lane[5]) + (lane[3] + lane[7]);
    return even + odd;
}

static inline float reciprocal(float v)
{
    float inverse = 1.0f / v;
    return v != 0 && inverse <= 3.4e38f && inverse >= -3.4e38f ? inverse : 0.0f;
}

/* The nearest f16 that is finite and, unless v is 0, not 0: a scale below the normal range keeps
 * what precision a subnormal has instead of turning its block into zeros. */
static inline uint16_t f16_scale(float v)
{
    uint16_t h = f32_to_f16(v);
    if ((h & 0x7FFFu) > 0x7BFFu)
        h = (uint16_t)((h & 0x8000u) | 0x7BFFu);
    return (uint16_t)(v != 0 && (h & 0x7FFFu) == 0 ? h | 1u : h);
}

/* sum wq, sum wq^2, sum wxq for the codes q = round(clamp((x - base) * inverse, low, high)), with
 * x - base in place of x in the last one. */
struct code_sums {
    float wq, wqq, wxq;
};
struct code_sums fit_code_sums(const float *x, const float *w, int n, float base, float inverse,
                               float low, float high);

/* sum w * (x - (scale * q + base))^2 for the same codes, inverse = 1 / scale or 0. */
float fit_error(const float *x, const float *w, int n, float base, float scale, float low,
                float high);

float largest_with_sign(const float *x, int n); /* the value of the largest magnitude */

/* Writes the codes. */
void fit_codes(const float *x, int n, float base, float scale, float low, float high, int *q);

/* Scale of y = scale * q, q in low to high = -low - 1; 0 when all x are 0. May be negative. */
float fit_symmetric(const float *x, const float *w, int n, float low);

/* y = scale * q + base, q in 0 to high, scale >= 0. base is kept <= 0 if so asked. */
struct affine {
    float scale, base;
};
struct affine fit_affine(const float *x, const float *w, int n, float high, bool base_not_positive);

#endif
