#include "engine/scheduler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/answer.h"
#include "formats/model_source.h"

/* Rows of prompts in one pass while answers are being written: the gap between two tokens. */
#define CHUNK_BESIDE_ANSWERS 128

/* What one resident request does in the pass that is being built. */
struct plan_row {
    int32_t n_rows, first_output, first_index;
    enum pass_outputs outputs;
};

struct scheduler {
    struct engine *engine;
    struct engine_model *model;
    struct pass pass;
    struct sampler_scratch *sampler;
    struct sequence *sequences; /* [n_sequences], handed out through `idle` */
    struct sequence **idle;
    int32_t n_idle, n_sequences;
    struct request **running;   /* [n_running], in order of admission */
    struct plan_row *plan;      /* [n_running] */
    int32_t n_running, turn;    /* turn: whose prompt goes first */
    struct request *waiting;    /* a list, oldest first */
    int32_t n_waiting;
};

enum status scheduler_new(struct engine_model *m, struct scheduler **out, struct error *err)
{
    struct scheduler *s = mem_new(struct scheduler);
    size_t n = (size_t)m->sizes.state.n_sequences;
    s->engine = m->engine;
    s->model = m;
    enum status status =
        pass_init(&s->pass, m->model, m->sizes.pass, m->sizes.scratch_bytes, err);
    if (status != STATUS_OK) {
        mem_free(s);
        return status;
    }
    s->sampler = sampler_scratch_new(m->model->shape.n_vocab);
    s->n_sequences = m->sizes.state.n_sequences;
    s->sequences = mem_array(struct sequence, n);
    s->idle = mem_array(struct sequence *, n);
    s->running = mem_array(struct request *, n);
    s->plan = mem_array(struct plan_row, n);
    for (int32_t i = 0; i < s->n_sequences; i++) {
        sequence_init(&s->sequences[i], m->pool);
        s->idle[s->n_idle++] = &s->sequences[i];
    }
    *out = s;
    return STATUS_OK;
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    CHECK(s->n_running == 0 && !s->waiting);
    for (int32_t i = 0; i < s->n_sequences; i++)
        sequence_release(&s->sequences[i]);
    pass_release(&s->pass);
    sampler_scratch_free(s->sampler);
    mem_free(s->sequences);
    mem_free(s->idle);
    mem_free(s->running);
    mem_free(s->plan);
    mem_free(s);
}

/* --- the queue ------------------------------------------------------------------------------ */

static void queue_back(struct scheduler *s, struct request *r)
{
    struct request **end = &s->waiting;
    while (*end)
        end = &(*end)->next;
    r->next = NULL;
    *end = r;
    s->n_waiting++;
}

static void queue_front(struct scheduler *s, struct request *r)
{
    r->next = s->waiting;
    s->waiting = r;
    s->n_waiting++;
}

static struct request *queue_take(struct scheduler *s)
{
    struct request *r = s->waiting;
    s->waiting = r->next;
    r->next = NULL;
    s->n_waiting--;
    return r;
}

void scheduler_add(struct scheduler *s, struct request *r)
{
    queue_back(s, r);
}

/* Followers that could not fork go their own way: each reads the prompt itself. */
static void release_followers(struct scheduler *s, struct request *leader)
{
    while (leader->followers) {
        struct request *r = leader->followers;
        leader->followers = r->next;
        queue_back(s, r);
    }
}

/* --- residence ------------------------------------------------------------------------------ */

static struct sequence *take_sequence(struct scheduler *s, struct error *err)
{
    if (s->n_idle == 0)
        return NULL;
    struct sequence *q = s->idle[s->n_idle - 1];
    if (sequence_open(q, s->model->pool, err) != STATUS_OK)
        return NULL;
    s->n_idle--;
    return q;
}

static void give_back_sequence(struct scheduler *s, struct request *r)
{
    if (!r->sequence)
        return;
    sequence_close(r->sequence, s->model->pool);
    s->idle[s->n_idle++] = r->sequence;
    r->sequence = NULL;
}

static void remove_running(struct scheduler *s, int32_t index)
{
    for (int32_t i = index; i + 1 < s->n_running; i++) {
        s->running[i] = s->running[i + 1];
        s->plan[i] = s->plan[i + 1];
    }
    s->n_running--;
    if (s->turn > index)
        s->turn--;
}

/* The request is over; it must be in no list any more. */
static void end_request(struct scheduler *s, struct request *r, enum finish_reason finish,
                        const struct error *err)
{
    give_back_sequence(s, r);
    release_followers(s, r);
    enum engine_counter outcome = finish == FINISH_ERROR       ? COUNTER_FAILED
                                  : finish == FINISH_CANCELLED ? COUNTER_CANCELLATIONS
                                                               : COUNTER_DONE;
    metrics_count(&s->engine->metrics, outcome, 1);
    atomic_fetch_sub(&s->engine->n_admitted, 1);
    request_finish(r, finish, err);
    request_unref(r);
}

static void end_running(struct scheduler *s, int32_t index, enum finish_reason finish,
                        const struct error *err)
{
    struct request *r = s->running[index];
    remove_running(s, index);
    end_request(s, r, finish, err);
}

static void end_cancelled_in(struct scheduler *s, struct request **list, int32_t *count)
{
    while (*list) {
        struct request *r = *list;
        if (!atomic_load(&r->cancelled)) {
            list = &r->next;
            continue;
        }
        *list = r->next;
        r->next = NULL;
        if (count)
            --*count;
        end_request(s, r, FINISH_CANCELLED, NULL);
    }
}

static void end_cancelled(struct scheduler *s)
{
    for (int32_t i = s->n_running - 1; i >= 0; i--) {
        end_cancelled_in(s, &s->running[i]->followers, NULL);
        if (atomic_load(&s->running[i]->cancelled))
            end_running(s, i, FINISH_CANCELLED, NULL);
    }
    for (struct request *r = s->waiting; r; r = r->next)
        end_cancelled_in(s, &r->followers, NULL);
    end_cancelled_in(s, &s->waiting, &s->n_waiting);
}

static void make_running(struct scheduler *s, struct request *r, struct sequence *q)
{
    r->sequence = q;
    if (r->admitted_ns == 0)
        r->admitted_ns = clock_ns();
    s->running[s->n_running++] = r;
}

/* First come, first served: the head of the queue waits for its pages and nobody overtakes it. */
static void admit(struct scheduler *s)
{
    const struct state_pool *pool = s->model->pool;
    while (s->waiting && s->n_idle > 0) {
        struct request *r = s->waiting;
        int32_t needed = (r->n_tokens + STATE_PAGE_TOKENS) / STATE_PAGE_TOKENS;
        needed = MIN(needed, pool->pages_per_sequence);
        if (s->n_running > 0 && pool->has_full && pool->full.n_free < needed)
            return;
        struct error err = { 0 };
        struct sequence *q = take_sequence(s, &err);
        if (!q) {
            if (err.status != STATUS_OK)
                end_request(s, queue_take(s), FINISH_ERROR, &err);
            return;
        }
        make_running(s, queue_take(s), q);
    }
}

/* The state goes, the tokens stay: it is read again when there is room. */
static void preempt(struct scheduler *s, int32_t index)
{
    struct request *r = s->running[index];
    remove_running(s, index);
    give_back_sequence(s, r);
    r->preempted = true;
    metrics_count(&s->engine->metrics, COUNTER_PREEMPTIONS, 1);
    queue_front(s, r);
}

/* --- which rows ----------------------------------------------------------------------------- */

static int32_t unread(const struct request *r)
{
    return r->n_tokens - r->sequence->n_past;
}

/* Prompt rows from this one on have to become outputs. */
static int32_t first_wanted_row(const struct request *r)
{
    if (r->options.echo_logprobs)
        return 0;
    return r->options.prompt_logits ? r->options.prompt_logits_from : r->n_prompt;
}

static void plan_answers(struct scheduler *s, int32_t *rows_left, int32_t *outputs_left)
{
    for (int32_t i = 0; i < s->n_running; i++) {
        struct request *r = s->running[i];
        s->plan[i] = (struct plan_row){ .first_index = r->sequence->n_past };
        if (unread(r) != 1 || !r->prompt_done || request_room(r, 1) < 1 || *rows_left == 0)
            continue;
        s->plan[i].n_rows = 1;
        s->plan[i].outputs = PASS_LAST_ROW;
        --*rows_left;
        --*outputs_left;
    }
}

static void plan_prompt(struct scheduler *s, int32_t i, int32_t *rows_left,
                        int32_t *outputs_left)
{
    struct request *r = s->running[i];
    struct plan_row *plan = &s->plan[i];
    int32_t n = MIN(unread(r), *rows_left), past = r->sequence->n_past;
    int32_t wanted = first_wanted_row(r);
    if (past < wanted && wanted < r->n_prompt)
        n = MIN(n, wanted - past);
    bool all = past >= wanted && past < r->n_prompt;
    bool last = n == unread(r) && !r->options.prompt_only;
    if (all) {
        n = MIN(n, *outputs_left);
        if (r->options.echo_logprobs)
            n = MIN(n, request_room(r, 3) - 2);
        n = MIN(n, r->n_prompt - past);
    } else if (last && (*outputs_left < 1 || request_room(r, 1) < 1)) {
        n--; /* all but the row that would be drawn from */
    }
    if (n <= 0)
        return;
    plan->n_rows = n;
    if (all)
        plan->outputs = PASS_ALL_ROWS;
    else
        plan->outputs = last && n == unread(r) ? PASS_LAST_ROW : PASS_NO_OUTPUT;
    *rows_left -= n;
    *outputs_left -= plan->outputs == PASS_ALL_ROWS ? n : plan->outputs == PASS_LAST_ROW;
}

static void plan_rows(struct scheduler *s)
{
    int32_t rows_left = s->pass.size.rows, outputs_left = s->pass.size.outputs;
    int32_t all_rows = rows_left;
    plan_answers(s, &rows_left, &outputs_left);
    if (rows_left < all_rows)
        rows_left = MIN(rows_left, CHUNK_BESIDE_ANSWERS);
    for (int32_t k = 0; k < s->n_running && rows_left > 0; k++) {
        int32_t i = (s->turn + k) % s->n_running;
        if (s->plan[i].n_rows == 0 && (unread(s->running[i]) > 1 || !s->running[i]->prompt_done))
            plan_prompt(s, i, &rows_left, &outputs_left);
    }
    s->turn = s->n_running > 0 ? (s->turn + 1) % s->n_running : 0;
}

/* Oldest first; who finds no page takes those of the newest. */
static void reserve_pages(struct scheduler *s)
{
    for (int32_t i = 0; i < s->n_running; i++) {
        struct request *r = s->running[i];
        struct error err = { 0 };
        enum status status = STATUS_OK;
        while (s->plan[i].n_rows > 0) {
            status = sequence_reserve(r->sequence, s->model->pool, s->plan[i].n_rows, &err);
            if (status != STATUS_EXHAUSTED)
                break;
            bool alone = s->n_running == 1;
            CHECK(!alone); /* the pool holds one whole context */
            int32_t newest = s->n_running - 1;
            preempt(s, newest);
            if (newest == i)
                return;
        }
        if (status != STATUS_OK)
            end_running(s, i--, FINISH_ERROR, &err);
    }
}

static int32_t build_batch(struct scheduler *s)
{
    int32_t n_rows = 0;
    pass_begin(&s->pass);
    for (int32_t i = 0; i < s->n_running; i++) {
        struct plan_row *plan = &s->plan[i];
        const struct request *r = s->running[i];
        if (plan->n_rows == 0)
            continue;
        plan->first_output =
            pass_add(&s->pass, r->sequence, r->tokens + r->sequence->n_past, plan->n_rows,
                     r->positions, r->n_prompt, plan->outputs);
        n_rows += plan->n_rows;
    }
    return n_rows;
}

/* --- the forward pass ----------------------------------------------------------------------- */

struct cancel_watch {
    struct scheduler *s;
    unsigned seen;
};

/* A pass is given up when those who left it make up half of its rows. What it wrote into pages
 * lies behind every n_past and is written again; fixed state could not be, so there all must
 * have left. */
static bool pass_is_moot(void *user)
{
    struct cancel_watch *watch = user;
    const struct scheduler *s = watch->s;
    if (atomic_load_explicit(&s->engine->stop_now, memory_order_relaxed))
        return true;
    unsigned seen = atomic_load_explicit(&s->engine->n_cancels, memory_order_relaxed);
    if (seen == watch->seen)
        return false;
    int32_t gone = 0, all = 0;
    for (int32_t i = 0; i < s->n_running; i++) {
        all += s->plan[i].n_rows;
        if (atomic_load(&s->running[i]->cancelled))
            gone += s->plan[i].n_rows;
    }
    watch->seen = seen;
    return s->model->pool->has_fixed ? gone == all : 2 * gone >= all && gone > 0;
}

static enum status run_forward(struct scheduler *s, struct error *err)
{
    struct cancel_watch watch = { s, 0 };
    watch.seen = atomic_load(&s->engine->n_cancels);
    end_cancelled(s);
    if (build_batch(s) == 0)
        return STATUS_END;
    struct engine *e = s->engine;
    uint64_t composed = e->dev->composed_ops;
    TRY(pass_run(&s->pass, s->model->pool, pass_is_moot, &watch, err));
    metrics_count(&e->metrics, COUNTER_COMPOSED_OPS, e->dev->composed_ops - composed);
    metrics_count(&e->metrics, COUNTER_PASSES, 1);
    metrics_measure(&e->metrics, HISTOGRAM_BATCH, s->pass.batch.n_sequences);
    const struct weight_file *file = s->model->source->weights;
    if (file && weight_file_damaged(file))
        return error_set(err, STATUS_IO, "%s: the model file was cut short or damaged while in "
                         "use; load it again", s->model->info.path);
    return STATUS_OK;
}

static void fail_batch(struct scheduler *s, const struct error *err)
{
    for (int32_t i = s->n_running - 1; i >= 0; i--)
        if (s->plan[i].n_rows > 0)
            end_running(s, i, FINISH_ERROR, err);
}

/* --- delivery ------------------------------------------------------------------------------- */

/* The prompt has just been read: the others of its group take its state and draw from the same
 * logits. */
static void fork_followers(struct scheduler *s, struct request *leader, const float *logits)
{
    while (leader->followers && s->n_idle > 0) {
        struct request *r = leader->followers;
        struct error err = { 0 };
        struct sequence *q = take_sequence(s, &err);
        if (!q)
            break;
        leader->followers = r->next;
        r->next = NULL;
        if (sequence_fork(leader->sequence, q, s->model->pool, &err) != STATUS_OK) {
            r->sequence = q;
            end_request(s, r, FINISH_ERROR, &err);
            continue;
        }
        make_running(s, r, q);
        s->plan[s->n_running - 1] = (struct plan_row){ 0 };
        r->cached_tokens = r->n_prompt;
        r->prompt_done = true;
        r->prompt_ns = clock_ns();
        enum finish_reason finish;
        if (answer_token(r, logits, s->sampler, &finish, &err))
            end_running(s, s->n_running - 1, finish, &err);
        else
            metrics_count(&s->engine->metrics, COUNTER_GENERATED_TOKENS, 1);
    }
    release_followers(s, leader);
}

/* Rows of the prompt were read. False: the request failed. */
static bool deliver_prompt(struct scheduler *s, struct request *r, const struct plan_row *plan,
                           struct error *err)
{
    for (int32_t k = 0; plan->outputs == PASS_ALL_ROWS && k < plan->n_rows; k++)
        if (!answer_prompt_row(r, plan->first_index + k,
                               pass_logits(&s->pass, plan->first_output + k), s->sampler, err))
            return false;
    if (r->sequence->n_past >= r->n_prompt) {
        r->prompt_done = true;
        if (r->prompt_ns == 0)
            r->prompt_ns = clock_ns();
    }
    request_progress(r, MIN(r->sequence->n_past, r->n_prompt));
    return true;
}

/* True: the request is over. */
static bool deliver(struct scheduler *s, struct request *r, const struct plan_row *plan,
                    enum finish_reason *finish, struct error *err)
{
    sequence_advance(r->sequence, s->model->pool, plan->n_rows);
    if (plan->first_index < r->n_prompt) {
        int32_t n_read = MIN(plan->n_rows, r->n_prompt - plan->first_index);
        metrics_count(&s->engine->metrics, COUNTER_PROMPT_TOKENS, (uint64_t)n_read);
        if (!deliver_prompt(s, r, plan, err)) {
            *finish = FINISH_ERROR;
            return true;
        }
    }
    if (unread(r) > 0)
        return false;
    if (r->options.prompt_only) {
        *finish = FINISH_LENGTH;
        return true;
    }
    int32_t last = plan->outputs == PASS_ALL_ROWS ? plan->n_rows - 1 : 0;
    const float *logits = pass_logits(&s->pass, plan->first_output + last);
    if (r->followers)
        fork_followers(s, r, logits);
    metrics_count(&s->engine->metrics, COUNTER_GENERATED_TOKENS, 1);
    return answer_token(r, logits, s->sampler, finish, err);
}

static void deliver_all(struct scheduler *s)
{
    /* Forks are appended behind n; they had their token already. */
    for (int32_t i = 0, n = s->n_running; i < n; i++) {
        struct plan_row plan = s->plan[i];
        struct request *r = s->running[i];
        enum finish_reason finish = FINISH_STOP;
        struct error err = { 0 };
        if (plan.n_rows == 0 || !deliver(s, r, &plan, &finish, &err))
            continue;
        end_running(s, i, finish, &err);
        i--;
        n--;
    }
}

bool scheduler_pass(struct scheduler *s)
{
    end_cancelled(s);
    admit(s);
    plan_rows(s);
    reserve_pages(s);
    struct error err = { 0 };
    enum status status = run_forward(s, &err);
    if (status == STATUS_OK)
        deliver_all(s);
    else if (status != STATUS_END && status != STATUS_CANCELLED)
        fail_batch(s, &err);
    return status != STATUS_END;
}

void scheduler_stop(struct scheduler *s)
{
    while (s->n_running > 0)
        end_running(s, s->n_running - 1, FINISH_CANCELLED, NULL);
    while (s->waiting)
        end_request(s, queue_take(s), FINISH_CANCELLED, NULL);
}

struct scheduler_counts scheduler_count(const struct scheduler *s)
{
    const struct page_group *full = &s->model->pool->full, *sliding = &s->model->pool->sliding;
    return (struct scheduler_counts){
        .n_running = s->n_running,
        .n_waiting = s->n_waiting,
        .pages_used = (full->n_pages - full->n_free) + (sliding->n_pages - sliding->n_free),
        .pages_all = full->n_pages + sliding->n_pages,
    };
}
