#include "server/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/router.h"
#include "server/server_state.h"

struct exchange *exchange_new(struct server *server, struct MHD_Connection *connection)
{
    struct exchange *x = mem_new(struct exchange);
    atomic_init(&x->references, 1);
    x->server = server;
    x->connection = connection;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->fd = info ? info->connect_fd : -1;
    x->started = clock_seconds();
    x->row.prompt_tokens = x->row.cached_tokens = x->row.output_tokens = -1;
    x->row.first_token_s = x->row.tokens_per_second = -1;
    pthread_mutex_init(&x->lock, NULL);
    strbuf_init(&x->body, LIMIT_BODY_BYTES);
    strbuf_init(&x->reply, LIMIT_REPLY_BYTES);
    strbuf_init(&x->out, LIMIT_PENDING_STREAM_BYTES);

    pthread_mutex_lock(&server->lock);
    x->next = server->live;
    if (x->next)
        x->next->previous = x;
    server->live = x;
    server->n_live++;
    pthread_mutex_unlock(&server->lock);
    return x;
}

void exchange_hold(struct exchange *x)
{
    atomic_fetch_add(&x->references, 1);
}

static void unlink_live(struct exchange *x)
{
    struct server *s = x->server;
    pthread_mutex_lock(&s->lock);
    if (x->previous)
        x->previous->next = x->next;
    else
        s->live = x->next;
    if (x->next)
        x->next->previous = x->previous;
    s->n_live--;
    pthread_mutex_unlock(&s->lock);
}

void exchange_drop(struct exchange *x)
{
    if (atomic_fetch_sub(&x->references, 1) != 1)
        return;
    if (x->source.release)
        x->source.release(x);
    if (x->served)
        model_shelf_release_model(&x->server->shelf, x->served, x->route->flags & ROUTE_MODEL);
    json_decref(x->json);
    strbuf_release(&x->body);
    strbuf_release(&x->reply);
    strbuf_release(&x->out);
    mem_free(x->path);
    mem_free((char *)x->authority.ptr);
    unlink_live(x);
    pthread_mutex_destroy(&x->lock);
    mem_free(x);
}

/* Suspending and resuming under one lock never loses a wake-up. */
void exchange_wake(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->woken = true;
    if (x->suspended) {
        x->suspended = false;
        MHD_resume_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
}

void exchange_gone(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->gone = true;
    pthread_mutex_unlock(&x->lock);
    exchange_wake(x);
}

bool exchange_is_gone(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    return gone;
}

void exchange_stop(struct exchange *x, const char *why)
{
    pthread_mutex_lock(&x->lock);
    x->stop = x->stop ? x->stop : why;
    pthread_mutex_unlock(&x->lock);
    exchange_wake(x);
}

const char *exchange_stop_reason(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const char *why = x->stop;
    pthread_mutex_unlock(&x->lock);
    return why;
}

void exchange_park(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->parked = true;
    pthread_mutex_unlock(&x->lock);
}

bool exchange_is_parked(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool parked = x->parked;
    pthread_mutex_unlock(&x->lock);
    return parked;
}

static bool unpark(struct exchange *x, bool goes_on)
{
    pthread_mutex_lock(&x->lock);
    bool parked = x->parked;
    x->parked = false;
    x->has_worker &= goes_on || !parked;
    pthread_mutex_unlock(&x->lock);
    return parked;
}

bool exchange_unpark(struct exchange *x)
{
    return unpark(x, true);
}

bool exchange_take_back(struct exchange *x)
{
    return unpark(x, false);
}

void exchange_error_stopped(struct exchange *x, const char *why)
{
    bool late = strcmp(why, EXCHANGE_TIMEOUT) == 0;
    if (late)
        exchange_error(x, 504, NULL, "request_timeout",
                       "the request took longer than the %g s of --request-timeout",
                       x->server->options.request_timeout);
    else
        exchange_error(x, 503, NULL, NULL, "the request was cancelled: %s", why);
    x->no_retry = late;
    x->row.finish = late ? "timeout" : "cancelled";
}

void exchange_reply_text(struct exchange *x, int status, const char *type, struct str text)
{
    x->status = status;
    x->content_type = type;
    strbuf_clear(&x->reply);
    strbuf_add(&x->reply, text);
    x->phase = EXCHANGE_REPLY;
}

void exchange_reply_json(struct exchange *x, int status, const json_t *value)
{
    x->status = status;
    x->content_type = "application/json";
    strbuf_clear(&x->reply);
    json_write(&x->reply, value);
    strbuf_putc(&x->reply, '\n');
    x->phase = EXCHANGE_REPLY;
    if (x->reply.overflow)
        exchange_error(x, 500, NULL, NULL, "the answer is larger than %u bytes", LIMIT_REPLY_BYTES);
}

void exchange_reason(struct exchange *x, const char *text)
{
    snprintf(x->row.reason, sizeof x->row.reason, "%.*s", (int)sizeof x->row.reason - 1, text);
}

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

json_t *exchange_error_value(const struct exchange *x, int status, const char *param,
                             const char *code, const char *message)
{
    if (x->shape == ERROR_LLAMA)
        return json_pack("{s:{s:i,s:s,s:s}}", "error", "code", status, "message", message, "type",
                         error_type(status));
    return json_pack("{s:{s:s,s:s,s:s?,s:s?}}", "error", "message", message, "type",
                     error_type(status), "param", param, "code", code);
}

void exchange_error(struct exchange *x, int status, const char *param, const char *code,
                    const char *format, ...)
{
    struct error err = { 0 };
    va_list arguments;
    va_start(arguments, format);
    (void)error_set_va(&err, STATUS_INVALID, format, arguments);
    va_end(arguments);
    if (status == 429 || status == 503)
        x->retry_after = "1";
    exchange_reason(x, err.message);
    json_t *value = exchange_error_value(x, status, param, code, err.message);
    strbuf_clear(&x->reply);
    json_write(&x->reply, value);
    json_decref(value);
    x->status = status;
    x->content_type = "application/json";
    x->phase = EXCHANGE_REPLY;
}

void exchange_error_from(struct exchange *x, const struct error *err)
{
    int status = 500;
    switch (err->status) {
    case STATUS_INVALID:
    case STATUS_UNSUPPORTED:
    case STATUS_LIMIT:
        status = 400;
        break;
    case STATUS_NOT_FOUND:
        status = 404;
        break;
    case STATUS_CONFLICT:
    case STATUS_DIVERGED:
        status = 409;
        break;
    case STATUS_EXHAUSTED:
        status = 429;
        break;
    case STATUS_CANCELLED:
        status = 503;
        break;
    default:
        break;
    }
    exchange_error(x, status, NULL, NULL, "%s",
                   err->message[0] ? err->message : status_sentence(err->status));
}

void exchange_frame(struct exchange *x, const char *event, const json_t *data)
{
    if (event)
        strbuf_printf(&x->out, "event: %s\n", event);
    strbuf_puts(&x->out, "data: ");
    json_write(&x->out, data);
    strbuf_puts(&x->out, "\n\n");
}

void exchange_frame_text(struct exchange *x, const char *text)
{
    strbuf_printf(&x->out, "data: %s\n\n", text);
}

void exchange_comment(struct exchange *x, const char *text)
{
    strbuf_printf(&x->out, ": %s\n\n", text);
}

static struct str value_of(const struct exchange *x, enum MHD_ValueKind kind, const char *name)
{
    const char *value = NULL;
    size_t n = 0;
    if (MHD_lookup_connection_value_n(x->connection, kind, name, strlen(name), &value, &n) !=
        MHD_YES)
        return (struct str){ 0 };
    return (struct str){ value ? value : "", n };
}

struct str exchange_header(const struct exchange *x, const char *name)
{
    return value_of(x, MHD_HEADER_KIND, name);
}

struct str exchange_query(const struct exchange *x, const char *name)
{
    return value_of(x, MHD_GET_ARGUMENT_KIND, name);
}

const struct engine_model_info *exchange_model(const struct exchange *x)
{
    return engine_model_info(x->served->model);
}
