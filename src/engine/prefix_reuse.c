#include "base/strbuf.h"
#include "base/system_memory.h"
#include "engine/scheduler.h"
#include "engine/scheduler_internal.h"
#include "engine/session_table.h"
#include "engine/state_fingerprint.h"

#define CHECKPOINT_INTERVAL 256
/* A prompt is read in chunks of about so many rows: what a token of it costs. */
#define COST_ROWS 64
#define HOST_CACHE_MOST (8ll << 30)
/* Without a host cache, families with fixed state keep this much for their checkpoints. */
#define CHECKPOINT_BYTES (64ll << 20)
/* Shorter turns are read again before they are found on disk. */
#define SAVE_FEWEST 8
/* Tokens and bytes of text shown on both sides of a miss. */
#define MISS_TOKENS 8
#define MISS_BYTES 160

int64_t host_cache_budget(const struct engine_options *o)
{
    if (o->cache_bytes < 0 || o->no_reuse)
        return 0;
    if (o->cache_bytes > 0)
        return o->cache_bytes;
    struct system_memory memory;
    system_memory_read("", &memory);
    return MIN((int64_t)MIN(memory.usable_bytes, (uint64_t)INT64_MAX) / 8, HOST_CACHE_MOST);
}

void prefix_reuse_init(struct scheduler *s)
{
    struct state_pool *pool = s->model->pool;
    s->reuses = !s->engine->options.no_reuse;
    if (!s->reuses)
        return;
    prefix_tree_init(&s->prefixes, pool, 0);
    scheduler_set_host_cache(s, s->engine->host_cache_bytes);
    struct engine *e = s->engine;
    if (!e->disk)
        return;
    struct prefix_tree *t = &s->prefixes;
    struct state_shape shape = {
        .fingerprint = state_fingerprint(s->model), .page_tokens = STATE_PAGE_TOKENS,
        .n_vocab = s->model->model->shape.n_vocab,
        .bytes = { t->page_bytes, t->sliding_bytes, t->slot_bytes },
    };
    prefix_disk_init(&s->disk, e->disk, t, &shape, e->options.log, &e->metrics);
    s->disk.model = s->model->name ? s->model->name : "";
}

void scheduler_set_host_cache(struct scheduler *s, int64_t bytes)
{
    bool has_fixed = s->model->pool->has_fixed;
    if (s->reuses)
        prefix_tree_limit(&s->prefixes, has_fixed ? MAX(bytes, CHECKPOINT_BYTES) : bytes);
}

void prefix_reuse_release(struct scheduler *s)
{
    prefix_disk_release(&s->disk);
    prefix_tree_release(&s->prefixes);
}

void prefix_reuse_measure(struct scheduler *s)
{
    struct engine_metrics *metrics = &s->engine->metrics;
    const struct prefix_counts *now = &s->prefixes.counts, *before = &s->counted;
    metrics_count(metrics, COUNTER_EVICTIONS_PAGES,
                  now->spilled_pages + now->dropped_pages - before->spilled_pages -
                      before->dropped_pages);
    metrics_count(metrics, COUNTER_EVICTIONS_HOST, now->dropped_host - before->dropped_host);
    s->counted = *now;
    double seconds = pass_cost_seconds(&s->cost, COST_ROWS);
    if (seconds > 0)
        s->prefixes.seconds_per_token = seconds / COST_ROWS;
}

/* Positions of its own make a state that its tokens do not describe. */
static bool may_reuse(const struct scheduler *s, const struct request *r)
{
    return s->reuses && !r->positions && !r->options.no_reuse;
}

/* The last token is always computed: its logits are wanted. So are those of whoever asked. */
static int32_t most_reusable(const struct request *r)
{
    if (r->options.echo_logprobs)
        return 0;
    int32_t most = r->n_tokens - 1;
    return r->options.prompt_logits ? MIN(most, r->options.prompt_logits_from) : most;
}

static int32_t interval(const struct scheduler *s)
{
    int32_t n = s->engine->options.checkpoint_interval;
    n = n > 0 ? n : CHECKPOINT_INTERVAL;
    return (n + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS * STATE_PAGE_TOKENS;
}

/* Where a prompt that shares n tokens with another may go on from. */
static int32_t joint(const struct scheduler *s, int32_t n)
{
    int32_t step = s->model->pool->has_fixed ? interval(s) : STATE_PAGE_TOKENS;
    return n / step * step;
}

static void text_of(const struct request *r, const int32_t *tokens, int32_t n, struct strbuf *out)
{
    strbuf_init(out, MISS_BYTES);
    const struct tokenizer *t = r->detokenizer.tokenizer;
    for (int32_t i = 0; i < MIN(n, MISS_TOKENS) && t; i++)
        strbuf_add(out, tokenizer_bytes(t, tokens[i]));
}

/* Before anything is taken over: making room for it may remove the node that differs. */
static void log_miss(struct scheduler *s, const struct request *r)
{
    if (!log_wants(s->engine->options.log, LOG_DEBUG))
        return;
    struct prefix_match m = prefix_tree_find(&s->prefixes, r->tokens, most_reusable(r));
    if (!m.differs)
        return;
    struct strbuf known, asked;
    text_of(r, m.differs->token + m.differs_at, m.differs->n_tokens - m.differs_at, &known);
    text_of(r, r->tokens + m.n_common, r->n_tokens - m.n_common, &asked);
    log_write(s->engine->options.log, LOG_DEBUG,
              "prefix: %d of %d tokens reusable, %d alike; then known \"%.*s\", asked \"%.*s\"",
              m.n_tokens, r->n_tokens, m.n_common, STR_ARG(strbuf_str(&known)),
              STR_ARG(strbuf_str(&asked)));
    strbuf_release(&known);
    strbuf_release(&asked);
}

static void count_hit(struct scheduler *s, struct request *r, enum cache_source source,
                      int32_t n_tokens)
{
    static const enum engine_counter hits[] = {
        [CACHE_LIVE] = COUNTER_HITS_LIVE,       [CACHE_PAGES] = COUNTER_HITS_PAGES,
        [CACHE_HOST] = COUNTER_HITS_HOST,       [CACHE_DISK] = COUNTER_HITS_DISK,
        [CACHE_SESSION] = COUNTER_HITS_SESSION,
    };
    metrics_count(&s->engine->metrics, hits[source], 1);
    metrics_count(&s->engine->metrics, COUNTER_CACHED_TOKENS, (uint64_t)n_tokens);
    if (r->preempted)
        return;
    r->cached_tokens += n_tokens;
    r->cache_source = MAX(r->cache_source, source);
}

/* `source`: where it was before it came into the tree. */
static enum status take(struct scheduler *s, struct request *r, struct prefix_match *match,
                        enum cache_source source, struct error *err)
{
    int32_t had = r->sequence->n_past;
    bool from_host;
    if (had > 0)
        sequence_empty(r->sequence, s->model->pool);
    TRY(prefix_tree_take(&s->prefixes, r->tokens, most_reusable(r), r->sequence, match, &from_host,
                         err));
    int32_t gained = MAX(MIN(match->n_tokens, r->n_prompt) - had, 0);
    if (had > 0 && match->n_tokens == 0 && !r->preempted) {
        r->cached_tokens = 0; /* pages were missing: it is read from its first token */
        r->cache_source = CACHE_NONE;
    }
    if (gained > 0)
        count_hit(s, r, from_host ? MAX(source, CACHE_HOST) : source, gained);
    return STATUS_OK;
}

/* True: something of its beginning is on the way from disk. Once for each request: what did not
 * come then is read. */
static bool wait_for_disk(struct scheduler *s, struct request *r)
{
    r->waits_fetch = false;
    if (r->fetched || r->preempted)
        return false;
    r->fetch = prefix_disk_fetch(&s->disk, r->tokens, most_reusable(r), &r->waits_fetch);
    return r->fetch || r->waits_fetch;
}

/* False: it goes on waiting. */
static bool fetch_is_over(struct scheduler *s, struct request *r)
{
    enum cache_source source = CACHE_PAGES;
    if (r->fetch) {
        if (!prefix_fetch_over(r->fetch))
            return false;
        if (prefix_fetch_blocks(r->fetch) > 0)
            source = r->session ? CACHE_SESSION : CACHE_DISK;
        prefix_reuse_forget(s, r);
        r->fetched = true;
    } else if (wait_for_disk(s, r)) {
        return false;
    }
    struct prefix_match match;
    struct error err = { 0 };
    if (take(s, r, &match, source, &err) != STATUS_OK)
        log_write(s->engine->options.log, LOG_WARNING, "prefix: %s", err.message);
    return true;
}

void prefix_reuse_forget(struct scheduler *s, struct request *r)
{
    prefix_disk_drop_fetch(&s->disk, r->fetch);
    r->fetch = NULL;
    r->waits_fetch = false;
}

void prefix_reuse_step(struct scheduler *s)
{
    prefix_disk_step(&s->disk);
}

enum status prefix_reuse_attach(struct scheduler *s, struct request *r, struct error *err)
{
    if (!may_reuse(s, r) || most_reusable(r) == 0)
        return STATUS_OK;
    struct prefix_match match;
    metrics_count(&s->engine->metrics, COUNTER_LOOKUPS, 1);
    log_miss(s, r);
    if (wait_for_disk(s, r))
        return STATUS_OK;
    return take(s, r, &match, CACHE_PAGES, err);
}

static int32_t common(const struct request *a, const struct request *b)
{
    int32_t n = MIN(a->n_tokens, b->n_tokens), i = 0;
    while (i < n && a->tokens[i] == b->tokens[i])
        i++;
    return i;
}

/* Who has read more of it goes first, of equals the one that came first: nobody waits in a
 * circle. A request that may have to wait for its own reader is not waited for. */
static bool leads(const struct scheduler *s, int32_t a, int32_t b)
{
    const struct request *first = s->running[a], *other = s->running[b];
    int32_t p = first->sequence->n_past, q = other->sequence->n_past;
    if (!may_reuse(s, first) || first->prompt_done || first->options.echo_logprobs ||
        first->options.priority < other->options.priority || atomic_load(&first->cancelled))
        return false;
    return p > q || (p == q && a < b);
}

static bool must_wait(const struct scheduler *s, int32_t index)
{
    const struct request *r = s->running[index];
    int32_t past = r->sequence->n_past;
    for (int32_t i = 0; i < s->n_running; i++) {
        if (i == index || !leads(s, i, index))
            continue;
        int32_t until = joint(s, MIN(common(s->running[i], r), most_reusable(r)));
        if (until > past && s->running[i]->sequence->n_past < until)
            return true;
    }
    return false;
}

static bool is_ready(struct scheduler *s, int32_t index)
{
    struct request *r = s->running[index];
    if (!may_reuse(s, r) || r->prompt_done || most_reusable(r) == 0)
        return true;
    if ((r->fetch || r->waits_fetch) && !fetch_is_over(s, r))
        return false;
    if (must_wait(s, index)) {
        r->waits_prefix = true;
        return false;
    }
    if (!r->waits_prefix)
        return true;
    r->waits_prefix = false;
    struct prefix_match match = prefix_tree_find(&s->prefixes, r->tokens, most_reusable(r));
    struct error err = { 0 };
    if (match.n_tokens > r->sequence->n_past && take(s, r, &match, CACHE_LIVE, &err) != STATUS_OK)
        log_write(s->engine->options.log, LOG_WARNING, "prefix: %s", err.message);
    return true;
}

enum status prefix_reuse_ready(struct scheduler *s, int32_t index, bool *ready, struct error *err)
{
    const struct request *r = s->running[index];
    *ready = is_ready(s, index);
    if (!*ready || !r->session || r->prompt_done)
        return STATUS_OK;
    return session_check(disk_store_sessions(s->engine->disk), r->session, err);
}

int32_t prefix_reuse_cut(const struct scheduler *s, const struct request *r, int32_t n)
{
    if (!s->model->pool->has_fixed || !may_reuse(s, r))
        return n;
    int32_t step = interval(s);
    return MIN(n, step - r->sequence->n_past % step);
}

/* Fixed state is kept at the interval and where the answer begins. */
static bool wants_checkpoint(const struct scheduler *s, const struct request *r, int32_t n)
{
    return s->model->pool->has_fixed && (n % interval(s) == 0 || n == r->n_prompt);
}

void prefix_reuse_note(struct scheduler *s, struct request *r, int32_t n)
{
    int32_t past = r->sequence->n_past, now = past + n;
    if (!may_reuse(s, r))
        return;
    struct error err = { 0 };
    if (wants_checkpoint(s, r, now)) {
        if (prefix_tree_add_end(&s->prefixes, r->tokens, now, r->sequence, true, &err) != STATUS_OK)
            log_write(s->engine->options.log, LOG_WARNING, "prefix: %s", err.message);
    } else if (now / STATE_PAGE_TOKENS > past / STATE_PAGE_TOKENS) {
        prefix_tree_add(&s->prefixes, r->tokens, now, r->sequence);
    }
}

void prefix_reuse_note_answer(struct scheduler *s, struct request *r)
{
    if (s->model->pool->has_fixed && r->sequence->n_past % interval(s) == 0)
        prefix_reuse_note(s, r, 0);
}

void prefix_reuse_keep(struct scheduler *s, struct request *r)
{
    int32_t n = r->sequence->n_past;
    if (!may_reuse(s, r) || n == 0)
        return;
    struct error err = { 0 };
    if (prefix_tree_add_end(&s->prefixes, r->tokens, n, r->sequence, !r->sequence->spoiled, &err) !=
        STATUS_OK)
        log_write(s->engine->options.log, LOG_WARNING, "prefix: %s", err.message);
}

void prefix_reuse_save(struct scheduler *s, const struct request *r, enum finish_reason finish)
{
    /* Half a prompt is less than what the session had. */
    bool is_turn = finish != FINISH_CANCELLED || r->prompt_done;
    struct session *session = is_turn ? r->session : NULL;
    if (may_reuse(s, r) && (session || r->sequence->n_past >= SAVE_FEWEST))
        prefix_disk_save(&s->disk, r->tokens, r->sequence->n_past, session);
}
