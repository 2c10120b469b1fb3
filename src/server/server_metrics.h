/* server_metrics: what the HTTP side counts of requests that generate. The engine counts the
 * rest (engine/metrics.h). Threads: any. */
#ifndef SERVER_SERVER_METRICS_H
#define SERVER_SERVER_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/histogram.h"

enum request_outcome {
    OUTCOME_SUCCESS,
    OUTCOME_ERROR,
    OUTCOME_CANCELLED,
    OUTCOME_REJECTED,
    N_OUTCOMES
};

struct server_metrics {
    _Atomic uint64_t outcome[N_OUTCOMES];
    struct histogram duration; /* seconds, of all but the rejected */
};

void server_metrics_init(struct server_metrics *m);
/* A request with a log row has ended: `status` is the reply's, `finish` as in the row. */
void server_metrics_end(struct server_metrics *m, int status, const char *finish, double seconds);
extern const char *const server_outcome_names[N_OUTCOMES];

#endif
