/* Quantizers of the k formats: super-blocks of 256 values in sub-blocks whose scales (and minimums)
 * are themselves codes, in units of d (and dmin). Layouts: quant/blocks.h.
 *
 * Each sub-block is fitted on its own; the units are chosen to span the results; then two steps
 * alternate while the error falls: the best codes for the given units, sub-block by sub-block with
 * the neighbours of the nearest scale code tried too, and the best units for the given codes. */
#include "quant/quantize_internal.h"

#include <string.h>

#include "quant/blocks.h"
#include "quant/k_scales.h"

#define MAX_SUB_BLOCKS 16

/* What distinguishes the formats of one kind. */
struct geometry {
    int n_sub, sub_size;
    float low, high;            /* range of the codes of values */
    float unit_low, unit_high;  /* range of the codes of scales (and minimums) */
};

/* A super-block being quantized. scale[j] and min[j] are codes, kept as floats. */
struct super_block {
    uint16_t d, dmin;
    float scale[MAX_SUB_BLOCKS], min[MAX_SUB_BLOCKS];
    float error;
};

/* Best minimum code for the scale: alternates codes of values and the minimum. */
static float affine_sub_error(const float *x, const float *w, const struct geometry *g, float dmin,
                              float scale, float sum_w, float sum_wx, float *min_code)
{
    float per_min = reciprocal(dmin), inverse = reciprocal(scale), code = *min_code;
    for (int round = 0; round < 3; round++) {
        float base = -dmin * code;
        struct code_sums s = fit_code_sums(x, w, g->sub_size, base, inverse, 0, g->high);
        float min = (scale * s.wq - sum_wx) / sum_w;
        float next = round_even(clamped(min * per_min, 0, g->unit_high));
        if (next == code)
            break;
        code = next;
    }
    *min_code = code;
    return fit_error(x, w, g->sub_size, -dmin * code, scale, 0, g->high);
}

/* Chooses the codes of all sub-blocks for the units d and dmin of `b`. */
static void affine_choose_codes(const float *x, const float *w, const struct geometry *g,
                                const struct affine *fits, struct super_block *b)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    float per_d = reciprocal(d), per_min = reciprocal(dmin);
    b->error = 0;
    for (int j = 0; j < g->n_sub; j++, x += g->sub_size, w += g->sub_size) {
        float sum_w = 0, sum_wx = 0, best = 3.4e38f;
        for (int i = 0; i < g->sub_size; i++) {
            sum_w += w[i];
            sum_wx += w[i] * x[i];
        }
        float centre = round_even(clamped(fits[j].scale * per_d, 0, g->unit_high));
        for (float code = MAX(centre - 1, 0); code <= MIN(centre + 1, g->unit_high); code++) {
            float min = round_even(clamped(-fits[j].base * per_min, 0, g->unit_high));
            float error = affine_sub_error(x, w, g, dmin, d * code, sum_w, sum_wx, &min);
            if (error < best) {
                best = error;
                b->scale[j] = code;
                b->min[j] = min;
            }
        }
        b->error += best;
    }
}

/* The squared error for given codes, less what does not depend on the units: the quadratic form
 * aa d^2 - 2 ab d dmin + bb dmin^2 - 2 ax d + 2 bx dmin of y = d * a - dmin * b. */
struct unit_form {
    double aa, ab, bb, ax, bx;
};

static struct unit_form affine_unit_form(const float *x, const float *w, const struct geometry *g,
                                         const struct super_block *b)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    struct unit_form f = { 0 };
    for (int j = 0; j < g->n_sub; j++, x += g->sub_size, w += g->sub_size) {
        float scale = b->scale[j], min = b->min[j], base = -dmin * min;
        struct code_sums s =
            fit_code_sums(x, w, g->sub_size, base, reciprocal(d * scale), 0, g->high);
        float sum_w = 0, sum_wx = 0;
        for (int i = 0; i < g->sub_size; i++) {
            sum_w += w[i];
            sum_wx += w[i] * x[i];
        }
        f.aa += scale * scale * s.wqq;
        f.ab += scale * min * s.wq;
        f.bb += min * min * sum_w;
        f.ax += scale * (s.wxq + base * s.wq);
        f.bx += min * sum_wx;
    }
    return f;
}

static double unit_error(const struct unit_form *f, double d, double dmin)
{
    return f->aa * d * d - 2 * f->ab * d * dmin + f->bb * dmin * dmin - 2 * f->ax * d +
           2 * f->bx * dmin;
}

/* The best pair of f16 units for the codes of `b`: the least-squares solution, then the neighbours
 * of its rounding. False: the codes do not determine usable units. */
static bool affine_solve_units(const float *x, const float *w, const struct geometry *g,
                               const struct super_block *b, struct super_block *next)
{
    struct unit_form f = affine_unit_form(x, w, g, b);
    double determinant = f.aa * f.bb - f.ab * f.ab;
    bool is_full = determinant > 1e-9 * f.aa * f.bb;
    if (!(f.aa > 0))
        return false;
    double d = is_full ? (f.ax * f.bb - f.bx * f.ab) / determinant : f.ax / f.aa;
    double dmin = is_full ? (f.ax * f.ab - f.bx * f.aa) / determinant : 0;
    if (!(d > 0 && dmin >= 0))
        return false;
    uint16_t d_centre = f16_scale((float)d), dmin_centre = f16_scale((float)dmin);
    double best = 1e300;
    for (int k = 0; k < 9; k++) {
        uint16_t d_bits = (uint16_t)(d_centre + k / 3 - 1);
        uint16_t dmin_bits = (uint16_t)(dmin_centre + k % 3 - 1);
        if (d_bits > 0x7BFF || dmin_bits > 0x7BFF)
            continue; /* below zero or above the largest */
        double error = unit_error(&f, f16_to_f32(d_bits), f16_to_f32(dmin_bits));
        if (error < best) {
            best = error;
            next->d = d_bits;
            next->dmin = dmin_bits;
        }
    }
    return true;
}

/* Values that are all positive have no use for a minimum that is subtracted; with the signs of the
 * values and both units turned they have. */
static bool is_better_negated(const float *x, const struct geometry *g)
{
    int balance = 0;
    for (int j = 0; j < g->n_sub; j++, x += g->sub_size) {
        int n_positive = 0, n_negative = 0;
        for (int i = 0; i < g->sub_size; i++) {
            n_positive += x[i] > 0;
            n_negative += x[i] < 0;
        }
        balance += (n_negative == 0 && n_positive > 0) - (n_positive == 0 && n_negative > 0);
    }
    return balance > 0;
}

/* The units span the largest scale and minimum with these shares of the code range. */
static const float unit_trials[][2] = {
    { 1, 1 }, { 14 / 15.0f, 1 }, { 1, 14 / 15.0f }, { 13 / 15.0f, 13 / 15.0f },
};

static void affine_super_block(const float *x, const float *w, const struct geometry *g,
                               struct super_block *best)
{
    struct affine fits[MAX_SUB_BLOCKS];
    float max_scale = 0, max_min = 0;
    for (int j = 0; j < g->n_sub; j++) {
        int at = j * g->sub_size;
        fits[j] = fit_affine(x + at, w + at, g->sub_size, g->high, true);
        max_scale = MAX(max_scale, fits[j].scale);
        max_min = MAX(max_min, -fits[j].base);
    }
    best->error = 3.4e38f;
    for (size_t k = 0; k < ARRAY_SIZE(unit_trials); k++) {
        struct super_block next = { 0 };
        next.d = f16_scale(max_scale / (g->unit_high * unit_trials[k][0]));
        next.dmin = f16_scale(max_min / (g->unit_high * unit_trials[k][1]));
        affine_choose_codes(x, w, g, fits, &next);
        if (next.error < best->error)
            *best = next;
    }
    for (int round = 0; round < 3; round++) {
        struct super_block next = { 0 };
        if (!affine_solve_units(x, w, g, best, &next))
            break;
        affine_choose_codes(x, w, g, fits, &next);
        if (!(next.error < best->error))
            break;
        *best = next;
    }
}

/* Quantizes 256 values; q receives the codes. */
static void affine_quantize(const float *x, const float *w, const struct geometry *g,
                            struct super_block *b, int q[QK_SUPER])
{
    float negated[QK_SUPER];
    bool is_negated = is_better_negated(x, g);
    if (is_negated) {
        for (int i = 0; i < QK_SUPER; i++)
            negated[i] = -x[i];
        x = negated;
    }
    affine_super_block(x, w, g, b);
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    for (int j = 0; j < g->n_sub; j++) {
        int at = j * g->sub_size;
        fit_codes(x + at, g->sub_size, -dmin * b->min[j], d * b->scale[j], 0, g->high, q + at);
    }
    if (is_negated) {
        b->d ^= 0x8000;
        b->dmin ^= 0x8000;
    }
}

static void symmetric_choose_codes(const float *x, const float *w, const struct geometry *g,
                                   const float *fits, struct super_block *b)
{
    float d = f16_to_f32(b->d), per_d = reciprocal(d);
    b->error = 0;
    for (int j = 0; j < g->n_sub; j++, x += g->sub_size, w += g->sub_size) {
        float best = 3.4e38f;
        float centre = round_even(clamped(fits[j] * per_d, g->unit_low, g->unit_high));
        float first = MAX(centre - 1, g->unit_low), last = MIN(centre + 1, g->unit_high);
        for (float code = first; code <= last; code++) {
            float error = fit_error(x, w, g->sub_size, 0, d * code, g->low, g->high);
            if (error < best) {
                best = error;
                b->scale[j] = code;
            }
        }
        b->error += best;
    }
}

static float symmetric_solve_unit(const float *x, const float *w, const struct geometry *g,
                                  const struct super_block *b)
{
    float d = f16_to_f32(b->d);
    double aa = 0, ax = 0;
    for (int j = 0; j < g->n_sub; j++, x += g->sub_size, w += g->sub_size) {
        float scale = b->scale[j];
        struct code_sums s =
            fit_code_sums(x, w, g->sub_size, 0, reciprocal(d * scale), g->low, g->high);
        aa += scale * scale * s.wqq;
        ax += scale * s.wxq;
    }
    return aa > 0 ? (float)(ax / aa) : 0.0f;
}

static void symmetric_quantize(const float *x, const float *w, const struct geometry *g,
                               struct super_block *best, int q[QK_SUPER])
{
    float fits[MAX_SUB_BLOCKS], largest = 0;
    for (int j = 0; j < g->n_sub; j++) {
        int at = j * g->sub_size;
        fits[j] = fit_symmetric(x + at, w + at, g->sub_size, g->low);
        if (MAX(fits[j], -fits[j]) > MAX(largest, -largest))
            largest = fits[j];
    }
    best->error = 3.4e38f;
    for (size_t k = 0; k < ARRAY_SIZE(unit_trials); k++) {
        struct super_block next = { 0 };
        next.d = f16_scale(largest / (g->unit_low * unit_trials[k][0]));
        symmetric_choose_codes(x, w, g, fits, &next);
        if (next.error < best->error)
            *best = next;
    }
    for (int round = 0; round < 3; round++) {
        struct super_block next = { 0 };
        next.d = f16_scale(symmetric_solve_unit(x, w, g, best));
        symmetric_choose_codes(x, w, g, fits, &next);
        if (!(next.error < best->error))
            break;
        *best = next;
    }
    float d = f16_to_f32(best->d);
    for (int j = 0; j < g->n_sub; j++) {
        int at = j * g->sub_size;
        fit_codes(x + at, g->sub_size, 0, d * best->scale[j], g->low, g->high, q + at);
    }
}

/* Two bits of code `q` for element l of quarter p of half h: byte 32h + l, bits 2p. */
static void pack_pairs(const int q[QK_SUPER], int shift, unsigned char qs[64])
{
    for (int h = 0; h < 2; h++) {
        for (int l = 0; l < 32; l++) {
            int byte = 0;
            for (int p = 0; p < 4; p++)
                byte |= (q[128 * h + 32 * p + l] >> shift & 3) << 2 * p;
            qs[32 * h + l] = (unsigned char)byte;
        }
    }
}

void quantize_Q2_K(const float *x, const float *w, size_t n_blocks, void *out)
{
    static const struct geometry g = { 16, 16, 0, 3, 0, 15 };
    struct block_q2_k *b = out;
    int q[QK_SUPER];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SUPER, w += QK_SUPER) {
        struct super_block s = { 0 };
        affine_quantize(x, w, &g, &s, q);
        b[i].d = s.d;
        b[i].dmin = s.dmin;
        for (int j = 0; j < 16; j++)
            b[i].scales[j] = (unsigned char)((int)s.scale[j] | (int)s.min[j] << 4);
        pack_pairs(q, 0, b[i].qs);
    }
}

void quantize_Q3_K(const float *x, const float *w, size_t n_blocks, void *out)
{
    static const struct geometry g = { 16, 16, -4, 3, -32, 31 };
    struct block_q3_k *b = out;
    int q[QK_SUPER];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SUPER, w += QK_SUPER) {
        struct super_block s = { 0 };
        symmetric_quantize(x, w, &g, &s, q);
        int8_t scales[16];
        for (int j = 0; j < 16; j++)
            scales[j] = (int8_t)s.scale[j];
        q3_k_pack_scales(scales, b[i].scales);
        b[i].d = s.d;
        for (int j = 0; j < QK_SUPER; j++)
            q[j] += 4;
        pack_pairs(q, 0, b[i].qs);
        for (int l = 0; l < 32; l++) {
            int mask = 0;
            for (int bit = 0; bit < 8; bit++)
                mask |= (q[32 * bit + l] >> 2) << bit;
            b[i].hmask[l] = (unsigned char)mask;
        }
    }
}

static void k4_quantize(const float *x, const float *w, float high, uint16_t units[2],
                        unsigned char packed[12], int q[QK_SUPER])
{
    struct geometry g = { 8, 32, 0, high, 0, 63 };
    struct super_block s = { 0 };
    uint8_t scales[8], mins[8];
    affine_quantize(x, w, &g, &s, q);
    for (int j = 0; j < 8; j++) {
        scales[j] = (uint8_t)s.scale[j];
        mins[j] = (uint8_t)s.min[j];
    }
    k4_pack_scales(scales, mins, packed);
    units[0] = s.d;
    units[1] = s.dmin;
}

/* Low nibbles of sub-blocks 2k and 2k + 1 side by side. */
static void pack_k4_nibbles(const int q[QK_SUPER], unsigned char qs[128])
{
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 32; l++)
            qs[32 * k + l] =
                (unsigned char)((q[64 * k + l] & 15) | (q[64 * k + 32 + l] & 15) << 4);
}

void quantize_Q4_K(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q4_k *b = out;
    int q[QK_SUPER];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SUPER, w += QK_SUPER) {
        uint16_t units[2];
        k4_quantize(x, w, 15, units, b[i].scales, q);
        b[i].d = units[0];
        b[i].dmin = units[1];
        pack_k4_nibbles(q, b[i].qs);
    }
}

void quantize_Q5_K(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q5_k *b = out;
    int q[QK_SUPER];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SUPER, w += QK_SUPER) {
        uint16_t units[2];
        k4_quantize(x, w, 31, units, b[i].scales, q);
        b[i].d = units[0];
        b[i].dmin = units[1];
        pack_k4_nibbles(q, b[i].qs);
        for (int l = 0; l < 32; l++) {
            int bits = 0;
            for (int j = 0; j < 8; j++)
                bits |= (q[32 * j + l] >> 4) << j;
            b[i].qh[l] = (unsigned char)bits;
        }
    }
}

void quantize_Q6_K(const float *x, const float *w, size_t n_blocks, void *out)
{
    static const struct geometry g = { 16, 16, -32, 31, -128, 127 };
    struct block_q6_k *b = out;
    int q[QK_SUPER];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SUPER, w += QK_SUPER) {
        struct super_block s = { 0 };
        symmetric_quantize(x, w, &g, &s, q);
        b[i].d = s.d;
        for (int j = 0; j < 16; j++)
            b[i].scales[j] = (signed char)s.scale[j];
        for (int j = 0; j < QK_SUPER; j++)
            q[j] += 32;
        for (int h = 0; h < 2; h++)
            for (int l = 0; l < 64; l++)
                b[i].ql[64 * h + l] = (unsigned char)((q[128 * h + l] & 15) |
                                                      (q[128 * h + 64 + l] & 15) << 4);
        pack_pairs(q, 4, b[i].qh);
    }
}
