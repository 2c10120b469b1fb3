/* logit_scan: passes over a row of logits, for whoever draws from it.
 *
 * Every instruction set gives the same bits: sums run over 16 lanes in a fixed order, and no
 * multiplication is contracted. Leaf functions of plain arguments: no threads, no allocation. */
#ifndef CPU_LOGIT_SCAN_H
#define CPU_LOGIT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#define LOGIT_LANES 16
#define LOGIT_BLOCK 1024 /* values whose sum is one f32 of each lane */

struct logit_scan {
    const char *isa;
    /* The largest of n values; -INFINITY for none. *has_nan is set when one is NaN. */
    float (*maximum)(const float *x, int32_t n, bool *has_nan);
    /* Sum of exp((x - maximum) * factor) over n values, none above `maximum`. */
    double (*mass)(const float *x, int32_t n, float maximum, float factor);
    /* out[i] = exp(x[i] - maximum); they may not overlap. */
    void (*weights)(float *out, const float *x, int32_t n, float maximum);
    /* The first multiple of LOGIT_LANES from `from` (one itself) on whose lanes hold a value above
     * (from: not below) the limit, or the lanes that n cuts short. */
    int32_t (*next_above)(const float *x, int32_t from, int32_t n, float limit);
    int32_t (*next_from)(const float *x, int32_t from, int32_t n, float limit);
};

extern const struct logit_scan logit_scan_plain, logit_scan_avx2;
/* The fastest that this processor runs. */
const struct logit_scan *logit_scan_best(void);

#endif
