#include "server/server.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/http_daemon.h"
#include "server/request_log.h"
#include "server/server_state.h"

#define DRAIN_STEP_NS 20000000
#define STOP_SECONDS 3

static void fill_shelf(struct server *s, const struct server_model *models, size_t n)
{
    struct shelf_model *entry = mem_array(struct shelf_model, n);
    for (size_t i = 0; i < n; i++)
        entry[i] = (struct shelf_model){
            .id = models[i].id, .path = models[i].path, .aliases = models[i].aliases,
            .n_aliases = models[i].n_aliases, .model = models[i].model,
        };
    model_shelf_init(&s->shelf, s->engine, entry, n);
    s->shelf.max_loaded = s->options.models_max;
    s->shelf.idle_unload = s->options.model_idle_unload;
    s->shelf.autoload = s->options.models_autoload;
}

enum status server_start(const struct server_options *options, struct engine *engine,
                         const struct server_model *models, size_t n_models,
                         struct server **out, struct error *err)
{
    struct server *s = mem_new(struct server);
    s->options = *options;
    s->engine = engine;
    fill_shelf(s, models, n_models);
    s->started_unix = clock_unix();
    s->started = clock_seconds();
    pthread_mutex_init(&s->lock, NULL);
    server_metrics_init(&s->metrics);
    s->quiesced_fd = -1;
    atomic_store(&s->loading, true);
    enum status status = http_watch_new(s, &s->watch, err);
    if (status == STATUS_OK)
        status = worker_pool_new(options->n_workers, options->concurrency + 64, http_daemon_work,
                                 &s->workers, err);
    if (status == STATUS_OK)
        status = worker_pool_new(1, options->concurrency + 64, http_daemon_work_loading,
                                 &s->loader, err);
    if (status == STATUS_OK)
        status = model_shelf_keep(&s->shelf, err);
    if (status == STATUS_OK)
        status = http_daemon_start(s, err);
    if (status != STATUS_OK) {
        server_stop(s);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

enum status server_load(struct server *s, struct engine_model **out, struct error *err)
{
    TRY(model_shelf_acquire(&s->shelf, &s->shelf.entry[0], true, err));
    *out = s->shelf.entry[0].model;
    return STATUS_OK;
}

void server_ready(struct server *s)
{
    model_shelf_release_model(&s->shelf, &s->shelf.entry[0], true);
    atomic_store(&s->loading, false);
}

void server_log(struct server *s, struct str line)
{
    struct error text = { 0 };
    (void)error_set(&text, STATUS_INVALID, "%.*s", STR_ARG(line));
    request_log_failure(s, text.message);
}

int server_port(const struct server *s)
{
    return s->listener.port;
}

static int live_exchanges(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->n_live;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void wait_for_exchanges(struct server *s, double seconds)
{
    double until = clock_seconds() + seconds;
    struct timespec pause = { 0, DRAIN_STEP_NS };
    while (live_exchanges(s) > 0 && clock_seconds() < until)
        nanosleep(&pause, NULL);
}

/* What still runs ends with an error that its client sees; then connections are cut. A suspended
 * one must be resumed before the daemon ends. */
static void abandon_exchanges(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    for (struct exchange *x = s->live; x; x = x->next)
        exchange_stop(x, EXCHANGE_SHUTDOWN);
    pthread_mutex_unlock(&s->lock);
    wait_for_exchanges(s, STOP_SECONDS);
    pthread_mutex_lock(&s->lock);
    for (struct exchange *x = s->live; x; x = x->next)
        exchange_gone(x);
    pthread_mutex_unlock(&s->lock);
    wait_for_exchanges(s, STOP_SECONDS);
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    if (s->daemon) {
        atomic_store(&s->draining, true);
        http_daemon_quiesce(s);
        int n = live_exchanges(s);
        if (n)
            request_log_notice(s, "stopping: %d requests have %g s to finish", n,
                               s->options.drain_timeout);
        wait_for_exchanges(s, s->options.drain_timeout);
        abandon_exchanges(s);
    }
    worker_pool_free(s->workers); /* first: they hand on to the loader */
    worker_pool_free(s->loader);
    http_daemon_stop(s);
    http_watch_free(s->watch);
    model_shelf_release(&s->shelf);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
