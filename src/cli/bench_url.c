#include "cli/bench_url.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/thread.h"

#define MAX_BODY (64 << 20)
#define SHORT_PROMPT 16 /* before what is written, without a depth */

struct waits {
    double *item; /* ms */
    size_t n, capacity;
};

struct stream {
    const struct bench_server *server;
    int n_prompt, n_gen;
    uint64_t seed;
    struct strbuf line;
    double begin, first, last; /* seconds; first 0: nothing came yet */
    int64_t n_written;
    struct waits gaps;
    enum status status;
    struct error err;
};

static void add_wait(struct waits *w, double ms)
{
    void *items = w->item;
    mem_reserve(&items, &w->capacity, w->n + 1, sizeof(*w->item));
    w->item = items;
    w->item[w->n++] = ms;
}

static void collect(void *user, struct str part)
{
    struct strbuf *b = user;
    strbuf_add(b, part);
}

enum status bench_server_open(struct bench_server *s, const char *url, const char *key,
                              struct error *err)
{
    struct strbuf body;
    json_t *root = NULL;
    s->key = key;
    TRY(http_url_parse(url, &s->url, err));
    size_t n = strlen(s->url.base);
    if (n >= 3 && strcmp(s->url.base + n - 3, "/v1") == 0)
        s->url.base[n - 3] = 0;
    strbuf_init(&body, MAX_BODY);
    enum status status = http_request(&s->url, "/v1/models", key, STR(""), collect, &body, err);
    if (status == STATUS_OK)
        status = json_parse(strbuf_str(&body), 0, &root, err);
    strbuf_release(&body);
    if (status != STATUS_OK)
        return status;
    const json_t *model = json_array_get(json_object_get(root, "data"), 0);
    const char *id = json_string_value(json_object_get(model, "id"));
    json_int_t vocab =
        json_integer_value(json_object_get(json_object_get(model, "meta"), "n_vocab"));
    if (!id || strlen(id) >= sizeof(s->model) || vocab < 2 || vocab > INT32_MAX)
        status =
            error_set(err, STATUS_UNSUPPORTED, "%s: /v1/models gives no id and meta.n_vocab", url);
    else
        snprintf(s->model, sizeof(s->model), "%s", id);
    s->n_vocab = (int)vocab;
    json_decref(root);
    return status;
}

static void take_event(struct stream *s, struct str data)
{
    json_t *event = NULL;
    struct error err = { 0 };
    if (str_is(data, "[DONE]") || json_parse(data, 0, &event, &err) != STATUS_OK)
        return;
    double now = clock_seconds();
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    if (choice && !json_is_string(json_object_get(choice, "finish_reason"))) {
        if (s->first > 0)
            add_wait(&s->gaps, (now - s->last) * 1e3);
        else
            s->first = now;
        s->last = now;
    }
    const json_t *written = json_object_get(json_object_get(event, "usage"), "completion_tokens");
    if (json_is_integer(written))
        s->n_written = json_integer_value(written);
    json_decref(event);
}

static void take_part(void *user, struct str part)
{
    struct stream *s = user;
    for (size_t i = 0; i < part.len; i++) {
        if (part.ptr[i] != '\n') {
            strbuf_putc(&s->line, part.ptr[i]);
            continue;
        }
        struct str line = str_trim(strbuf_str(&s->line));
        if (str_starts(line, STR("data: ")))
            take_event(s, str_slice(line, 6, line.len));
        strbuf_clear(&s->line);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static char *request_body(struct stream *s)
{
    json_t *ids = json_array();
    for (int i = 0; i < s->n_prompt; i++)
        json_array_append_new(
            ids, json_integer((json_int_t)(next_random(&s->seed) % (uint64_t)s->server->n_vocab)));
    json_t *body = json_pack("{s:s, s:o, s:i, s:i, s:b, s:b, s:{s:b}}", "model", s->server->model,
                             "prompt", ids, "max_tokens", s->n_gen, "temperature", 0, "ignore_eos",
                             1, "stream", 1, "stream_options", "include_usage", 1);
    struct strbuf text;
    strbuf_init(&text, MAX_BODY);
    json_write(&text, body);
    json_decref(body);
    return strbuf_detach(&text);
}

static void *run_stream(void *argument)
{
    struct stream *s = argument;
    char *body = request_body(s);
    strbuf_init(&s->line, MAX_BODY);
    s->begin = clock_seconds();
    s->status = http_request(&s->server->url, "/v1/completions", s->server->key, str_of(body),
                             take_part, s, &s->err);
    if (s->status == STATUS_OK && (s->first <= 0 || s->n_written < 1))
        s->status = error_set(&s->err, STATUS_IO, "expected a stream with its usage, found none");
    strbuf_release(&s->line);
    mem_free(body);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct bench_waits percentiles(struct waits *w)
{
    if (w->n == 0)
        return (struct bench_waits){ 0 };
    qsort(w->item, w->n, sizeof(*w->item), by_size);
    return (struct bench_waits){ w->item[(w->n - 1) / 2], w->item[(w->n - 1) * 95 / 100],
                                 w->item[(w->n - 1) * 99 / 100] };
}

/* All streams of one run; its rate. */
static enum status run_once(const struct bench_server *server, const struct bench_test *t,
                            uint64_t seed, struct waits *firsts, struct waits *gaps, double *rate,
                            struct error *err)
{
    int n = t->n_streams, begun = 0;
    double first = INFINITY, last = 0, tokens = 0;
    struct stream *streams = mem_array(struct stream, (size_t)n);
    pthread_t *threads = mem_array(pthread_t, (size_t)n);
    enum status status = STATUS_OK;
    for (; begun < n && status == STATUS_OK; begun++) {
        streams[begun] = (struct stream){
            .server = server,
            .seed = seed * 1024 + (uint64_t)begun,
            .n_prompt = t->n_gen == 0    ? t->n_prompt
                        : t->n_depth > 0 ? t->n_depth
                                         : SHORT_PROMPT,
            .n_gen = t->n_gen > 0 ? t->n_gen + 1 : 1,
        };
        if (thread_start(&threads[begun], run_stream, &streams[begun]) != 0) {
            status = error_set(err, STATUS_EXHAUSTED, "cannot start thread %d of %d", begun, n);
            break;
        }
    }
    for (int i = 0; i < begun; i++) {
        struct stream *s = &streams[i];
        pthread_join(threads[i], NULL);
        if (s->status != STATUS_OK && status == STATUS_OK) {
            *err = s->err;
            status = s->status;
        }
        add_wait(firsts, (s->first - s->begin) * 1e3);
        for (size_t k = 0; k < s->gaps.n; k++)
            add_wait(gaps, s->gaps.item[k]);
        mem_free(s->gaps.item);
        first = fmin(first, s->first);
        last = fmax(last, s->last);
        tokens += (double)s->n_written - 1;
    }
    *rate = t->n_gen == 0 ? t->n_prompt / (streams[0].first - streams[0].begin)
                          : tokens / fmax(last - first, 1e-9);
    mem_free(threads);
    mem_free(streams);
    return status;
}

enum status bench_url_run(const struct bench_server *server, const struct bench_test *t,
                          int repetitions, struct bench_result *out, struct bench_waits *first,
                          struct bench_waits *gap, struct error *err)
{
    struct waits firsts = { 0 }, gaps = { 0 };
    double sum = 0, squares = 0;
    enum status status = STATUS_OK;
    *out = (struct bench_result){ 0 };
    for (int i = 0; i <= repetitions && status == STATUS_OK; i++) {
        double rate = 0;
        status = run_once(server, t, clock_ns(), &firsts, &gaps, &rate, err);
        if (i == 0) { /* warms up, and is not counted */
            firsts.n = gaps.n = 0;
            continue;
        }
        sum += rate;
        squares += rate * rate;
        out->best = fmax(out->best, rate);
    }
    out->average = sum / repetitions;
    out->deviation = sqrt(fmax(0, squares / repetitions - out->average * out->average));
    *first = percentiles(&firsts);
    *gap = percentiles(&gaps);
    mem_free(firsts.item);
    mem_free(gaps.item);
    return status;
}
