#include "engine/request_queue.h"

#include "base/compiler.h"
#include "engine/request.h"

void request_queue_add(struct request_queue *q, struct request *r)
{
    struct request **end = &q->first;
    while (*end)
        end = &(*end)->next;
    r->next = NULL;
    *end = r;
    q->n++;
}

void request_queue_return(struct request_queue *q, struct request *r)
{
    r->next = q->first;
    q->first = r;
    q->n++;
}

struct request *request_queue_next(const struct request_queue *q)
{
    return q->first;
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
