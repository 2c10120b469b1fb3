#include "base/histogram.h"

#include "base/compiler.h"
#include "base/mem.h"

const double histogram_durations[15] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                         0.5,   1,      2.5,   5,    10,    30,   60 };
const double histogram_gaps[11] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5
};
const double histogram_batches[9] = { 1, 2, 4, 8, 16, 32, 64, 128, 256 };

void histogram_init(struct histogram *h, const double *bound, int n_bounds)
{
    CHECK(n_bounds > 0 && n_bounds <= HISTOGRAM_MAX_BOUNDS);
    *h = (struct histogram){ .bound = bound, .n_bounds = n_bounds };
}

void histogram_add(struct histogram *h, double value)
{
    if (value != value)
        return;
    int i = 0;
    while (i < h->n_bounds && value > h->bound[i])
        i++;
    atomic_fetch_add_explicit(&h->count[i], 1, memory_order_relaxed);
    double sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&h->sum, &sum, sum + value, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

uint64_t histogram_total(const struct histogram *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= h->n_bounds; i++)
        n += atomic_load_explicit(&h->count[i], memory_order_relaxed);
    return n;
}

double histogram_sum(const struct histogram *h)
{
    return atomic_load_explicit(&h->sum, memory_order_relaxed);
}
