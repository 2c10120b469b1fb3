#include "server/http_daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "server/http_body.h"
#include "server/http_check.h"
#include "server/http_reply.h"
#include "server/model_choice.h"
#include "server/request_log.h"
#include "server/router.h"
#include "server/server_state.h"

static struct watched_connection *http_connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void set_silence_limit(struct MHD_Connection *connection, double seconds)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)seconds);
}

/* Reads the request id of the client, or makes one. */
static void name_request(struct exchange *x)
{
    struct str given = exchange_header(x, "X-Request-Id");
    bool printable = given.len > 0 && given.len <= LIMIT_REQUEST_ID_BYTES;
    for (size_t i = 0; printable && i < given.len; i++)
        printable = given.ptr[i] > 0x20 && given.ptr[i] < 0x7f;
    if (printable)
        memcpy(x->request_id, given.ptr, given.len);
    else
        server_random_id(x->request_id, sizeof x->request_id, "req_");
}

/* Declared length: -1 when chunked or absent. */
static int64_t declared_length(const struct exchange *x)
{
    uint64_t n;
    struct str text = exchange_header(x, "Content-Length");
    return text.len && number_parse_u64(text, &n) && n <= INT64_MAX ? (int64_t)n : -1;
}

static bool refuse(struct exchange *x, int status, const char *code, const char *text)
{
    exchange_error(x, status, NULL, code, "%s", text);
    return false;
}

static bool is_open_route(const struct server *s, const struct route *r)
{
    if (!r)
        return false;
    bool open_metrics = s->options.metrics_public || server_host_is_loopback(s->options.host);
    return r->flags & ROUTE_OPEN || (r->flags & ROUTE_METRICS && open_metrics);
}

/* Everything that the headers alone decide. False: the answer is in the exchange. */
static bool accept_headers(struct exchange *x, const char *version)
{
    struct server *s = x->server;
    struct str path = str_of(x->path), method = str_of(x->method);
    if (!http_check_framing(x, version) || !http_check_host(x))
        return false;
    if (atomic_load(&s->n_connections) > s->options.max_connections) {
        x->close_after = true;
        return refuse(x, 503, "too_many_connections", "too many open connections");
    }
    x->route = router_find(path);
    if (str_is(method, "OPTIONS")) {
        exchange_reply_text(x, 204, NULL, STR(""));
        return false;
    }
    if (!is_open_route(s, x->route) && !http_check_key(x))
        return false;
    if (!x->route) {
        exchange_error(x, 404, NULL, NULL,
                       "there is no route %s %s; see GET /v1/models, POST "
                       "/v1/chat/completions, POST /v1/completions",
                       x->method, x->path);
        return false;
    }
    x->row.endpoint = x->route->endpoint;
    if (!router_allows(x->route, method)) {
        x->allow = router_allow_header(x->route);
        exchange_error(x, 405, NULL, NULL, "%s does not take %s", x->route->path, x->method);
        return false;
    }
    if (atomic_load(&s->draining) && !(x->route->flags & ROUTE_INLINE)) {
        x->close_after = true;
        return refuse(x, 503, "shutting_down", "the server is shutting down");
    }
    if (atomic_load(&s->loading) && !(x->route->flags & ROUTE_INLINE))
        return refuse(x, 503, "model_loading", "the model is being loaded");
    if (declared_length(x) > (int64_t)LIMIT_BODY_BYTES) {
        exchange_error(x, 413, NULL, "request_too_large",
                       "the body has %lld bytes, more than the limit of %u",
                       (long long)declared_length(x), LIMIT_BODY_BYTES);
        return false;
    }
    struct str coding = exchange_header(x, "Content-Encoding");
    if (!http_body_coding_known(coding)) {
        exchange_error(x, 415, NULL, NULL,
                       "Content-Encoding '%.*s' is not taken: expected gzip, zstd or identity",
                       STR_ARG(coding));
        return false;
    }
    if (coding.len) /* for the worker, which cannot ask the connection */
        memcpy(x->content_encoding, coding.ptr, coding.len);
    return true;
}

static void take_body(struct exchange *x, const char *bytes, size_t n)
{
    x->body_seen += n;
    if (x->body_seen > LIMIT_BODY_BYTES)
        x->body_status = 413; /* keep reading: an answer is possible only at the end */
    else
        strbuf_append(&x->body, bytes, n);
}

/* Afterwards x->body is the decoded text and x->json its object, or the exchange has an error. */
static bool parse_body(struct exchange *x)
{
    struct error err = { 0 };
    if (http_body_decode(str_of(x->content_encoding), &x->body, &err) != STATUS_OK) {
        bool large = err.status == STATUS_LIMIT;
        exchange_error(x, large ? 413 : 400, NULL, large ? "request_too_large" : NULL, "%s",
                       err.message);
        return false;
    }
    if (strbuf_str(&x->body).len == 0) {
        exchange_error(x, 400, NULL, NULL, "the body is empty: expected a JSON object");
        return false;
    }
    if (json_parse(strbuf_str(&x->body), 0, &x->json, &err) != STATUS_OK) {
        exchange_error(x, 400, NULL, NULL, "%s", err.message);
        return false;
    }
    if (!json_is_object(x->json))
        exchange_error(x, 400, NULL, NULL, "the body must be a JSON object");
    return json_is_object(x->json);
}

/* The row, the counts, and the end of what still works for a connection that has ended. */
static void conclude(struct exchange *x)
{
    struct server *s = x->server;
    if (x->cut_off && !x->row.finish && !x->row.reason[0])
        x->row.finish = "cancelled";
    request_log_row(x);
    if (x->row.endpoint)
        server_metrics_end(&s->metrics, x->status, x->row.finish, clock_seconds() - x->started);
    if (x->source.cancel)
        x->source.cancel(x, "the connection ended");
}

/* False: it has its answer, or needs none. */
static bool may_go_on(struct exchange *x)
{
    const char *why = exchange_stop_reason(x);
    if (why)
        exchange_error_stopped(x, why);
    return !why && !exchange_is_gone(x);
}

/* The worker is done with it. */
static void finish(struct exchange *x)
{
    strbuf_release(&x->body);
    pthread_mutex_lock(&x->lock);
    x->has_worker = false;
    bool ended = x->ended;
    pthread_mutex_unlock(&x->lock);
    if (ended)
        conclude(x);
    exchange_wake(x);
    exchange_drop(x);
}

static void hand_on(struct exchange *x)
{
    exchange_park(x);
    if (worker_pool_add(x->server->loader, x))
        return;
    if (!exchange_unpark(x)) {
        exchange_drop(x);
        return;
    }
    exchange_error(x, 429, "model", NULL, "too many requests wait for a model");
    finish(x);
}

/* The connection may end at any time meanwhile: its memory is not touched here. */
void http_daemon_work(void *exchange)
{
    struct exchange *x = exchange;
    unsigned flags = x->route->flags;
    bool by_name = flags & (ROUTE_LOADS | ROUTE_UNLOADS);
    bool good = may_go_on(x) && (strcmp(x->method, "POST") != 0 || parse_body(x)) &&
                (!(flags & ROUTE_MODEL || by_name) || model_choose(x));
    if (good && (by_name || (flags & ROUTE_MODEL && !x->served))) {
        hand_on(x);
        return;
    }
    if (good)
        x->route->handle(x);
    finish(x);
}

/* Until the model is there the exchange is not touched: it may be answered at its deadline, or its
 * client leave, and nothing is loaded for one that waits no more. */
void http_daemon_work_loading(void *exchange)
{
    struct exchange *x = exchange;
    struct model_shelf *shelf = &x->server->shelf;
    struct shelf_model *m = x->route->flags & ROUTE_UNLOADS ? NULL : x->wanted;
    bool by_name = x->route->flags & ROUTE_LOADS;
    struct error err = { 0 };
    enum status status = STATUS_OK;
    if (m && !exchange_is_parked(x))
        m = NULL;
    else if (m)
        status = model_shelf_acquire(shelf, m, by_name, &err);
    if (!exchange_unpark(x)) {
        if (m && status == STATUS_OK)
            model_shelf_release_model(shelf, m, false);
        exchange_drop(x);
        return;
    }
    if (status != STATUS_OK) {
        model_not_served(x, m, &err);
    } else {
        x->served = m;
        if (may_go_on(x))
            x->route->handle(x);
    }
    finish(x);
}

/* The body is complete: the handler runs here or on a worker. */
static void dispatch(struct exchange *x)
{
    struct server *s = x->server;
    pthread_mutex_lock(&x->lock);
    x->deadline = s->options.request_timeout > 0 ? x->started + s->options.request_timeout : 0;
    pthread_mutex_unlock(&x->lock);
    if (x->body_status == 413) {
        exchange_error(x, 413, NULL, "request_too_large", "the body is larger than %u bytes",
                       LIMIT_BODY_BYTES);
        return;
    }
    if (x->route->flags & ROUTE_INLINE) {
        x->route->handle(x);
        return;
    }
    x->phase = EXCHANGE_WORKING;
    x->has_worker = true;
    exchange_hold(x);
    if (!worker_pool_add(s->workers, x)) {
        x->has_worker = false;
        exchange_drop(x);
        exchange_error(x, 429, NULL, NULL, "too many requests wait to be read");
    }
}

/* Runs until there is an answer to queue; false: the connection was suspended. A wake may come
 * early (a tick of the watch): then the phase has not changed and we suspend again. */
static bool advance(struct exchange *x)
{
    for (;;) {
        if (x->phase == EXCHANGE_REPLY || x->phase == EXCHANGE_STREAM)
            return true;
        pthread_mutex_lock(&x->lock);
        bool woken = x->woken;
        x->woken = false;
        if (!woken) {
            x->suspended = true;
            MHD_suspend_connection(x->connection);
        }
        pthread_mutex_unlock(&x->lock);
        if (!woken)
            return false;
        const char *why = exchange_stop_reason(x);
        if (x->phase == EXCHANGE_WAITING)
            x->source.pump(x);
        else if (why && exchange_take_back(x))
            exchange_error_stopped(x, why);
    }
}

static enum MHD_Result on_body(struct exchange *x, const char *bytes, size_t *n)
{
    take_body(x, bytes, *n);
    *n = 0;
    bool late = x->server->options.body_timeout > 0 &&
                clock_seconds() - x->started > x->server->options.body_timeout;
    return late || x->body_seen > LIMIT_BODY_DRAIN_BYTES ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *argument, struct MHD_Connection *connection,
                                  const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **slot)
{
    struct server *s = argument;
    struct exchange *x = *slot;
    if (!x) {
        *slot = x = exchange_new(s, connection);
        strncpy(x->method, method, sizeof x->method - 1);
        http_check_target(x, url);
        name_request(x);
        if (!accept_headers(x, version))
            return http_reply_queue(x);
        http_watch_connection_body(s->watch, http_connection_of(connection));
        return MHD_YES;
    }
    if (*upload_size)
        return on_body(x, upload, upload_size);
    if (x->phase == EXCHANGE_BODY) {
        http_watch_connection_busy(s->watch, http_connection_of(connection));
        http_watch_add(s->watch, x);
        x->watched = true;
        set_silence_limit(connection, s->options.write_timeout);
        dispatch(x);
    }
    if (exchange_is_gone(x))
        return MHD_NO;
    return advance(x) ? http_reply_queue(x) : MHD_YES;
}

static void on_completed(void *argument, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode how)
{
    struct server *s = argument;
    struct exchange *x = *slot;
    *slot = NULL;
    if (!x)
        return;
    if (x->watched)
        http_watch_remove(s->watch, x);
    bool cut_off = how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (cut_off)
        exchange_gone(x);
    exchange_take_back(x);
    set_silence_limit(connection, s->options.idle_timeout);
    http_watch_connection_idle(s->watch, http_connection_of(connection), s->options.idle_timeout);
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    x->cut_off = cut_off;
    bool has_worker = x->has_worker;
    pthread_mutex_unlock(&x->lock);
    if (!has_worker) /* else the worker does it, which owns the exchange now */
        conclude(x);
    exchange_drop(x);
}

static void on_connection(void *argument, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *s = argument;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        atomic_fetch_add(&s->n_connections, 1);
        *slot = http_watch_connection(s->watch, info ? info->connect_fd : -1);
    } else {
        atomic_fetch_sub(&s->n_connections, 1);
        http_watch_connection_closed(s->watch, *slot);
        *slot = NULL;
    }
}

enum status http_daemon_start(struct server *s, struct error *err)
{
    int fd = -1;
    TRY(http_listen(&s->listener, s->options.host, s->options.port, &fd, err));
    errno = 0; /* the library has no errors of its own */
    s->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         on_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
                         on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
                         MHD_OPTION_UNESCAPE_CALLBACK, http_check_unescape, NULL,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIMIT_CONNECTION_MEMORY,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->options.max_connections + 64,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->options.idle_timeout,
#if MHD_VERSION >= 0x00097701
                         MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
                         MHD_OPTION_STRICT_FOR_CLIENT, 0,
#endif
                         MHD_OPTION_END);
    if (!s->daemon) {
        const char *reason = errno ? strerror(errno) : "the HTTP library gives no reason";
        close(fd);
        http_listen_release(&s->listener);
        return error_set(err, STATUS_IO, "cannot start the HTTP server on %s port %d: %s",
                         s->options.host, s->options.port, reason);
    }
    return STATUS_OK;
}

/* The library's thread may still be about to accept from the socket: its number must not become
 * another file's before that thread has ended. Shut down, it refuses whoever connects. */
void http_daemon_quiesce(struct server *s)
{
    s->quiesced_fd = MHD_quiesce_daemon(s->daemon);
    if (s->quiesced_fd >= 0)
        shutdown(s->quiesced_fd, SHUT_RDWR);
}

void http_daemon_stop(struct server *s)
{
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->quiesced_fd >= 0)
        close(s->quiesced_fd);
    s->quiesced_fd = -1;
    s->daemon = NULL;
    http_listen_release(&s->listener);
}
