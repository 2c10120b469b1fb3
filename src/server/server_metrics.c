#include "server/server_metrics.h"

#include <string.h>

#include "base/compiler.h"

const char *const server_outcome_names[N_OUTCOMES] = { "success", "error", "cancelled",
                                                       "rejected" };

void server_metrics_init(struct server_metrics *m)
{
    *m = (struct server_metrics){ 0 };
    histogram_init(&m->duration, histogram_durations, ARRAY_SIZE(histogram_durations));
}

static enum request_outcome outcome_of(int status, const char *finish)
{
    if (finish && (strcmp(finish, "cancelled") == 0 || strcmp(finish, "timeout") == 0))
        return OUTCOME_CANCELLED;
    if (finish && strcmp(finish, "error") == 0)
        return OUTCOME_ERROR;
    if (status >= 500 && status != 503)
        return OUTCOME_ERROR;
    return status >= 400 ? OUTCOME_REJECTED : OUTCOME_SUCCESS;
}

void server_metrics_end(struct server_metrics *m, int status, const char *finish, double seconds)
{
    enum request_outcome outcome = outcome_of(status, finish);
    atomic_fetch_add_explicit(&m->outcome[outcome], 1, memory_order_relaxed);
    if (outcome != OUTCOME_REJECTED)
        histogram_add(&m->duration, seconds);
}
