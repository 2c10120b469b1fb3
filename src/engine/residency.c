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
    prefix_reuse_forget(s, r);
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
}

/* The request is over; it must be in no list any more. */
void residency_end_unlisted(struct scheduler *s, struct request *r, enum finish_reason finish,
                            const struct error *err)
{
    if (r->sequence && finish != FINISH_ERROR) {
        prefix_reuse_keep(s, r);
        prefix_reuse_save(s, r, finish);
    }
    give_back(s, r);
    residency_release_followers(s, r);
    request_queue_forget(&s->queue, r);
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
    request_queue_know(&s->queue, r);
    r->sequence = q;
    if (r->admitted_ns == 0)
        r->admitted_ns = clock_ns();
    s->running[s->n_running++] = r;
}

/* The pages go to whoever needs them; what the prefix tree could keep, on the device or in host
 * memory, is taken over again when there is room, the rest is read again. */
static void preempt(struct scheduler *s, int32_t index)
{
    struct request *r = s->running[index];
    remove_running(s, index);
    prefix_reuse_keep(s, r);
    give_back(s, r);
    r->preempted = true;
    metrics_count(&s->engine->metrics, COUNTER_PREEMPTIONS, 1);
    request_queue_add(&s->queue, r);
}

/* Of the lowest priority the one that came last. */
static int32_t least_important(const struct scheduler *s)
{
    int32_t least = -1;
    for (int32_t i = 0; i < s->n_running; i++) {
        const struct request *a = s->running[i], *b = least < 0 ? a : s->running[least];
        bool lower = a->options.priority < b->options.priority;
        bool equal = a->options.priority == b->options.priority;
        if (least < 0 || lower || (equal && a->number > b->number))
            least = i;
    }
    return least;
}

static bool has_room(const struct scheduler *s, const struct request *r)
{
    const struct state_pool *pool = s->model->pool;
    int32_t needed = (r->n_tokens + STATE_PAGE_TOKENS) / STATE_PAGE_TOKENS;
    needed = MIN(needed, pool->pages_per_sequence);
    if (s->n_idle == 0)
        return false;
    return s->n_running == 0 || !pool->has_full ||
           pool->full.n_free + pool->full.n_idle >= needed;
}

/* Those of a lower priority make room, as many as it takes. */
static bool make_room(struct scheduler *s, const struct request *r)
{
    while (!has_room(s, r)) {
        int32_t victim = least_important(s);
        if (victim < 0 || s->running[victim]->options.priority >= r->options.priority)
            return false;
        preempt(s, victim);
    }
    return true;
}

/* Who is next waits for his pages, and nobody overtakes him. */
void residency_admit(struct scheduler *s)
{
    struct request *r;
    while ((r = request_queue_next(&s->queue)) != NULL && make_room(s, r)) {
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
        if (prefix_reuse_attach(s, r, &err) != STATUS_OK)
            residency_end(s, s->n_running - 1, FINISH_ERROR, &err);
    }
}

static int32_t index_of(const struct scheduler *s, const struct request *r)
{
    for (int32_t i = 0; i < s->n_running; i++)
        if (s->running[i] == r)
            return i;
    return -1;
}

/* False: the request had to make room itself, or failed. */
static bool reserve_for(struct scheduler *s, struct request *r)
{
    struct error err = { 0 };
    int32_t i;
    while ((i = index_of(s, r)) >= 0) {
        enum status status = sequence_reserve(r->sequence, s->model->pool, s->plan[i].n_rows, &err);
        if (status == STATUS_OK)
            return true;
        if (status != STATUS_EXHAUSTED) {
            residency_end(s, i, FINISH_ERROR, &err);
            return false;
        }
        bool alone = s->n_running == 1;
        CHECK(!alone); /* the pool holds one whole context */
        preempt(s, least_important(s));
    }
    return false;
}

/* Highest priority first, then in order of arrival: victims are found among those whose turn is
 * still to come. The first of all always gets what he needs, so all of them finish. */
void residency_reserve(struct scheduler *s)
{
    for (;;) {
        struct request *first = NULL;
        for (int32_t i = 0; i < s->n_running; i++) {
            struct request *r = s->running[i];
            if (s->plan[i].n_rows == 0 || s->plan[i].reserved)
                continue;
            bool higher = first && r->options.priority > first->options.priority;
            bool equal = first && r->options.priority == first->options.priority;
            if (!first || higher || (equal && r->number < first->number))
                first = r;
        }
        if (!first)
            return;
        if (reserve_for(s, first))
            s->plan[index_of(s, first)].reserved = true;
    }
}
