/* Weighted least-squares fits of one block.
 *
 * For given codes the best scale (and base) solves a linear system; for a given scale the best
 * codes are the nearest ones. The fits try a grid of scales around the one that spans the range,
 * rate each by the error its codes leave after solving, and alternate the two steps from the best
 * one. */
#include "quant/quantize_internal.h"

#define FIT_TIE 1e-6f /* relative difference of squared errors that is rounding, not a difference */

struct code_sums fit_code_sums(const float *restrict x, const float *restrict w, int n, float base,
                               float inverse, float low, float high)
{
    float wq[FIT_LANES] = { 0 }, wqq[FIT_LANES] = { 0 }, wxq[FIT_LANES] = { 0 };
    for (int i = 0; i < n; i += FIT_LANES) {
        for (int l = 0; l < FIT_LANES; l++) {
            float z = x[i + l] - base;
            float q = round_even(clamped(z * inverse, low, high));
            float t = w[i + l] * q;
            wq[l] += t;
            wqq[l] += t * q;
            wxq[l] += t * z;
        }
    }
    return (struct code_sums){ lane_sum(wq), lane_sum(wqq), lane_sum(wxq) };
}

float fit_error(const float *restrict x, const float *restrict w, int n, float base, float scale,
                float low, float high)
{
    float inverse = reciprocal(scale);
    float sum[FIT_LANES] = { 0 };
    for (int i = 0; i < n; i += FIT_LANES) {
        for (int l = 0; l < FIT_LANES; l++) {
            float z = x[i + l] - base;
            float e = z - scale * round_even(clamped(z * inverse, low, high));
            sum[l] += w[i + l] * e * e;
        }
    }
    return lane_sum(sum);
}

void fit_codes(const float *restrict x, int n, float base, float scale, float low, float high,
               int *restrict q)
{
    float inverse = reciprocal(scale);
    for (int i = 0; i < n; i++)
        q[i] = (int)round_even(clamped((x[i] - base) * inverse, low, high));
}

/* The reduction of the squared error that the best scale for these codes brings. */
static float symmetric_gain(struct code_sums s)
{
    return s.wqq > 0 ? s.wxq / s.wqq * s.wxq : 0.0f;
}

float largest_with_sign(const float *x, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        if (x[i] * x[i] > largest * largest)
            largest = x[i];
    return largest;
}

float fit_symmetric(const float *x, const float *w, int n, float low)
{
    enum { STEPS = 17 };
    float high = -low - 1, per_unit = -reciprocal(largest_with_sign(x, n));
    float best_gain = 0, scale = 0;
    if (per_unit == 0)
        return 0;
    for (int k = 0; k < STEPS; k++) {
        /* From beyond the longer side of the code range to inside the shorter one: the finest
         * scale first, which ties then keep. */
        float inverse = (high + 2 - (float)k * (2.5f / (STEPS - 1))) * per_unit;
        for (int sign = 0; sign < 2; sign++, inverse = -inverse) {
            struct code_sums s = fit_code_sums(x, w, n, 0, inverse, low, high);
            float gain = symmetric_gain(s);
            if (gain > best_gain * (1 + FIT_TIE)) {
                best_gain = gain;
                scale = s.wxq / s.wqq;
            }
        }
    }
    for (int round = 0; round < 4; round++) {
        struct code_sums s = fit_code_sums(x, w, n, 0, reciprocal(scale), low, high);
        float gain = symmetric_gain(s);
        if (gain <= best_gain)
            break;
        best_gain = gain;
        scale = s.wxq / s.wqq;
    }
    return scale;
}

/* Sums that do not depend on the codes; z = x - base of the grid. */
struct value_sums {
    float w, wz, wzz, base;
};

struct affine_fit {
    struct affine line;
    float error;
};

/* The best line for codes with the sums s. */
static struct affine_fit solve_line(struct code_sums s, struct value_sums v, bool base_not_positive)
{
    struct affine_fit fit = { { 0, 0 }, 3.4e38f };
    float determinant = v.w * s.wqq - s.wq * s.wq;
    if (!(determinant > 0))
        return fit;
    float scale = (v.w * s.wxq - v.wz * s.wq) / determinant;
    float shift = (s.wqq * v.wz - s.wq * s.wxq) / determinant;
    fit.error = v.wzz - scale * s.wxq - shift * v.wz;
    if (base_not_positive && v.base + shift > 0) {
        shift = -v.base;
        float wxq = s.wxq - shift * s.wq;
        scale = wxq / s.wqq;
        fit.error = v.wzz - 2 * shift * v.wz + shift * shift * v.w - scale * wxq;
    }
    fit.line = (struct affine){ scale, v.base + shift };
    if (!(scale > 0))
        fit.error = 3.4e38f;
    return fit;
}

static struct value_sums sum_values(const float *x, const float *w, int n, float base)
{
    struct value_sums v = { 0, 0, 0, base };
    for (int i = 0; i < n; i++) {
        float z = x[i] - base;
        v.w += w[i];
        v.wz += w[i] * z;
        v.wzz += w[i] * z * z;
    }
    return v;
}

/* sums of codes taken with another base, expressed with the base of v */
static struct affine_fit try_line(const float *x, const float *w, int n, float high,
                                  struct value_sums v, float base, float inverse,
                                  bool base_not_positive)
{
    struct code_sums s = fit_code_sums(x, w, n, base, inverse, 0, high);
    s.wxq += (base - v.base) * s.wq;
    return solve_line(s, v, base_not_positive);
}

/* Alternates the two steps from a starting line until nothing improves, at most `rounds` times; a
 * fit replaces *best only if it is clearly better: ties keep the finer scale, tried first. */
static void descend(const float *x, const float *w, int n, float high, struct value_sums v,
                    bool base_not_positive, struct affine start, int rounds,
                    struct affine_fit *best)
{
    float margin = v.wzz * FIT_TIE, last = 3.4e38f;
    for (int round = 0; round < rounds; round++) {
        struct affine_fit fit = try_line(x, w, n, high, v, start.base, reciprocal(start.scale),
                                         base_not_positive);
        if (fit.error < best->error - margin)
            *best = fit;
        if (!(fit.error < last))
            return;
        last = fit.error;
        start = fit.line;
    }
}

struct affine fit_affine(const float *x, const float *w, int n, float high, bool base_not_positive)
{
    enum { STEPS = 12 };
    /* Shares of the range cut off below and above: values of little weight may be clamped. */
    static const float cut[][2] = { { 0.1f, 0 }, { 0, 0.1f }, { 0.1f, 0.1f }, { 0.25f, 0 },
                                    { 0, 0.25f } };
    float min = x[0], max = x[0];
    for (int i = 1; i < n; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    if (base_not_positive && min > 0)
        min = 0;
    float range = max - min;
    struct value_sums v = sum_values(x, w, n, min);
    struct affine_fit best = { { 0, min }, v.wzz };
    if (reciprocal(range) == 0)
        return best.line;
    for (int k = 0; k < STEPS; k++) {
        struct affine start = { range / (high + 1.4f - (float)k * (2.0f / (STEPS - 1))), min };
        descend(x, w, n, high, v, base_not_positive, start, 2, &best);
    }
    for (size_t k = 0; k < ARRAY_SIZE(cut); k++) {
        float rest = range * (1 - cut[k][0] - cut[k][1]);
        struct affine start = { rest / high, min + range * cut[k][0] };
        descend(x, w, n, high, v, base_not_positive, start, 3, &best);
    }
    descend(x, w, n, high, v, base_not_positive, best.line, 4, &best);
    return best.line;
}
