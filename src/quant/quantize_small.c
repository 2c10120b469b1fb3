/* Quantizers of the plain small floats and of the types with one scale, or one scale and one
 * minimum, for 32 values. Layouts: quant/blocks.h. */
#include "quant/quantize_internal.h"

#include <string.h>

#include "quant/blocks.h"

void quantize_F16(const float *x, const float *w, size_t n, void *out)
{
    (void)w;
    unsigned char *bytes = out;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = f32_to_f16(x[i]);
        memcpy(bytes + i * sizeof h, &h, sizeof h);
    }
}

void quantize_BF16(const float *x, const float *w, size_t n, void *out)
{
    (void)w;
    unsigned char *bytes = out;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = f32_to_bf16(x[i]);
        memcpy(bytes + i * sizeof h, &h, sizeof h);
    }
}

/* The f16 at or beside `scale` whose codes leave the smallest error. */
static uint16_t best_f16_scale(const float *x, const float *w, float base, float scale, float low,
                               float high)
{
    uint16_t centre = f16_scale(scale), best = centre;
    float best_error = fit_error(x, w, QK_SMALL, base, f16_to_f32(centre), low, high);
    for (int step = -1; step <= 1; step += 2) {
        uint16_t magnitude = (uint16_t)((centre & 0x7FFFu) + (unsigned)step);
        if (magnitude > 0x7BFFu)
            continue; /* below zero or above the largest */
        uint16_t candidate = (uint16_t)((centre & 0x8000u) | magnitude);
        float error = fit_error(x, w, QK_SMALL, base, f16_to_f32(candidate), low, high);
        if (error < best_error) {
            best_error = error;
            best = candidate;
        }
    }
    return best;
}

static void pack_nibbles(const int q[QK_SMALL], unsigned char qs[16])
{
    for (int j = 0; j < 16; j++)
        qs[j] = (unsigned char)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void pack_fifth_bits(const int q[QK_SMALL], unsigned char qh[4])
{
    for (int k = 0; k < 4; k++) {
        int bits = 0;
        for (int j = 0; j < 8; j++)
            bits |= (q[8 * k + j] >> 4 & 1) << j;
        qh[k] = (unsigned char)bits;
    }
}

/* d and the codes, offset so that they start at 0. The scales that put the largest value on an end
 * of the range are tried too: they win where the rounding of d is all the error there is. */
static uint16_t symmetric_block(const float *x, const float *w, int low, int q[QK_SMALL])
{
    float first = (float)low, last = (float)(-low - 1), largest = largest_with_sign(x, QK_SMALL);
    float trials[3] = { fit_symmetric(x, w, QK_SMALL, first), largest / first, largest / last };
    uint16_t d = 0;
    float best_error = 3.4e38f;
    for (int k = 0; k < 3; k++) {
        uint16_t candidate = best_f16_scale(x, w, 0, trials[k], first, last);
        float error = fit_error(x, w, QK_SMALL, 0, f16_to_f32(candidate), first, last);
        if (error < best_error) {
            best_error = error;
            d = candidate;
        }
    }
    fit_codes(x, QK_SMALL, 0, f16_to_f32(d), first, last, q);
    for (int j = 0; j < QK_SMALL; j++)
        q[j] -= low;
    return d;
}

static void affine_block(const float *x, const float *w, float high, uint16_t *d, uint16_t *m,
                         int q[QK_SMALL])
{
    struct affine line = fit_affine(x, w, QK_SMALL, high, false);
    *d = f16_scale(line.scale);
    uint16_t centre = f32_to_f16(clamped(line.base, -65504.0f, 65504.0f));
    float best_error = 3.4e38f;
    uint16_t best_d = *d;
    *m = centre;
    for (int step = -1; step <= 1; step++) {
        uint16_t magnitude = (uint16_t)((centre & 0x7FFFu) + (unsigned)step);
        if (magnitude > 0x7BFFu)
            continue;
        uint16_t candidate = (uint16_t)((centre & 0x8000u) | magnitude);
        float base = f16_to_f32(candidate);
        uint16_t scale = best_f16_scale(x, w, base, line.scale, 0, high);
        float error = fit_error(x, w, QK_SMALL, base, f16_to_f32(scale), 0, high);
        if (error < best_error) {
            best_error = error;
            best_d = scale;
            *m = candidate;
        }
    }
    *d = best_d;
    fit_codes(x, QK_SMALL, f16_to_f32(*m), f16_to_f32(*d), 0, high, q);
}

void quantize_Q4_0(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q4_0 *b = out;
    int q[QK_SMALL];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SMALL, w += QK_SMALL) {
        b[i].d = symmetric_block(x, w, -8, q);
        pack_nibbles(q, b[i].qs);
    }
}

void quantize_Q5_0(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q5_0 *b = out;
    int q[QK_SMALL];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SMALL, w += QK_SMALL) {
        b[i].d = symmetric_block(x, w, -16, q);
        pack_nibbles(q, b[i].qs);
        pack_fifth_bits(q, b[i].qh);
    }
}

void quantize_Q4_1(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q4_1 *b = out;
    int q[QK_SMALL];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SMALL, w += QK_SMALL) {
        uint16_t d, m;
        affine_block(x, w, 15, &d, &m, q);
        b[i].d = d;
        b[i].m = m;
        pack_nibbles(q, b[i].qs);
    }
}

void quantize_Q5_1(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q5_1 *b = out;
    int q[QK_SMALL];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SMALL, w += QK_SMALL) {
        uint16_t d, m;
        affine_block(x, w, 31, &d, &m, q);
        b[i].d = d;
        b[i].m = m;
        pack_nibbles(q, b[i].qs);
        pack_fifth_bits(q, b[i].qh);
    }
}

/* At eight bits the scale that spans the range is as good as any search finds. */
void quantize_Q8_0(const float *x, const float *w, size_t n_blocks, void *out)
{
    struct block_q8_0 *b = out;
    int q[QK_SMALL];
    for (size_t i = 0; i < n_blocks; i++, x += QK_SMALL, w += QK_SMALL) {
        float largest = largest_with_sign(x, QK_SMALL);
        b[i].d = best_f16_scale(x, w, 0, MAX(largest, -largest) / 127.0f, -127, 127);
        fit_codes(x, QK_SMALL, 0, f16_to_f32(b[i].d), -127, 127, q);
        for (int j = 0; j < QK_SMALL; j++)
            b[i].qs[j] = (signed char)q[j];
    }
}
