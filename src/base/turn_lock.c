#include "base/turn_lock.h"

#include "base/clock.h"

void turn_lock_init(struct turn_lock *t)
{
    *t = (struct turn_lock){ 0 };
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
}

void turn_lock_destroy(struct turn_lock *t)
{
    pthread_cond_destroy(&t->moved);
    pthread_mutex_destroy(&t->lock);
}

void turn_lock(struct turn_lock *t)
{
    pthread_mutex_lock(&t->lock);
    uint64_t ticket = t->next++;
    while (t->served != ticket)
        pthread_cond_wait(&t->moved, &t->lock);
    t->since_ns = clock_ns();
    pthread_mutex_unlock(&t->lock);
}

void turn_unlock(struct turn_lock *t)
{
    pthread_mutex_lock(&t->lock);
    t->served++;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

void turn_lock_yield(struct turn_lock *t, uint64_t ns)
{
    pthread_mutex_lock(&t->lock);
    bool due = t->next - t->served > 1 && clock_ns() - t->since_ns >= ns;
    pthread_mutex_unlock(&t->lock);
    if (due) {
        turn_unlock(t);
        turn_lock(t);
    }
}
