/* turn_lock: a lock that is had in the order of asking.
 *
 * A thread that unlocks a mutex and locks it again at once keeps all others out; here it queues
 * behind them. Threads: any. */
#ifndef BASE_TURN_LOCK_H
#define BASE_TURN_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct turn_lock {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t next, served; /* tickets */
    uint64_t since_ns;     /* when the one who has it got it, clock_ns() */
};

void turn_lock_init(struct turn_lock *t);
void turn_lock_destroy(struct turn_lock *t);
void turn_lock(struct turn_lock *t);
void turn_unlock(struct turn_lock *t);
/* For the one who has it: if it had it for so long and others wait, they come first. */
void turn_lock_yield(struct turn_lock *t, uint64_t ns);

#endif
