/* request_queue: the requests that wait for a seat, and who of them is next.
 *
 * The highest priority first; among equals the client who has had least (fair_share.h); among his
 * own the one that came first. A request that had to make room keeps its place by its number.
 * Requests are linked through their own `next`. Threads: the engine thread. */
#ifndef ENGINE_REQUEST_QUEUE_H
#define ENGINE_REQUEST_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/fair_share.h"

struct request;

struct request_queue {
    struct request *first;
    int32_t n;
    struct fair_share share;
    uint64_t n_seen; /* numbers the requests in order of arrival */
};

void request_queue_release(struct request_queue *q); /* empty, and every request was forgotten */

void request_queue_add(struct request_queue *q, struct request *r);
/* Who is next; NULL: nobody waits. It stays in the queue until it is removed. */
struct request *request_queue_next(const struct request_queue *q);
void request_queue_remove(struct request_queue *q, struct request *r);
/* Opens the account of a request that never waits here; nothing if it has one. */
void request_queue_know(struct request_queue *q, struct request *r);
/* The request is over; it is not in the queue. */
void request_queue_forget(struct request_queue *q, struct request *r);

/* Whether a is to be served before b, both waiting or both resident. */
bool request_goes_before(const struct request *a, const struct request *b);

#endif
