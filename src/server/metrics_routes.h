/* metrics_routes: GET /metrics (Prometheus text, or JSON with ?format=json or Accept) and
 * GET /metrics/json. Text format: prometheus.io/docs/instrumenting/exposition_formats. */
#ifndef SERVER_METRICS_ROUTES_H
#define SERVER_METRICS_ROUTES_H

#include "server/exchange.h"

void metrics_text(struct exchange *);
void metrics_json(struct exchange *);

#endif
