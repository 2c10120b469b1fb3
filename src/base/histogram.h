/* histogram: how often a measured value fell between which bounds, as monitoring systems want it.
 *
 * Bucket i counts values <= bound[i], the last one everything above; buckets are not cumulative
 * here. Threads: any thread may add and read at any time; a reader may see a value in its bucket
 * before it is part of the sum. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_MAX_BOUNDS 16

struct histogram {
    const double *bound; /* [n_bounds] ascending; constant, borrowed */
    int n_bounds;
    _Atomic uint64_t count[HISTOGRAM_MAX_BOUNDS + 1];
    _Atomic double sum;
};

void histogram_init(struct histogram *h, const double *bound, int n_bounds);
void histogram_add(struct histogram *h, double value); /* NaN is not counted */
uint64_t histogram_total(const struct histogram *h);
double histogram_sum(const struct histogram *h);

/* Bounds that several meters share. */
extern const double histogram_durations[15]; /* seconds, 1 ms to 60 s */
extern const double histogram_gaps[11];      /* seconds, 1 ms to 2.5 s */
extern const double histogram_batches[9];    /* 1 to 256, doubling */

#endif
