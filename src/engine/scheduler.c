#include "engine/scheduler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scheduler_internal.h"
#include "formats/model_source.h"

/* How often the file system is asked whether a mapped model was written to. */
#define LOOK_AT_FILE_NS 100000000u

enum status scheduler_new(struct engine_model *m, struct scheduler **out, struct error *err)
{
    struct scheduler *s = mem_new(struct scheduler);
    size_t n = (size_t)m->sizes.state.n_sequences;
    s->engine = m->engine;
    s->model = m;
    enum status status = pass_init(&s->pass, m->model, m->sizes.pass, m->sizes.scratch_bytes, err);
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
    slot_board_init(&s->board, s->n_sequences);
    for (int32_t i = 0; i < s->n_sequences; i++) {
        sequence_init(&s->sequences[i], m->pool);
        s->idle[s->n_idle++] = &s->sequences[i];
    }
    for (int32_t i = 0; i < m->model->n_weights; i++)
        s->reads_file |= !m->model->weights[i]->owned;
    prefix_reuse_init(s);
    *out = s;
    return STATUS_OK;
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    CHECK(s->n_running == 0 && s->queue.n == 0);
    prefix_reuse_release(s);
    for (int32_t i = 0; i < s->n_sequences; i++)
        sequence_release(&s->sequences[i]);
    request_queue_release(&s->queue);
    pass_release(&s->pass);
    sampler_scratch_free(s->sampler);
    mem_free(s->sequences);
    mem_free(s->idle);
    mem_free(s->running);
    mem_free(s->plan);
    slot_board_release(&s->board);
    mem_free(s);
}

void scheduler_add(struct scheduler *s, struct request *r)
{
    request_queue_add(&s->queue, r);
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
        plan->first_output = pass_add(&s->pass, r->sequence, r->tokens + r->sequence->n_past,
                                      plan->n_rows, r->positions, r->n_prompt, plan->outputs);
        n_rows += plan->n_rows;
    }
    return n_rows;
}

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

/* Rows of a file that was cut or written to in place would be wrong, not missing. */
static enum status check_file(struct scheduler *s, struct error *err)
{
    const struct weight_file *file = s->model->source->weights;
    uint64_t now = clock_ns();
    bool look = s->reads_file && now - s->looked_ns >= LOOK_AT_FILE_NS;
    if (weight_file_damaged(file) || (look && weight_file_changed(file)))
        return error_set(err, STATUS_IO,
                         "%s: the model file was cut short or written to while in "
                         "use; load it again",
                         s->model->info.path);
    if (look)
        s->looked_ns = now;
    return STATUS_OK;
}

static enum status run_forward(struct scheduler *s, struct error *err)
{
    struct cancel_watch watch = { s, 0 };
    watch.seen = atomic_load(&s->engine->n_cancels);
    residency_end_cancelled(s);
    if (build_batch(s) == 0)
        return STATUS_END;
    struct engine *e = s->engine;
    uint64_t composed = e->dev->composed_ops;
    double start = clock_seconds();
    TRY(pass_run(&s->pass, s->model->pool, pass_is_moot, &watch, err));
    pass_cost_note(&s->cost, s->pass.batch.n_rows, clock_seconds() - start);
    metrics_count(&e->metrics, COUNTER_COMPOSED_OPS, e->dev->composed_ops - composed);
    metrics_count(&e->metrics, COUNTER_PASSES, 1);
    metrics_measure(&e->metrics, HISTOGRAM_BATCH, s->pass.batch.n_sequences);
    return s->model->source->weights ? check_file(s, err) : STATUS_OK;
}

static void fail_batch(struct scheduler *s, const struct error *err)
{
    for (int32_t i = s->n_running - 1; i >= 0; i--)
        if (s->plan[i].n_rows > 0)
            residency_end(s, i, FINISH_ERROR, err);
}

/* The pass was given up: fixed state is somewhere between two tokens. */
static void spoil_batch(struct scheduler *s)
{
    for (int32_t i = 0; i < s->n_running; i++)
        if (s->plan[i].n_rows > 0)
            s->running[i]->sequence->spoiled = true;
}

bool scheduler_pass(struct scheduler *s)
{
    residency_end_cancelled(s);
    prefix_reuse_step(s);
    residency_admit(s);
    row_plan_make(s);
    residency_reserve(s);
    struct error err = { 0 };
    enum status status = run_forward(s, &err);
    if (status == STATUS_OK)
        delivery_run(s);
    else if (status == STATUS_CANCELLED)
        spoil_batch(s);
    else if (status != STATUS_END)
        fail_batch(s, &err);
    if (s->reuses)
        prefix_reuse_measure(s);
    return status != STATUS_END;
}

void scheduler_stop(struct scheduler *s)
{
    while (s->n_running > 0)
        residency_end(s, s->n_running - 1, FINISH_CANCELLED, NULL);
    struct request *r;
    while ((r = request_queue_next(&s->queue)) != NULL) {
        request_queue_remove(&s->queue, r);
        residency_end_unlisted(s, r, FINISH_CANCELLED, NULL);
    }
}

struct scheduler_counts scheduler_count(const struct scheduler *s)
{
    const struct page_group *full = &s->model->pool->full, *sliding = &s->model->pool->sliding;
    return (struct scheduler_counts){
        .n_running = s->n_running,
        .n_waiting = s->queue.n,
        .pages_used = (full->n_pages - full->n_free - full->n_idle) +
                      (sliding->n_pages - sliding->n_free - sliding->n_idle),
        .pages_all = full->n_pages + sliding->n_pages,
    };
}

int64_t scheduler_untouched(const struct scheduler *s)
{
    int64_t cache = s->reuses ? s->prefixes.host_budget - s->prefixes.counts.host_bytes : 0;
    return state_pool_untouched(s->model->pool) + pass_untouched(&s->pass) + MAX(cache, 0);
}

void scheduler_publish(struct scheduler *s)
{
    slot_board_publish(&s->board, s);
}

int32_t scheduler_slots(struct scheduler *s, struct engine_slot *out, int32_t max)
{
    return slot_board_read(&s->board, out, max);
}
