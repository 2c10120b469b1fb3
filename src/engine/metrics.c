#include "engine/metrics.h"

#include "base/compiler.h"

const struct metric_name engine_counter_names[ENGINE_N_COUNTERS] = {
#define ROW(id, name, labels, help) { name, labels, help },
    ENGINE_COUNTERS(ROW)
#undef ROW
};

const struct metric_name engine_histogram_names[ENGINE_N_HISTOGRAMS] = {
#define ROW(id, name, labels, help, bounds) { name, labels, help },
    ENGINE_HISTOGRAMS(ROW)
#undef ROW
};

void engine_metrics_init(struct engine_metrics *m)
{
    *m = (struct engine_metrics){ 0 };
#define ROW(id, name, labels, help, bounds) \
    histogram_init(&m->histogram[HISTOGRAM_##id], bounds, ARRAY_SIZE(bounds));
    ENGINE_HISTOGRAMS(ROW)
#undef ROW
}
