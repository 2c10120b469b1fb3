#include "engine/sampling.h"

const struct sampling sampling_builtin = {
#define SAMPLING_DEFAULT(name, type, value, low, high) .name = value,
    SAMPLING_FIELDS(SAMPLING_DEFAULT)
#undef SAMPLING_DEFAULT
    .given = (1u << SAMPLING_N_FIELDS) - 1,
};

void sampling_merge(struct sampling *base, const struct sampling *over)
{
#define SAMPLING_TAKE(name, type, value, low, high)        \
    if (over->given & (1u << SAMPLING_##name))             \
        base->name = over->name;
    SAMPLING_FIELDS(SAMPLING_TAKE)
#undef SAMPLING_TAKE
    base->given |= over->given;
    if (over->has_seed) {
        base->has_seed = true;
        base->seed = over->seed;
    }
    if (over->n_bias > 0) {
        base->bias = over->bias;
        base->n_bias = over->n_bias;
    }
}
