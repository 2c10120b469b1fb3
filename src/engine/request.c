#include "engine/request.h"

#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/disk_store.h"
#include "engine/engine_internal.h"
#include "engine/session_table.h"

/* One token's text is short; this bounds a hostile vocabulary. */
#define TEXT_MAX_BYTES (16u << 20)
#define TEXT_FIRST_BYTES 64

static void event_init(struct token_event *e, int32_t n_logprobs)
{
    strbuf_init(&e->text, TEXT_MAX_BYTES);
    if (n_logprobs > 0)
        e->top = mem_array(struct token_probability, (size_t)n_logprobs);
}

static void event_release(struct token_event *e)
{
    strbuf_release(&e->text);
    mem_free(e->top);
}

/* So that a decode step grows nothing. */
static void reserve_text(struct strbuf *b)
{
    static const char blank[TEXT_FIRST_BYTES];
    strbuf_append(b, blank, sizeof(blank));
    strbuf_clear(b);
}

static void copy_settings(struct request *r, const struct request_options *o)
{
    r->sampling = o->sampling;
    if (!r->sampling.has_seed)
        r->sampling.seed = rng_random_seed();
    r->bias = mem_copy(o->sampling.bias, (size_t)o->sampling.n_bias * sizeof(*r->bias));
    r->sampling.bias = r->bias;
    const struct engine_model_info *info = engine_model_info(o->model);
    r->forbidden = mem_array(int32_t, (size_t)(info->n_end_tokens + o->n_stop_tokens));
    for (int32_t i = 0; i < info->n_end_tokens; i++)
        r->forbidden[r->n_forbidden++] = info->end_tokens[i];
    for (int32_t i = 0; i < o->n_stop_tokens; i++)
        r->forbidden[r->n_forbidden++] = o->stop_tokens[i];
    r->options.stop_tokens = r->forbidden + info->n_end_tokens;
    r->options.stop = NULL;
    r->options.script = NULL;
    r->options.session = NULL;
    r->options.tokens = NULL;
    r->options.name = r->name = o->name ? mem_string(o->name, strlen(o->name)) : NULL;
    r->options.client = r->client = o->client ? mem_string(o->client, strlen(o->client)) : NULL;
    if (o->positions)
        r->positions = mem_copy(o->positions, (size_t)r->n_prompt * 3 * sizeof(*o->positions));
    r->options.positions = r->positions;
}

struct request *request_new(struct engine *engine, const struct request_options *o,
                            const int32_t *prompt, int32_t n_prompt)
{
    const struct engine_model_info *info = engine_model_info(o->model);
    struct request *r = mem_new(struct request);
    r->engine = engine;
    r->model = o->model;
    r->options = *o;
    r->n_prompt = r->n_tokens = n_prompt;
    r->limit = info->context;
    if (o->prompt_only)
        r->limit = n_prompt;
    else if (o->max_tokens > 0 && o->max_tokens < info->context - n_prompt)
        r->limit = n_prompt + o->max_tokens;
    copy_settings(r, o);
    r->tokens = mem_array(int32_t, (size_t)r->limit);
    memcpy(r->tokens, prompt, (size_t)n_prompt * sizeof(*prompt));
    if (info->tokenizer)
        detokenizer_init(&r->detokenizer, info->tokenizer, n_prompt == 0, !o->show_special);
    int32_t drafts = o->lookup != 0 ? o->lookup : engine->options.lookup;
    if (drafts > 0 && !o->prompt_only)
        speculation_init(&r->speculation, drafter_lookup_new(r->limit), drafts);
    stop_matcher_init(&r->stops, o->stop, o->n_stop);
    strbuf_init(&r->piece, TEXT_MAX_BYTES);
    reserve_text(&r->piece);
    for (int i = 0; i < REQUEST_RING; i++) {
        event_init(&r->ring[i], o->n_logprobs);
        reserve_text(&r->ring[i].text);
    }
    event_init(&r->current, o->n_logprobs);
    reserve_text(&r->current.text);
    r->stop_index = r->stop_token = -1;
    r->submitted_ns = clock_ns();
    atomic_init(&r->references, 2);
    atomic_init(&r->cancelled, false);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&r->notify_lock, NULL);
    return r;
}

static void let_session_go(struct request *r)
{
    if (r->session)
        session_let_go(disk_store_sessions(r->engine->disk), r->session);
    r->session = NULL;
}

void request_unref(struct request *r)
{
    if (atomic_fetch_sub(&r->references, 1) != 1)
        return;
    let_session_go(r);
    for (int i = 0; i < REQUEST_RING; i++)
        event_release(&r->ring[i]);
    event_release(&r->current);
    speculation_release(&r->speculation);
    stop_matcher_release(&r->stops);
    strbuf_release(&r->piece);
    token_list_release(&r->forced);
    mem_free(r->bias);
    mem_free(r->forbidden);
    mem_free(r->positions);
    mem_free(r->client);
    mem_free(r->name);
    mem_free(r->tokens);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->notify_lock);
    mem_free(r);
}

int32_t request_room(struct request *r, int32_t wanted)
{
    pthread_mutex_lock(&r->lock);
    int32_t room = REQUEST_RING - r->ring_count;
    r->starved = room < wanted;
    pthread_mutex_unlock(&r->lock);
    return room;
}

/* Only the engine thread adds, so the entry behind the last one stays free until published. */
struct token_event *request_entry(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    CHECK(r->ring_count < REQUEST_RING);
    struct token_event *e = &r->ring[(r->ring_first + r->ring_count) % REQUEST_RING];
    pthread_mutex_unlock(&r->lock);
    strbuf_clear(&e->text);
    e->n_top = 0;
    e->drawn = (struct token_probability){ -1, 0.0f };
    return e;
}

/* Not under r->lock: the owner may hold a lock of his own while he takes events. */
static void notify(struct request *r)
{
    if (!r->options.notify)
        return;
    pthread_mutex_lock(&r->notify_lock);
    if (!r->dropped)
        r->options.notify(r->options.notify_user);
    pthread_mutex_unlock(&r->notify_lock);
}

void request_publish(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    r->ring_count++;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    notify(r);
}

void request_progress(struct request *r, int32_t n_read)
{
    pthread_mutex_lock(&r->lock);
    r->progress_done = n_read;
    r->progress_waits = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    notify(r);
}

static double ms_between(uint64_t from, uint64_t to)
{
    return from && to > from ? (double)(to - from) / 1e6 : 0.0;
}

static void measure(struct engine_metrics *m, const struct request *r)
{
    const struct request_usage *u = &r->usage;
    metrics_measure(m, HISTOGRAM_QUEUE_WAIT, u->queue_ms * 1e-3);
    metrics_measure(m, HISTOGRAM_PHASE_QUEUE, u->queue_ms * 1e-3);
    if (r->prompt_ns)
        metrics_measure(m, HISTOGRAM_PHASE_PROMPT, u->prompt_ms * 1e-3);
    if (r->first_token_ns) {
        metrics_measure(m, HISTOGRAM_FIRST_TOKEN, u->first_token_ms * 1e-3);
        metrics_measure(m, HISTOGRAM_PHASE_DECODE, u->decode_ms * 1e-3);
    }
}

const char *cache_source_name(enum cache_source source)
{
    static const char *const names[] = { NULL, "live", "pages", "host", "disk", "session" };
    return names[source];
}

void request_finish(struct request *r, enum finish_reason finish, const struct error *err)
{
    uint64_t now = clock_ns();
    let_session_go(r); /* whoever sees the end may ask again */
    pthread_mutex_lock(&r->lock);
    r->finish = finish;
    if (err)
        r->error = *err;
    r->usage = (struct request_usage){
        .prompt_tokens = r->n_prompt,
        .cached_tokens = r->cached_tokens,
        .cache_source = r->cache_source,
        .completion_tokens = r->n_tokens - r->n_prompt,
        .drafted_tokens = r->n_drafted,
        .accepted_tokens = r->n_accepted,
        .queue_ms = ms_between(r->submitted_ns, r->admitted_ns ? r->admitted_ns : now),
        .prompt_ms = ms_between(r->admitted_ns, r->prompt_ns),
        .first_token_ms = ms_between(r->submitted_ns, r->first_token_ns),
        .decode_ms = ms_between(r->first_token_ns, r->last_token_ns),
    };
    measure(&r->engine->metrics, r);
    r->done = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    notify(r);
}

static void swap_events(struct token_event *a, struct token_event *b)
{
    struct token_event t = *a;
    *a = *b;
    *b = t;
}

static void fill_token_event(struct request *r, struct event *out)
{
    swap_events(&r->current, &r->ring[r->ring_first]);
    r->ring_first = (r->ring_first + 1) % REQUEST_RING;
    r->ring_count--;
    const struct token_event *e = &r->current;
    out->kind = e->kind;
    out->token = e->token;
    out->text = strbuf_str(&e->text);
    out->drawn = e->drawn;
    out->top = e->top;
    out->n_top = e->n_top;
    if (r->starved && r->ring_count <= REQUEST_RING / 2 && !r->done) {
        r->starved = false;
        engine_wake(r->engine);
    }
}

/* Under the lock. */
static bool take_event(struct request *r, struct event *out)
{
    *out = (struct event){ .token = -1, .stop_index = -1, .stop_token = -1 };
    out->prompt_all = r->n_prompt;
    out->prompt_done = r->progress_done;
    if (r->progress_waits) {
        r->progress_waits = false;
        out->kind = EVENT_PROGRESS;
        return true;
    }
    if (r->ring_count > 0) {
        fill_token_event(r, out);
        return true;
    }
    if (!r->done || r->done_taken)
        return false;
    r->done_taken = true;
    out->kind = EVENT_DONE;
    out->finish = r->finish;
    out->stop_index = r->stop_index;
    out->stop_token = r->stop_token;
    out->seed = r->sampling.seed;
    out->error = r->error;
    out->usage = r->usage;
    out->repeats = r->repeats;
    return true;
}

bool request_next(struct request *r, struct event *out)
{
    pthread_mutex_lock(&r->lock);
    bool taken = take_event(r, out);
    pthread_mutex_unlock(&r->lock);
    return taken;
}

bool request_wait(struct request *r, struct event *out)
{
    pthread_mutex_lock(&r->lock);
    bool taken = take_event(r, out);
    while (!taken && !r->done_taken) {
        pthread_cond_wait(&r->changed, &r->lock);
        taken = take_event(r, out);
    }
    pthread_mutex_unlock(&r->lock);
    return taken;
}

bool request_wait_for(struct request *r, struct event *out, int milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&r->lock);
    bool taken = take_event(r, out);
    int waited = 0;
    while (!taken && !r->done_taken && waited == 0) {
        waited = pthread_cond_timedwait(&r->changed, &r->lock, &until);
        taken = take_event(r, out);
    }
    pthread_mutex_unlock(&r->lock);
    return taken;
}

void request_cancel(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    if (!r->done && !atomic_exchange(&r->cancelled, true))
        engine_note_cancel(r->engine);
    pthread_mutex_unlock(&r->lock);
}

void request_drop(struct request *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->notify_lock);
    r->dropped = true;
    pthread_mutex_unlock(&r->notify_lock);
    request_cancel(r);
    request_unref(r);
}
