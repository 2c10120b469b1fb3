/* rng: a counter-based generator: the n-th number of a stream is a pure function of (seed,
 * stream, n), so that batching, speculation and resuming cannot change what is drawn.
 * Source: Philox4x32-10, Salmon et al., SC 2011, doi:10.1145/2063384.2063405. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng_block {
    uint32_t word[4];
};
struct rng_block rng_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t n); /* [0, 1), 53 bits */
uint64_t rng_random_seed(void);                                  /* from the system */

#endif
