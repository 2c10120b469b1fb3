#include "server/http_reply.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "server/http_check.h"
#include "server/server_state.h"

void server_random_id(char *out, size_t capacity, const char *prefix)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned char bytes[24];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        memset(bytes, 0, sizeof bytes);
    size_t n = strlen(prefix);
    CHECK(capacity > n + sizeof bytes);
    memcpy(out, prefix, n);
    for (size_t i = 0; i < sizeof bytes; i++)
        out[n + i] = letters[bytes[i] % (sizeof letters - 1)];
    out[n + sizeof bytes] = 0;
}

static void keep_alive(struct exchange *x)
{
    double interval = x->server->options.keep_alive_interval;
    if (interval > 0 && clock_seconds() - x->last_byte >= interval)
        exchange_comment(x, "keepalive");
}

static ssize_t take_frames(struct exchange *x, char *buffer, size_t max)
{
    size_t n = MIN(max, x->out.len - x->out_taken);
    memcpy(buffer, x->out.ptr + x->out_taken, n);
    x->out_taken += n;
    if (x->out_taken == x->out.len) {
        strbuf_clear(&x->out);
        x->out_taken = 0;
    }
    pthread_mutex_lock(&x->lock);
    x->last_byte = clock_seconds();
    pthread_mutex_unlock(&x->lock);
    return (ssize_t)n;
}

static ssize_t read_stream(void *argument, uint64_t position, char *buffer, size_t max)
{
    (void)position;
    struct exchange *x = argument;
    for (;;) {
        if (exchange_is_gone(x) || x->out.overflow)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (x->out.len == x->out_taken && !x->stream_ended)
            x->source.pump(x);
        if (x->out.len == x->out_taken && !x->stream_ended)
            keep_alive(x);
        if (x->out.len > x->out_taken)
            return take_frames(x, buffer, max);
        if (x->stream_ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        pthread_mutex_lock(&x->lock);
        bool woken = x->woken;
        x->woken = false;
        if (!woken) {
            x->suspended = true;
            MHD_suspend_connection(x->connection);
        }
        pthread_mutex_unlock(&x->lock);
        if (!woken)
            return 0;
    }
}

static void add_cors(struct exchange *x, struct MHD_Response *r)
{
    const char *origin = http_allowed_origin(x);
    if (!origin)
        return;
    MHD_add_response_header(r, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(r, "Vary", "Origin");
    MHD_add_response_header(r, "Access-Control-Expose-Headers",
                            "x-request-id, request-id, retry-after");
    if (strcmp(x->method, "OPTIONS") != 0)
        return;
    MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS, HEAD");
    struct str wanted = exchange_header(x, "Access-Control-Request-Headers");
    MHD_add_response_header(r, "Access-Control-Allow-Headers",
                            wanted.len ? wanted.ptr : "authorization, content-type, x-api-key");
    MHD_add_response_header(r, "Access-Control-Max-Age", "86400");
}

static void add_headers(struct exchange *x, struct MHD_Response *r)
{
    const char *type = x->streaming ? "text/event-stream" : x->content_type;
    if (type)
        MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", x->streaming ? "no-cache" : "no-store");
    if (x->streaming)
        MHD_add_response_header(r, "X-Accel-Buffering", "no");
    MHD_add_response_header(r, "X-Request-Id", x->request_id);
    MHD_add_response_header(r, "request-id", x->request_id);
    MHD_add_response_header(r, "openai-version", "2020-10-01");
    char text[32];
    snprintf(text, sizeof text, "%.0f", (clock_seconds() - x->started) * 1000);
    MHD_add_response_header(r, "openai-processing-ms", text);
    if (x->retry_after)
        MHD_add_response_header(r, "Retry-After", x->retry_after);
    if (x->no_retry)
        MHD_add_response_header(r, "x-should-retry", "false");
    if (x->allow)
        MHD_add_response_header(r, "Allow", x->allow);
    if (x->status == 401)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (x->close_after)
        MHD_add_response_header(r, "Connection", "close");
    add_cors(x, r);
}

enum MHD_Result http_reply_queue(struct exchange *x)
{
    struct MHD_Response *r;
    x->streaming = x->phase == EXCHANGE_STREAM;
    if (x->streaming) {
        pthread_mutex_lock(&x->lock);
        x->last_byte = clock_seconds();
        pthread_mutex_unlock(&x->lock);
        x->status = 200;
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, x, NULL);
    } else {
        r = MHD_create_response_from_buffer(x->reply.len, x->reply.len ? x->reply.ptr : "",
                                            MHD_RESPMEM_PERSISTENT);
    }
    if (!r)
        return MHD_NO;
    add_headers(x, r);
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return result;
}
