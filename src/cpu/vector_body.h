/* vector_body: row kernels in the vocabulary of one instruction set. Included once by each
 * vector_<isa>.c after its vec_<isa>.h; all functions are static there.
 *
 * Sources: exp and tanh are the single-precision range reductions and polynomials of the Cephes
 * library (S. Moshier, 1992), error below 2 units in the last place. */
#ifndef CPU_VECTOR_BODY_H
#define CPU_VECTOR_BODY_H

#include <math.h>
#include <string.h>

#include "cpu/vector_kernels.h"

/* e^x; 0 below -87.3, exactly 1 at 0. A NaN passes: minimum and maximum give their second
 * operand. */
HOT_INLINE VF vf_exp(VF x)
{
    VF limited = vf_min(vf_set(88.72284f), vf_max(vf_set(-87.33654f), x));
    VF n = vf_round(vf_mul(limited, vf_set(1.44269504f)));
    VF r = vf_fma(n, vf_set(-0.693359375f), limited);
    r = vf_fma(n, vf_set(2.12194440e-4f), r);
    VF p = vf_set(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set(5.0000001201e-1f));
    p = vf_fma(vf_mul(p, r), r, vf_add(r, vf_set(1.0f)));
    /* 2^n in two halves: n may be 128 where e^x is still finite. */
    VF half = vf_round(vf_mul(n, vf_set(0.5f)));
    VF e = vf_mul(vf_mul(p, vf_pow2(half)), vf_pow2(vf_sub(n, half)));
    return vf_where_less(x, vf_set(-87.33654f), vf_set(0.0f), e);
}

HOT_INLINE VF vf_tanh(VF x)
{
    VF z = vf_mul(x, x);
    VF p = vf_set(-5.70498872745e-3f);
    p = vf_fma(p, z, vf_set(2.06390887954e-2f));
    p = vf_fma(p, z, vf_set(-5.37397155531e-2f));
    p = vf_fma(p, z, vf_set(1.33314422036e-1f));
    p = vf_fma(p, z, vf_set(-3.33332819422e-1f));
    VF small = vf_fma(vf_mul(p, z), x, x);
    VF e = vf_exp(vf_add(x, x)); /* tanh x = 1 - 2 / (e^2x + 1) */
    VF large = vf_sub(vf_set(1.0f), vf_div(vf_set(2.0f), vf_add(e, vf_set(1.0f))));
    return vf_where_less(vf_abs(x), vf_set(0.625f), small, large);
}

HOT_INLINE VF vf_silu(VF x)
{
    VF e = vf_exp(vf_sub(vf_set(0.0f), x));
    return vf_div(x, vf_add(vf_set(1.0f), e));
}

/* x / 2 * (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2 / pi) * (x + 0.044715 x^3):
 * Hendrycks & Gimpel, arXiv:1606.08415, section 2 */
HOT_INLINE VF vf_gelu_tanh(VF x)
{
    VF cube = vf_mul(vf_mul(x, x), x);
    VF u = vf_mul(vf_fma(cube, vf_set(0.044715f), x), vf_set(0.7978845608f));
    VF e = vf_exp(vf_mul(u, vf_set(-2.0f)));
    return vf_div(x, vf_add(vf_set(1.0f), e));
}

HOT_INLINE VF vf_gelu(VF x)
{
    float lane[VF_LANES];
    vf_store(lane, x);
    for (int i = 0; i < VF_LANES; i++)
        lane[i] = 0.5f * lane[i] * (1.0f + erff(lane[i] * 0.70710678f));
    return vf_load(lane);
}

static void vector_rms_norm(float *out, const float *x, const float *w, int64_t n, float eps)
{
    VF s0 = vf_set(0), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES) {
        VF a = vf_load(x + i), b = vf_load(x + i + VF_LANES);
        VF c = vf_load(x + i + 2 * VF_LANES), d = vf_load(x + i + 3 * VF_LANES);
        s0 = vf_fma(a, a, s0);
        s1 = vf_fma(b, b, s1);
        s2 = vf_fma(c, c, s2);
        s3 = vf_fma(d, d, s3);
    }
    for (; i + VF_LANES <= n; i += VF_LANES) {
        VF a = vf_load(x + i);
        s0 = vf_fma(a, a, s0);
    }
    if (i < n) {
        VF a = vf_load_part(x + i, n - i);
        s1 = vf_fma(a, a, s1);
    }
    float sum = vf_sum(vf_add(vf_add(s0, s1), vf_add(s2, s3)));
    VF factor = vf_set(1.0f / sqrtf(sum / (float)n + eps));
    for (i = 0; i + VF_LANES <= n; i += VF_LANES) {
        VF y = vf_mul(vf_load(x + i), factor);
        vf_store(out + i, w ? vf_mul(y, vf_load(w + i)) : y);
    }
    if (i < n) {
        VF y = vf_mul(vf_load_part(x + i, n - i), factor);
        vf_store_part(out + i, w ? vf_mul(y, vf_load_part(w + i, n - i)) : y, n - i);
    }
}

/* A kernel that maps each element alone; `a` is out's old value, `b` the second operand. */
#define MAP_KERNEL(name, signature, load_b, load_b_part, result)  \
    static void name signature                                    \
    {                                                             \
        int64_t i = 0;                                            \
        for (; i + VF_LANES <= n; i += VF_LANES) {                \
            VF a = vf_load(out + i);                              \
            VF b = load_b;                                        \
            (void)b;                                              \
            vf_store(out + i, result);                            \
        }                                                         \
        if (i < n) {                                              \
            VF a = vf_load_part(out + i, n - i);                  \
            VF b = load_b_part;                                   \
            (void)b;                                              \
            vf_store_part(out + i, result, n - i);                \
        }                                                         \
    }
#define TWO(name, result) \
    MAP_KERNEL(name, (float *out, const float *x, int64_t n), vf_load(x + i), \
               vf_load_part(x + i, n - i), result)
#define ONE(name, result) MAP_KERNEL(name, (float *out, int64_t n), a, a, result)
#define FACTOR(name, result) \
    MAP_KERNEL(name, (float *out, float factor, int64_t n), vf_set(factor), vf_set(factor), result)

TWO(vector_add, vf_add(a, b))
TWO(vector_multiply, vf_mul(a, b))
FACTOR(vector_scale, vf_mul(a, b))
FACTOR(vector_softcap, vf_mul(b, vf_tanh(vf_div(a, b))))
ONE(vector_silu, vf_silu(a))
ONE(vector_gelu_tanh, vf_gelu_tanh(a))
ONE(vector_gelu, vf_gelu(a))

#define GLU(name, activation)                                                             \
    static void name(float *out, const float *gate, const float *up, int n)               \
    {                                                                                     \
        int i = 0;                                                                        \
        for (; i + VF_LANES <= n; i += VF_LANES)                                          \
            vf_store(out + i, vf_mul(activation(vf_load(gate + i)), vf_load(up + i)));    \
        if (i < n)                                                                        \
            vf_store_part(out + i, vf_mul(activation(vf_load_part(gate + i, n - i)),      \
                                          vf_load_part(up + i, n - i)), n - i);           \
    }
GLU(vector_glu_silu, vf_silu)
GLU(vector_glu_gelu_tanh, vf_gelu_tanh)
GLU(vector_glu_gelu, vf_gelu)

static void vector_rope_halves(float *x, const float *cosine, const float *sine, int64_t n_pairs)
{
    float *y = x + n_pairs;
    int64_t i = 0;
    for (; i + VF_LANES <= n_pairs; i += VF_LANES) {
        VF a = vf_load(x + i), b = vf_load(y + i), c = vf_load(cosine + i), s = vf_load(sine + i);
        vf_store(x + i, vf_sub(vf_mul(a, c), vf_mul(b, s)));
        vf_store(y + i, vf_fma(a, s, vf_mul(b, c)));
    }
    for (; i < n_pairs; i++) {
        float a = x[i], b = y[i];
        x[i] = a * cosine[i] - b * sine[i];
        y[i] = a * sine[i] + b * cosine[i];
    }
}

static void vector_rope_neighbours(float *x, const float *cosine, const float *sine,
                                   int64_t n_pairs)
{
    int64_t i = 0;
    for (; i + VF_LANES <= n_pairs; i += VF_LANES) {
        VF a, b, c = vf_load(cosine + i), s = vf_load(sine + i);
        vf_load_pairs(x + 2 * i, &a, &b);
        vf_store_pairs(x + 2 * i, vf_sub(vf_mul(a, c), vf_mul(b, s)), vf_fma(a, s, vf_mul(b, c)));
    }
    for (; i < n_pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

static float vector_dot(const float *a, const float *b, int64_t n)
{
    VF s0 = vf_set(0), s1 = s0;
    int64_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES) {
        s0 = vf_fma(vf_load(a + i), vf_load(b + i), s0);
        s1 = vf_fma(vf_load(a + i + VF_LANES), vf_load(b + i + VF_LANES), s1);
    }
    for (; i + VF_LANES <= n; i += VF_LANES)
        s0 = vf_fma(vf_load(a + i), vf_load(b + i), s0);
    if (i < n)
        s1 = vf_fma(vf_load_part(a + i, n - i), vf_load_part(b + i, n - i), s1);
    return vf_sum(vf_add(s0, s1));
}

#endif
