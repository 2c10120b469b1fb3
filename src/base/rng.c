#include "base/rng.h"

#include <sys/random.h>

#include "base/clock.h"

struct rng_block rng_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct rng_block){ { c0, c1, c2, c3 } };
}

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t n)
{
    struct rng_block b = rng_philox(seed, n, stream);
    uint64_t bits = (uint64_t)b.word[1] << 32 | b.word[0];
    return (double)(bits >> 11) * 0x1p-53;
}

uint64_t rng_random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        /* Only a kernel without the call comes here; two clocks are the next best. */
        struct rng_block b = rng_philox(clock_ns(), (uint64_t)clock_unix(), (uintptr_t)&seed);
        seed = (uint64_t)b.word[1] << 32 | b.word[0];
    }
    return seed;
}
