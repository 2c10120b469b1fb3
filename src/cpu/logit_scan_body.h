/* logit_scan_body: the passes of logit_scan.h in vectors of VECTOR_BYTES. Included once by each
 * file that is compiled for another instruction set. */
#ifndef CPU_LOGIT_SCAN_BODY_H
#define CPU_LOGIT_SCAN_BODY_H

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/logit_scan.h"

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t mask __attribute__((vector_size(VECTOR_BYTES)));

#define WIDTH ((int)sizeof(vec) / 4)
#define N_VECTORS (LOGIT_LANES / WIDTH)

HOT_INLINE vec load(const float *x)
{
    vec v;
    memcpy(&v, x, sizeof(v));
    return v;
}

HOT_INLINE vec all_of(float x)
{
    return (vec){ 0 } + x;
}

HOT_INLINE vec choose(mask m, vec yes, vec no)
{
    return (vec)((m & (mask)yes) | (~m & (mask)no));
}

HOT_INLINE bool any(mask m)
{
    uint64_t part[sizeof(m) / 8], all = 0;
    memcpy(part, &m, sizeof(m));
    for (size_t i = 0; i < ARRAY_SIZE(part); i++)
        all |= part[i];
    return all != 0;
}

static float scan_maximum(const float *x, int32_t n, bool *has_nan)
{
    vec top[N_VECTORS];
    mask bad = { 0 };
    for (int k = 0; k < N_VECTORS; k++)
        top[k] = all_of(-INFINITY);
    int32_t i = 0;
    for (; i + LOGIT_LANES <= n; i += LOGIT_LANES)
        for (int k = 0; k < N_VECTORS; k++) {
            vec v = load(x + i + k * WIDTH);
            top[k] = choose(v > top[k], v, top[k]);
            bad |= v != v;
        }
    float best = -INFINITY;
    for (int j = 0; j < LOGIT_LANES; j++)
        best = top[j / WIDTH][j % WIDTH] > best ? top[j / WIDTH][j % WIDTH] : best;
    *has_nan = any(bad);
    for (; i < n; i++) {
        best = x[i] > best ? x[i] : best;
        *has_nan |= x[i] != x[i];
    }
    return best;
}

/* exp(x) for x <= 0 with a relative error below 3e-7; 0 below -87. The argument is reduced by
 * multiples of ln 2, then a polynomial of degree 6 on [-ln2/2, ln2/2]. */
HOT_INLINE vec exp_of(vec x)
{
    vec magic = all_of(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    mask large = x > all_of(-87.0f);
    vec limited = choose(large, x, all_of(-87.0f));
    vec shifted = limited * 1.44269504f + magic;
    vec whole = shifted - magic;
    vec r = limited - whole * 0.693145752f - whole * 1.42860677e-6f;
    vec p = all_of(1.0f / 720.0f);
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* The low bits of `shifted` are the integer; 127 more is the exponent of its power of two. */
    mask power = ((mask)shifted - (mask)magic + 127) << 23;
    return choose(large, p * (vec)power, all_of(0.0f));
}

static double scan_block_mass(const float *x, int32_t n, float maximum, float factor)
{
    vec sum[N_VECTORS] = { 0 };
    float rest[LOGIT_LANES];
    int32_t whole = n - n % LOGIT_LANES;
    for (int32_t i = 0; i < whole; i += LOGIT_LANES)
        for (int k = 0; k < N_VECTORS; k++)
            sum[k] += exp_of((load(x + i + k * WIDTH) - maximum) * factor);
    if (whole < n) {
        for (int j = 0; j < LOGIT_LANES; j++)
            rest[j] = whole + j < n ? x[whole + j] : -INFINITY;
        for (int k = 0; k < N_VECTORS; k++)
            sum[k] += exp_of((load(rest + k * WIDTH) - maximum) * factor);
    }
    double all = 0.0;
    for (int j = 0; j < LOGIT_LANES; j++)
        all += (double)sum[j / WIDTH][j % WIDTH];
    return all;
}

static double scan_mass(const float *x, int32_t n, float maximum, float factor)
{
    double sum = 0.0;
    for (int32_t from = 0; from < n; from += LOGIT_BLOCK)
        sum += scan_block_mass(x + from, MIN(LOGIT_BLOCK, n - from), maximum, factor);
    return sum;
}

static void scan_weights(float *out, const float *x, int32_t n, float maximum)
{
    int32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vec v = exp_of(load(x + i) - maximum);
        memcpy(out + i, &v, sizeof(v));
    }
    for (; i < n; i++)
        out[i] = exp_of(all_of(x[i] - maximum))[0];
}

#define SCAN_NEXT(name, compare) \
    static int32_t scan_next_##name(const float *x, int32_t from, int32_t n, float limit) \
    { \
        for (; from + LOGIT_LANES <= n; from += LOGIT_LANES) { \
            mask found = { 0 }; \
            for (int k = 0; k < N_VECTORS; k++) \
                found |= load(x + from + k * WIDTH) compare all_of(limit); \
            if (any(found)) \
                break; \
        } \
        return from; \
    }
SCAN_NEXT(above, >)
SCAN_NEXT(from, >=)

#define LOGIT_SCAN(set) \
    const struct logit_scan logit_scan_##set = { #set, scan_maximum, scan_mass, scan_weights, \
                                                 scan_next_above, scan_next_from }

#endif
