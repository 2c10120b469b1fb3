/* request_queue: the requests that wait for a seat, and who of them is next.
 *
 * First come, first served; one that had to make room comes back to the front. Requests are
 * linked through their own `next`. Threads: the engine thread. */
#ifndef ENGINE_REQUEST_QUEUE_H
#define ENGINE_REQUEST_QUEUE_H

#include <stdint.h>

struct request;

struct request_queue {
    struct request *first;
    int32_t n;
};

void request_queue_add(struct request_queue *q, struct request *r);
void request_queue_return(struct request_queue *q, struct request *r); /* after preemption */
/* Who is next; NULL: nobody waits. It stays in the queue until it is removed. */
struct request *request_queue_next(const struct request_queue *q);
void request_queue_remove(struct request_queue *q, struct request *r);

#endif
