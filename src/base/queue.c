#include "base/queue.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

void queue_init(struct queue *q, size_t capacity, size_t item_size)
{
    CHECK(capacity > 0 && item_size > 0);
    *q = (struct queue){ .item_size = item_size, .capacity = capacity };
    q->items = mem_zero(capacity, item_size);
    pthread_condattr_t attributes;
    CHECK(pthread_mutex_init(&q->lock, NULL) == 0);
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&q->not_empty, &attributes) == 0);
    CHECK(pthread_cond_init(&q->not_full, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
}

void queue_release(struct queue *q)
{
    if (!q->items)
        return;
    pthread_cond_destroy(&q->not_full);
    pthread_cond_destroy(&q->not_empty);
    pthread_mutex_destroy(&q->lock);
    mem_free(q->items);
    *q = (struct queue){ 0 };
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->not_empty);
    pthread_cond_broadcast(&q->not_full);
    pthread_mutex_unlock(&q->lock);
}

static unsigned char *item_at(struct queue *q, size_t position)
{
    return q->items + position % q->capacity * q->item_size;
}

/* The lock is held. */
static void put(struct queue *q, const void *item)
{
    memcpy(item_at(q, q->first + q->count), item, q->item_size);
    q->count++;
    pthread_cond_signal(&q->not_empty);
}

static void take(struct queue *q, void *item)
{
    memcpy(item, item_at(q, q->first), q->item_size);
    q->first = (q->first + 1) % q->capacity;
    q->count--;
    pthread_cond_signal(&q->not_full);
}

static enum status push(struct queue *q, const void *item, bool wait)
{
    enum status s = STATUS_OK;
    pthread_mutex_lock(&q->lock);
    while (wait && !q->closed && q->count == q->capacity)
        pthread_cond_wait(&q->not_full, &q->lock);
    if (q->closed)
        s = STATUS_END;
    else if (q->count == q->capacity)
        s = STATUS_EXHAUSTED;
    else
        put(q, item);
    pthread_mutex_unlock(&q->lock);
    return s;
}

enum status queue_push(struct queue *q, const void *item)
{
    return push(q, item, true);
}

enum status queue_try_push(struct queue *q, const void *item)
{
    return push(q, item, false);
}

/* `deadline` NULL waits without end. */
static enum status pop(struct queue *q, void *item, bool wait, const struct timespec *deadline)
{
    enum status s = STATUS_OK;
    pthread_mutex_lock(&q->lock);
    while (wait && !q->closed && q->count == 0) {
        if (!deadline)
            pthread_cond_wait(&q->not_empty, &q->lock);
        else if (pthread_cond_timedwait(&q->not_empty, &q->lock, deadline) == ETIMEDOUT)
            break;
    }
    if (q->count)
        take(q, item);
    else
        s = q->closed ? STATUS_END : STATUS_EXHAUSTED;
    pthread_mutex_unlock(&q->lock);
    return s;
}

enum status queue_pop(struct queue *q, void *item)
{
    return pop(q, item, true, NULL);
}

enum status queue_try_pop(struct queue *q, void *item)
{
    return pop(q, item, false, NULL);
}

enum status queue_pop_for(struct queue *q, void *item, uint64_t timeout_ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t second = 1000000000u;
    uint64_t ns = (uint64_t)t.tv_nsec + timeout_ns % second;
    uint64_t seconds = MIN(timeout_ns / second, (uint64_t)1 << 30);
    t.tv_sec += (time_t)(seconds + ns / second);
    t.tv_nsec = (long)(ns % second);
    return pop(q, item, true, &t);
}

size_t queue_count(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t count = q->count;
    pthread_mutex_unlock(&q->lock);
    return count;
}
