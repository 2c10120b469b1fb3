#include "engine/request_queue.h"

#include "base/compiler.h"
#include "engine/request.h"

void request_queue_release(struct request_queue *q)
{
    CHECK(q->n == 0);
    fair_share_release(&q->share);
}

void request_queue_know(struct request_queue *q, struct request *r)
{
    if (r->account)
        return;
    r->account = fair_share_join(&q->share, r->client);
    r->number = ++q->n_seen;
}

void request_queue_add(struct request_queue *q, struct request *r)
{
    request_queue_know(q, r);
    r->next = q->first;
    q->first = r;
    q->n++;
}

bool request_goes_before(const struct request *a, const struct request *b)
{
    if (a->options.priority != b->options.priority)
        return a->options.priority > b->options.priority;
    if (a->account != b->account && a->account->served != b->account->served)
        return a->account->served < b->account->served;
    return a->number < b->number;
}

struct request *request_queue_next(const struct request_queue *q)
{
    struct request *best = q->first;
    for (struct request *r = q->first; r; r = r->next)
        if (request_goes_before(r, best))
            best = r;
    return best;
}

void request_queue_remove(struct request_queue *q, struct request *r)
{
    struct request **link = &q->first;
    while (*link != r) {
        CHECK(*link);
        link = &(*link)->next;
    }
    *link = r->next;
    r->next = NULL;
    q->n--;
}

void request_queue_forget(struct request_queue *q, struct request *r)
{
    if (r->account)
        fair_share_leave(&q->share, r->account);
    r->account = NULL;
}
