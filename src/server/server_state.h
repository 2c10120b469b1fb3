/* server_state: the server's own struct, for src/server only. */
#ifndef SERVER_SERVER_STATE_H
#define SERVER_SERVER_STATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/exchange.h"
#include "server/http_listen.h"
#include "server/http_watch.h"
#include "server/model_shelf.h"
#include "server/server_metrics.h"
#include "server/server.h"
#include "server/worker_pool.h"

struct server {
    struct server_options options;
    struct engine *engine;
    struct model_shelf shelf;
    struct MHD_Daemon *daemon;
    struct http_watch *watch;
    struct worker_pool *workers;
    struct worker_pool *loader; /* one thread, for what may wait until a model is loaded */
    int quiesced_fd;            /* the listening socket after it was shut down; -1 */
    struct http_listener listener;
    int64_t started_unix;
    double started;
    atomic_int n_connections;
    atomic_int n_generations; /* admitted requests that generate */
    atomic_bool draining, loading; /* loading: nothing is served yet */
    atomic_ullong n_requests;
    pthread_mutex_t lock; /* list and log */
    struct exchange *live;
    int n_live;
    int rows_printed;
    uint64_t rows_lost; /* since the log's reader stopped; under `lock` */
    bool log_failed;    /* which was told; under `lock` */
    bool live_drawn; /* see live_row.h; under `lock` */
    struct server_metrics metrics;
};

#endif
