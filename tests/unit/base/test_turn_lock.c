#include "base/turn_lock.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "unit/cmocka_setup.h"

struct shared {
    struct turn_lock lock;
    atomic_int turns;
    atomic_bool asks, over;
    int counter; /* under the lock */
};

/* Takes the lock again as soon as it has given it back. */
static void *greedy(void *argument)
{
    struct shared *s = argument;
    while (!atomic_load(&s->over)) {
        turn_lock(&s->lock);
        s->counter++;
        for (uint64_t until = clock_ns() + 1000000; clock_ns() < until;)
            ;
        atomic_fetch_add(&s->turns, 1);
        turn_unlock(&s->lock);
    }
    return NULL;
}

/* Has the lock until somebody else wants it. */
static void *patient(void *argument)
{
    struct shared *s = argument;
    turn_lock(&s->lock);
    atomic_store(&s->asks, true);
    while (!atomic_load(&s->over))
        turn_lock_yield(&s->lock, 0);
    turn_unlock(&s->lock);
    return NULL;
}

static void test_in_order(void **state)
{
    (void)state;
    struct shared s = { 0 };
    pthread_t thread;
    turn_lock_init(&s.lock);
    assert_int_equal(thread_start(&thread, greedy, &s), 0);
    while (atomic_load(&s.turns) < 2)
        ;
    for (int i = 0; i < 50; i++) {
        int before = atomic_load(&s.turns);
        turn_lock(&s.lock);
        s.counter++;
        assert_true(atomic_load(&s.turns) - before <= 200); /* 2, but for a preempted thread */
        turn_unlock(&s.lock);
    }
    atomic_store(&s.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(s.counter, atomic_load(&s.turns) + 50);
    turn_lock_destroy(&s.lock);
}

static void test_yield(void **state)
{
    (void)state;
    struct shared s = { 0 };
    pthread_t thread;
    turn_lock_init(&s.lock);
    assert_int_equal(thread_start(&thread, patient, &s), 0);
    while (!atomic_load(&s.asks))
        ;
    turn_lock(&s.lock); /* ends because the other one gives it up */
    atomic_store(&s.over, true);
    turn_unlock(&s.lock);
    pthread_join(thread, NULL);
    turn_lock(&s.lock);
    turn_lock_yield(&s.lock, 0); /* nobody waits */
    turn_unlock(&s.lock);
    turn_lock_destroy(&s.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_yield),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
