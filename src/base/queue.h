/* queue: a bounded first-in first-out queue of fixed-size items between threads.
 *
 * Any number of threads may push and pop. Items are copied in and out. After queue_close(),
 * pushing fails and popping drains what is left, then reports STATUS_END; threads that wait are
 * woken. queue_release() needs that nobody uses the queue any more; items that are left are
 * dropped as bytes, so an owner of pointers drains it first. */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    unsigned char *items; /* [capacity][item_size], a ring */
    size_t item_size, capacity, first, count;
    bool closed;
};

void queue_init(struct queue *q, size_t capacity, size_t item_size);
void queue_release(struct queue *q);
void queue_close(struct queue *q);

/* OK, or END once the queue is closed. queue_push waits for room, queue_pop for an item. */
MUST_CHECK enum status queue_push(struct queue *q, const void *item);
MUST_CHECK enum status queue_pop(struct queue *q, void *item);
/* Never wait: EXHAUSTED when the queue is full (push) or empty (pop). */
MUST_CHECK enum status queue_try_push(struct queue *q, const void *item);
MUST_CHECK enum status queue_try_pop(struct queue *q, void *item);
/* Waits at most timeout_ns for an item, then EXHAUSTED. */
MUST_CHECK enum status queue_pop_for(struct queue *q, void *item, uint64_t timeout_ns);

size_t queue_count(struct queue *q);

#endif
