#include "engine/loop_guard.h"

#include "base/compiler.h"

/* Looking at each token would find the same some tokens sooner. */
#define INTERVAL 16

static bool repeats(const int32_t *tokens, int32_t n, int32_t period)
{
    int32_t span = MAX(LOOP_GUARD_REPEATS * period, LOOP_GUARD_SPAN);
    if (n < span)
        return false;
    for (int32_t i = n - 1; i >= n - span + period; i--)
        if (tokens[i] != tokens[i - period])
            return false;
    return true;
}

bool loop_guard_sees(const int32_t *tokens, int32_t n)
{
    if (n % INTERVAL != 0)
        return false;
    for (int32_t period = 1; period <= LOOP_GUARD_PERIOD; period++)
        if (repeats(tokens, n, period))
            return true;
    return false;
}
