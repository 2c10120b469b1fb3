#include "base/clock.h"
#include "engine/scheduler_internal.h"

/* Followers that could not fork go their own way: each reads the prompt itself. */
void residency_release_followers(struct scheduler *s, struct request *leader)
{
    while (leader->followers) {
        struct request *r = leader->followers;
        leader->followers = r->next;
        request_queue_add(&s->queue, r);
    }
}

struct sequence *residency_take(struct scheduler *s, struct error *err)
{
    if (s->n_idle == 0)
        return NULL;
    struct sequence *q = s->idle[s->n_idle - 1];
    if (sequence_open(q, s->model->pool, err) != STATUS_OK)
        return NULL;
    s->n_idle--;
    return q;
}

static void give_back(struct scheduler *s, struct request *r)
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
void residency_end_unlisted(struct scheduler *s, struct request *r, enum finish_reason finish,
                            const struct error *err)
{
    give_back(s, r);
    residency_release_followers(s, r);
    enum engine_counter outcome = finish == FINISH_ERROR       ? COUNTER_FAILED
                                  : finish == FINISH_CANCELLED ? COUNTER_CANCELLATIONS
                                                               : COUNTER_DONE;
    metrics_count(&s->engine->metrics, outcome, 1);
    atomic_fetch_sub(&s->engine->n_admitted, 1);
    request_finish(r, finish, err);
    request_unref(r);
}

void residency_end(struct scheduler *s, int32_t index, enum finish_reason finish,
                   const struct error *err)
{
    struct request *r = s->running[index];
    remove_running(s, index);
    residency_end_unlisted(s, r, finish, err);
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
        residency_end_unlisted(s, r, FINISH_CANCELLED, NULL);
    }
}

void residency_end_cancelled(struct scheduler *s)
{
    for (int32_t i = s->n_running - 1; i >= 0; i--) {
        end_cancelled_in(s, &s->running[i]->followers, NULL);
        if (atomic_load(&s->running[i]->cancelled))
            residency_end(s, i, FINISH_CANCELLED, NULL);
    }
    for (struct request *r = s->queue.first; r; r = r->next)
        end_cancelled_in(s, &r->followers, NULL);
    end_cancelled_in(s, &s->queue.first, &s->queue.n);
}

void residency_enter(struct scheduler *s, struct request *r, struct sequence *q)
{
    r->sequence = q;
    if (r->admitted_ns == 0)
        r->admitted_ns = clock_ns();
    s->running[s->n_running++] = r;
}

/* First come, first served: the head of the queue waits for its pages and nobody overtakes it. */
void residency_admit(struct scheduler *s)
{
    const struct state_pool *pool = s->model->pool;
    struct request *r;
    while (s->n_idle > 0 && (r = request_queue_next(&s->queue)) != NULL) {
        int32_t needed = (r->n_tokens + STATE_PAGE_TOKENS) / STATE_PAGE_TOKENS;
        needed = MIN(needed, pool->pages_per_sequence);
        if (s->n_running > 0 && pool->has_full && pool->full.n_free < needed)
            return;
        struct error err = { 0 };
        struct sequence *q = residency_take(s, &err);
        if (!q && err.status == STATUS_OK)
            return;
        request_queue_remove(&s->queue, r);
        if (!q) {
            residency_end_unlisted(s, r, FINISH_ERROR, &err);
            return;
        }
        residency_enter(s, r, q);
    }
}

/* The state goes, the tokens stay: it is read again when there is room. */
static void residency_preempt(struct scheduler *s, int32_t index)
{
    struct request *r = s->running[index];
    remove_running(s, index);
    give_back(s, r);
    r->preempted = true;
    metrics_count(&s->engine->metrics, COUNTER_PREEMPTIONS, 1);
    request_queue_return(&s->queue, r);
}

/* Oldest first; who finds no page takes those of the newest. */
void residency_reserve(struct scheduler *s)
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
            residency_preempt(s, newest);
            if (newest == i)
                return;
        }
        if (status != STATUS_OK)
            residency_end(s, i--, FINISH_ERROR, &err);
    }
}
