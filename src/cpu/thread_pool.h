/* thread_pool: fixed threads that run one region at a time; the caller takes part.
 *
 * A region is a function over chunks 0 .. n_chunks - 1. Chunks are claimed one by one in ascending
 * order, so a chunk may wait for chunks with lower numbers (thread_pool_await): whoever holds them
 * is running already. The caller waits for claimed chunks only, never for a thread that has not
 * started, so a pool with more threads than free processors loses little.
 * Idle threads spin for about 50 us, then sleep on a futex; a thread that notices that spinning is
 * preempted (the machine is busy) stops spinning for a while.
 * Threads: one owner calls thread_pool_run; regions do not nest. */
#ifndef CPU_THREAD_POOL_H
#define CPU_THREAD_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define THREAD_POOL_MAX 512

struct thread_pool;

/* The caller is thread 0 of n_threads. pin: one physical core for each of the other threads. */
MUST_CHECK enum status thread_pool_new(int n_threads, bool pin, struct thread_pool **out,
                                       struct error *err);
void thread_pool_free(struct thread_pool *pool); /* NULL is allowed */
int thread_pool_threads(const struct thread_pool *pool);

/* Calls work(arg, chunk, thread) once for each chunk; returns when all are done. `thread` is below
 * thread_pool_threads(): an index for per-thread scratch. */
void thread_pool_run(struct thread_pool *pool, int n_chunks,
                     void (*work)(void *arg, int chunk, int thread), void *arg);

/* Waits inside a region until *count >= target; the chunks that count it have lower numbers. */
void thread_pool_await(atomic_int *count, int target);

#endif
