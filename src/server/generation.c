#include "server/generation.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/api_keys.h"
#include "server/http_reply.h"
#include "server/request_log.h"
#include "server/server_state.h"

#define FRAMES_AHEAD (64u << 10)
#define PRIORITY_DEFAULT 5

static void release(struct exchange *x)
{
    struct generation *g = x->state;
    for (int32_t i = 0; i < g->n_choices; i++) {
        if (g->choice[i].request)
            request_drop(g->choice[i].request);
        strbuf_release(&g->choice[i].text);
        json_decref(g->choice[i].logprobs);
    }
    if (g->n_choices)
        atomic_fetch_sub(&x->server->n_generations, 1);
    for (int32_t i = 0; i < g->n_prompts; i++)
        token_list_release(&g->prompts[i]);
    mem_free(g->prompts);
    mem_free(g->choice);
    arena_release(&g->arena);
    mem_free(g);
    x->state = NULL;
}

static void cancel(struct exchange *x, const char *why)
{
    struct generation *g = x->state;
    g->why = why;
    for (int32_t i = 0; i < g->n_choices; i++)
        if (g->choice[i].request)
            request_cancel(g->choice[i].request);
}

static void fill_row(struct exchange *x, const struct generation *g)
{
    struct request_usage usage = generation_usage(g);
    x->row.usage = usage;
    x->row.prompt_tokens = usage.prompt_tokens;
    x->row.cached_tokens = usage.cached_tokens;
    x->row.output_tokens = usage.completion_tokens;
    x->row.first_token_s = g->first_token > 0 ? g->first_token - x->started : -1;
    x->row.tokens_per_second =
        usage.decode_ms > 0 ? 1000.0 * usage.completion_tokens / usage.decode_ms : -1;
    x->row.finish = generation_finish_name(g->choice[0].finish);
}

/* A failed choice fails the whole answer: an error reply, or an error frame in a stream. */
static void fail(struct exchange *x, struct generation *g, const struct error *err)
{
    const char *why = g->why;
    bool streaming = x->phase == EXCHANGE_STREAM;
    cancel(x, why);
    g->n_done = g->n_choices;
    fill_row(x, g);
    x->row.finish = streaming ? "error" : NULL;
    if (why)
        exchange_error_stopped(x, why);
    else
        exchange_error_from(x, err);
    if (!streaming)
        return;
    struct str text = str_trim(strbuf_str(&x->reply));
    exchange_frame_text(x, arena_str(&g->arena, text).ptr);
    exchange_frame_text(x, "[DONE]");
    x->phase = EXCHANGE_STREAM;
    x->status = 200;
    x->stream_ended = true;
}

static void choice_done(struct exchange *x, struct generation *g, int32_t i, const struct event *e)
{
    struct generation_choice *c = &g->choice[i];
    c->done = true;
    c->finish = e->finish;
    c->usage = e->usage;
    g->n_done++;
    if (e->finish == FINISH_ERROR) {
        fail(x, g, &e->error);
    } else if (e->finish == FINISH_CANCELLED) {
        struct error err;
        (void)error_set(&err, STATUS_CANCELLED, "the request was cancelled");
        fail(x, g, &err);
    } else {
        if (e->repeats)
            request_log_notice(x->server,
                               "%s repeats itself: ended by --loop-guard after %d tokens", g->id,
                               e->usage.completion_tokens);
        g->dialect->choice_end(x, g, i);
    }
}

static void pump_choice(struct exchange *x, struct generation *g, int32_t i)
{
    struct event e;
    struct generation_choice *c = &g->choice[i];
    while (!c->done && x->out.len < FRAMES_AHEAD && request_next(c->request, &e)) {
        if (e.kind == EVENT_PROMPT && g->dialect->prompt) {
            g->dialect->prompt(x, g, i, &e);
        } else if (e.kind == EVENT_TOKEN) {
            if (g->first_token == 0)
                g->first_token = clock_seconds();
            g->dialect->token(x, g, i, &e);
        } else if (e.kind == EVENT_DONE) {
            choice_done(x, g, i, &e);
        }
    }
}

static void pump(struct exchange *x)
{
    struct generation *g = x->state;
    if (g->n_done == g->n_choices)
        return;
    const char *why = exchange_stop_reason(x);
    if (why && !g->why)
        cancel(x, why);
    for (int32_t i = 0; i < g->n_choices && g->n_done < g->n_choices; i++)
        pump_choice(x, g, i);
    if (g->n_done < g->n_choices || x->phase == EXCHANGE_REPLY || x->stream_ended)
        return;
    fill_row(x, g);
    g->dialect->end(x, g);
}

struct generation *generation_new(struct exchange *x, const struct generation_dialect *dialect,
                                  const char *id_prefix)
{
    struct generation *g = mem_new(struct generation);
    g->dialect = dialect;
    arena_init(&g->arena, 0);
    server_random_id(g->id, sizeof g->id, id_prefix);
    g->created = clock_unix();
    g->n_logprobs = -1;
    x->state = g;
    x->source = (struct exchange_source){ pump, release, cancel };
    return g;
}

static void wake(void *user)
{
    exchange_wake(user);
}

static enum status check_ceiling(struct exchange *x, struct generation *g, int32_t *max_tokens,
                                 struct error *err)
{
    const struct server_options *o = &x->server->options;
    *max_tokens = g->fields.max_tokens ? g->fields.max_tokens : o->max_tokens;
    if (!*max_tokens)
        *max_tokens = exchange_model(x)->default_max_tokens;
    if (!o->max_output_tokens)
        return STATUS_OK;
    if (g->fields.max_tokens > o->max_output_tokens)
        return error_set(err, STATUS_INVALID,
                         "max_tokens is %d, more than this server's ceiling of %d",
                         g->fields.max_tokens, o->max_output_tokens);
    if (*max_tokens == 0 || *max_tokens > o->max_output_tokens)
        *max_tokens = o->max_output_tokens;
    return STATUS_OK;
}

/* The request's own, at most its key's, else its key's, else the middle. */
static enum status choose_priority(const struct exchange *x, struct generation *g,
                                   struct error *err)
{
    int *asked = &g->fields.priority, allowed = x->key ? x->key->priority : -1;
    if (allowed >= 0 && *asked > allowed)
        return error_set(err, STATUS_INVALID, "priority is %d, more than the %d of this API key",
                         *asked, allowed);
    if (*asked < 0)
        *asked = allowed >= 0 ? allowed : PRIORITY_DEFAULT;
    return STATUS_OK;
}

static enum status submit(struct exchange *x, struct generation *g, int32_t max_tokens,
                          struct error *err)
{
    struct server *s = x->server;
    struct sampling sampling = exchange_model(x)->defaults;
    sampling_merge(&sampling, &s->options.sampling);
    sampling_merge(&sampling, &g->fields.sampling);
    struct request_options choice[LIMIT_N];
    struct request *request[LIMIT_N];
    int32_t n = g->fields.n;
    for (int32_t p = 0; p < g->n_prompts; p++) {
        for (int32_t i = 0; i < n; i++) {
            choice[i] = (struct request_options){
                .model = x->served->model, .tokens = g->prompts[p].ids,
                .n_tokens = (int32_t)g->prompts[p].n, .sampling = sampling,
                .max_tokens = max_tokens, .min_tokens = g->fields.min_tokens,
                .ignore_eos = g->fields.ignore_eos, .stop = g->fields.stop,
                .n_stop = g->fields.n_stop, .n_logprobs = g->n_logprobs,
                .echo_logprobs = g->echo_logprobs, .client = x->client, .name = g->id,
                .priority = g->fields.priority, .lookup = g->fields.lookup,
                .session = g->fields.session, .session_strict = g->fields.session_strict,
                .no_reuse = !g->fields.cache_prompt,
                .script = g->script.ptr ? &g->script : NULL, .notify = wake, .notify_user = x,
            };
            choice[i].sampling.seed += (uint64_t)i; /* choices differ, and repeat */
        }
        TRY(engine_submit_group(s->engine, choice, n, request, err));
        for (int32_t i = 0; i < n; i++)
            g->choice[p * n + i].request = request[i];
    }
    return STATUS_OK;
}

/* The wording is what coding agents look for when they decide to compact a conversation. */
static bool prompts_fit(struct exchange *x, const struct generation *g)
{
    int32_t context = exchange_model(x)->context;
    for (int32_t i = 0; i < g->n_prompts; i++) {
        if (g->prompts[i].n < (size_t)context)
            continue;
        x->row.prompt_tokens = (int64_t)g->prompts[i].n;
        exchange_error(x, 400, NULL, "context_length_exceeded",
                       "prompt is too long: %zu tokens > %d maximum (context_length_exceeded: the "
                       "request exceeds the available context size)",
                       g->prompts[i].n, context - 1);
        return false;
    }
    return true;
}

/* Several workers may be here at once: the count never passes the limit. */
static bool enter(struct server *s)
{
    int now = atomic_load(&s->n_generations);
    do {
        if (now >= s->options.concurrency)
            return false;
    } while (!atomic_compare_exchange_weak(&s->n_generations, &now, now + 1));
    return true;
}

bool generation_start(struct exchange *x, struct generation *g)
{
    struct error err = { 0 };
    int32_t max_tokens = 0;
    if (!prompts_fit(x, g))
        return false;
    if (check_ceiling(x, g, &max_tokens, &err) != STATUS_OK) {
        exchange_error(x, 400, "max_tokens", NULL, "%s", err.message);
        return false;
    }
    if (choose_priority(x, g, &err) != STATUS_OK) {
        exchange_error(x, 400, "priority", NULL, "%s", err.message);
        return false;
    }
    if (g->fields.session && g->n_prompts != 1) {
        exchange_error(x, 400, "session", NULL, "session: expected one prompt, found %d",
                       g->n_prompts);
        return false;
    }
    if (!enter(x->server)) {
        exchange_error(x, 429, NULL, NULL,
                       "%d requests are running or waiting, as many as this "
                       "server takes",
                       x->server->options.concurrency);
        return false;
    }
    g->n_choices = g->n_prompts * g->fields.n;
    g->choice = mem_array(struct generation_choice, (size_t)g->n_choices);
    for (int32_t i = 0; i < g->n_choices; i++) {
        g->choice[i].prompt = i / g->fields.n;
        strbuf_init(&g->choice[i].text, LIMIT_REPLY_BYTES);
    }
    if (submit(x, g, max_tokens, &err) != STATUS_OK) {
        if (err.status == STATUS_CONFLICT)
            exchange_error(x, 409, "session", "session_conflict", "%s", err.message);
        else if (err.status == STATUS_DIVERGED)
            exchange_error(x, 409, "session", "session_diverged", "%s", err.message);
        else
            exchange_error_from(x, &err);
        return false;
    }
    x->phase = g->fields.stream ? EXCHANGE_STREAM : EXCHANGE_WAITING;
    return true;
}

struct request_usage generation_usage(const struct generation *g)
{
    struct request_usage sum = { 0 };
    for (int32_t i = 0; i < g->n_choices; i++) {
        const struct request_usage *u = &g->choice[i].usage;
        if (i % g->fields.n == 0) {
            sum.prompt_tokens += u->prompt_tokens;
            sum.cached_tokens += u->cached_tokens;
            sum.cache_source = MAX(sum.cache_source, u->cache_source);
        }
        sum.completion_tokens += u->completion_tokens;
        sum.drafted_tokens += u->drafted_tokens;
        sum.accepted_tokens += u->accepted_tokens;
        sum.queue_ms = MAX(sum.queue_ms, u->queue_ms);
        sum.prompt_ms = MAX(sum.prompt_ms, u->prompt_ms);
        sum.first_token_ms = MAX(sum.first_token_ms, u->first_token_ms);
        sum.decode_ms = MAX(sum.decode_ms, u->decode_ms);
    }
    return sum;
}

json_t *generation_usage_json(const struct generation *g)
{
    struct request_usage u = generation_usage(g);
    return json_pack("{s:i,s:i,s:i,s:{s:i},s:{s:i}}", "prompt_tokens", u.prompt_tokens,
                     "completion_tokens", u.completion_tokens, "total_tokens",
                     u.prompt_tokens + u.completion_tokens, "prompt_tokens_details",
                     "cached_tokens", u.cached_tokens, "completion_tokens_details",
                     "reasoning_tokens", 0);
}

static double rate(int32_t n, double ms)
{
    return ms > 0 ? 1000.0 * n / ms : 0.0;
}

json_t *generation_timings_json(const struct generation *g)
{
    struct request_usage u = generation_usage(g);
    int32_t read = u.prompt_tokens - u.cached_tokens;
    return json_pack("{s:i,s:f,s:f,s:i,s:f,s:f,s:i,s:s?,s:i,s:i,s:f,s:f}", "prompt_n", read,
                     "prompt_ms", u.prompt_ms, "prompt_per_second", rate(read, u.prompt_ms),
                     "predicted_n", u.completion_tokens, "predicted_ms", u.decode_ms,
                     "predicted_per_second", rate(u.completion_tokens, u.decode_ms), "cache_n",
                     u.cached_tokens, "cache_source", cache_source_name(u.cache_source), "draft_n",
                     u.drafted_tokens, "draft_n_accepted", u.accepted_tokens, "ttft_ms",
                     u.first_token_ms, "queue_ms", u.queue_ms);
}

const char *generation_finish_name(enum finish_reason reason)
{
    switch (reason) {
    case FINISH_STOP:
        return "stop";
    case FINISH_LENGTH:
        return "length";
    case FINISH_CANCELLED:
        return "cancelled";
    case FINISH_ERROR:
        break;
    }
    return "error";
}
