#include "cpu/thread_pool.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/cmocka_setup.h"

#define N_CHUNKS 97

struct count {
    atomic_int calls[N_CHUNKS];
    atomic_int bad_thread;
    int n_threads;
};

static void count_chunk(void *arg, int chunk, int thread)
{
    struct count *c = arg;
    atomic_fetch_add(&c->calls[chunk], 1);
    if (thread < 0 || thread >= c->n_threads)
        atomic_store(&c->bad_thread, 1);
}

static struct thread_pool *open_pool(int n_threads)
{
    struct thread_pool *pool;
    struct error err;
    if (thread_pool_new(n_threads, false, &pool, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return pool;
}

/* Each chunk runs exactly once, also with far more threads than processors. */
static void test_every_chunk_once(void **state)
{
    (void)state;
    static const int threads[] = { 1, 2, 3, 16 };
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        struct thread_pool *pool = open_pool(threads[i]);
        assert_int_equal(thread_pool_threads(pool), threads[i]);
        for (int round = 0; round < 2000; round++) {
            struct count c = { .n_threads = threads[i] };
            int n = round % (N_CHUNKS + 1);
            thread_pool_run(pool, n, count_chunk, &c);
            for (int k = 0; k < N_CHUNKS; k++)
                assert_int_equal(atomic_load(&c.calls[k]), k < n);
            assert_int_equal(atomic_load(&c.bad_thread), 0);
        }
        thread_pool_free(pool);
    }
}

/* Sleeping threads wake: regions after pauses longer than the spinning. */
static void test_after_sleep(void **state)
{
    (void)state;
    struct thread_pool *pool = open_pool(4);
    for (int round = 0; round < 20; round++) {
        struct count c = { .n_threads = 4 };
        usleep(2000);
        thread_pool_run(pool, N_CHUNKS, count_chunk, &c);
        for (int k = 0; k < N_CHUNKS; k++)
            assert_int_equal(atomic_load(&c.calls[k]), 1);
    }
    thread_pool_free(pool);
}

struct chain {
    atomic_int prepared;
    int value; /* written by the first chunks, read by the others */
    atomic_int seen;
};

static void chain_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    struct chain *c = arg;
    if (chunk == 0) {
        c->value = 42;
        atomic_fetch_add_explicit(&c->prepared, 1, memory_order_release);
        return;
    }
    thread_pool_await(&c->prepared, 1);
    if (c->value == 42)
        atomic_fetch_add(&c->seen, 1);
}

static void test_await_sees_lower_chunks(void **state)
{
    (void)state;
    struct thread_pool *pool = open_pool(8);
    for (int round = 0; round < 2000; round++) {
        struct chain c = { .value = 0 };
        thread_pool_run(pool, 17, chain_chunk, &c);
        assert_int_equal(atomic_load(&c.seen), 16);
    }
    thread_pool_free(pool);
}

static void nothing(void *arg, int chunk, int thread)
{
    (void)arg;
    (void)chunk;
    (void)thread;
}

/* The caller never waits for a thread that has not started: with 32 threads a tiny region is done
 * in well under a scheduler's time slice. */
static void test_crowded_pool_is_quick(void **state)
{
    (void)state;
    struct thread_pool *pool = open_pool(32);
    double start = clock_seconds();
    for (int i = 0; i < 1000; i++)
        thread_pool_run(pool, 4, nothing, NULL);
    assert_true(clock_seconds() - start < 2);
    thread_pool_free(pool);
}

static void test_refuses_bad_counts(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct error err;
    assert_int_equal(thread_pool_new(0, false, &pool, &err), STATUS_INVALID);
    assert_string_equal(err.message, "threads: expected 1 to 512, found 0");
    assert_int_equal(thread_pool_new(THREAD_POOL_MAX + 1, false, &pool, &err), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chunk_once),      cmocka_unit_test(test_after_sleep),
        cmocka_unit_test(test_await_sees_lower_chunks),
        cmocka_unit_test(test_crowded_pool_is_quick),
        cmocka_unit_test(test_refuses_bad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
