#include "cpu/thread_pool.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

/* A region lives in slot epoch % REGION_SLOTS. `ticket` = epoch << 32 | next chunk: a thread reads
 * the ticket, then the slot, then claims by compare-and-swap. If that succeeds, the epoch was still
 * current with an unclaimed chunk, so what it read from the slot was that region. */
#define REGION_SLOTS 4
#define SPIN_NS 50000u
#define CALLER_SPIN_NS 20000u /* spinning, then as long again yielding, then asleep */
#define BUSY_WAITS 256        /* waits without spinning after a preempted spin */
#define PAUSES_PER_LOOK 64    /* pauses between two readings of the clock */

typedef void region_work(void *arg, int chunk, int thread);

struct region {
    _Atomic(region_work *) work;
    _Atomic(void *) arg;
    atomic_int n_chunks;
};

struct worker {
    struct thread_pool *pool;
    pthread_t handle;
    int index;
    hwloc_bitmap_t place; /* NULL: anywhere */
};

struct thread_pool {
    alignas(64) atomic_uint_fast64_t ticket;
    alignas(64) atomic_int done;   /* chunks finished of the current region */
    atomic_uint caller_asleep;     /* futex word */
    alignas(64) atomic_uint epoch; /* futex word: the upper half of `ticket` */
    atomic_int n_asleep;
    atomic_bool stop;
    alignas(64) struct region region[REGION_SLOTS];
    hwloc_topology_t topology; /* NULL unless pinned */
    int n_threads, n_started;
    struct worker worker[];
};

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_uint *word, unsigned expected, const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void chunk_done(struct thread_pool *pool, int n_chunks)
{
    /* Sequentially consistent on both sides: either this thread sees the caller asleep or the
     * caller sees the last chunk done before it sleeps. */
    if (atomic_fetch_add(&pool->done, 1) + 1 != n_chunks)
        return;
    if (atomic_load(&pool->caller_asleep) && atomic_exchange(&pool->caller_asleep, 0))
        futex_wake(&pool->caller_asleep, 1);
}

/* Claims and runs chunks of the current region until none is left; true if it ran any. */
static bool run_chunks(struct thread_pool *pool, int thread)
{
    bool ran = false;
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    for (;;) {
        struct region *r = &pool->region[(ticket >> 32) % REGION_SLOTS];
        int n_chunks = atomic_load_explicit(&r->n_chunks, memory_order_relaxed);
        region_work *work = atomic_load_explicit(&r->work, memory_order_relaxed);
        void *arg = atomic_load_explicit(&r->arg, memory_order_relaxed);
        int chunk = (int)(uint32_t)ticket;
        if (chunk >= n_chunks)
            return ran;
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        work(arg, chunk, thread);
        ran = true;
        chunk_done(pool, n_chunks);
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
}

/* Spins until the epoch is no longer `seen`; false when the time is up. */
static bool spin_for_region(struct thread_pool *pool, unsigned seen, int *busy)
{
    if (*busy > 0) {
        (*busy)--;
        return false;
    }
    uint64_t start = clock_ns(), last = start;
    for (;;) {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen)
                return true;
            cpu_pause();
        }
        uint64_t now = clock_ns();
        if (now - last > 4 * SPIN_NS) /* somebody else had this processor in between */
            *busy = BUSY_WAITS;
        if (now - start > SPIN_NS)
            return false;
        last = now;
    }
}

static void *worker_main(void *user)
{
    struct worker *w = user;
    struct thread_pool *pool = w->pool;
    if (w->place)
        hwloc_set_cpubind(pool->topology, w->place, HWLOC_CPUBIND_THREAD);
    unsigned seen = 0;
    int busy = 0;
    while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
        if (!spin_for_region(pool, seen, &busy)) {
            atomic_fetch_add(&pool->n_asleep, 1);
            if (atomic_load(&pool->epoch) == seen)
                futex_wait(&pool->epoch, seen, NULL);
            atomic_fetch_sub(&pool->n_asleep, 1);
        }
        seen = atomic_load_explicit(&pool->epoch, memory_order_acquire);
        run_chunks(pool, w->index);
    }
    return NULL;
}

static void wake_workers(struct thread_pool *pool)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->n_asleep) > 0)
        futex_wake(&pool->epoch, INT_MAX);
}

/* Waits for chunks that other threads have claimed. */
static void wait_for_done(struct thread_pool *pool, int n_chunks)
{
    uint64_t start = 0;
    for (unsigned spins = 1;; spins++) {
        if (atomic_load_explicit(&pool->done, memory_order_acquire) == n_chunks)
            return;
        cpu_pause();
        if (spins % PAUSES_PER_LOOK)
            continue;
        uint64_t now = clock_ns();
        start = start ? start : now;
        if (now - start < CALLER_SPIN_NS)
            continue;
        if (now - start < 2 * CALLER_SPIN_NS) {
            sched_yield();
            continue;
        }
        atomic_store(&pool->caller_asleep, 1);
        if (atomic_load(&pool->done) != n_chunks)
            futex_wait(&pool->caller_asleep, 1, NULL);
        atomic_store(&pool->caller_asleep, 0);
    }
}

void thread_pool_run(struct thread_pool *pool, int n_chunks, region_work *work, void *arg)
{
    if (n_chunks <= 0)
        return;
    if (pool->n_threads == 1 || n_chunks == 1) {
        for (int i = 0; i < n_chunks; i++)
            work(arg, i, 0);
        return;
    }
    uint64_t epoch = (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 32) + 1;
    struct region *r = &pool->region[epoch % REGION_SLOTS];
    atomic_store_explicit(&r->work, work, memory_order_relaxed);
    atomic_store_explicit(&r->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&r->n_chunks, n_chunks, memory_order_relaxed);
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, epoch << 32, memory_order_release);
    wake_workers(pool);
    run_chunks(pool, 0);
    wait_for_done(pool, n_chunks);
}

void thread_pool_await(atomic_int *count, int target)
{
    for (unsigned spins = 1; atomic_load_explicit(count, memory_order_acquire) < target; spins++) {
        cpu_pause();
        if (spins % 1024 == 0) /* the thread that counts may need this processor */
            sched_yield();
    }
}

int thread_pool_threads(const struct thread_pool *pool)
{
    return pool->n_threads;
}

/* Core i for thread i; the caller's core 0 is left to the caller. */
static void choose_places(struct thread_pool *pool)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) < 0)
        return;
    if (hwloc_topology_load(t) < 0 ||
        hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) < pool->n_threads) {
        hwloc_topology_destroy(t);
        return;
    }
    pool->topology = t;
    for (int i = 1; i < pool->n_threads; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, (unsigned)i);
        pool->worker[i].place = hwloc_bitmap_dup(core->cpuset);
    }
}

enum status thread_pool_new(int n_threads, bool pin, struct thread_pool **out, struct error *err)
{
    if (n_threads < 1 || n_threads > THREAD_POOL_MAX)
        return error_set(err, STATUS_INVALID, "threads: expected 1 to %d, found %d",
                         THREAD_POOL_MAX, n_threads);
    size_t bytes = sizeof(struct thread_pool) + (size_t)n_threads * sizeof(struct worker);
    struct thread_pool *pool = mem_try_pages(bytes);
    if (!pool)
        return error_set(err, STATUS_NO_MEMORY, "thread pool: no memory for %d threads", n_threads);
    pool->n_threads = n_threads;
    if (pin && n_threads > 1)
        choose_places(pool);
    pool->n_started = 1;
    for (int i = 1; i < n_threads; i++) {
        struct worker *w = &pool->worker[i];
        w->pool = pool;
        w->index = i;
        int code = thread_start(&w->handle, worker_main, w);
        if (code) {
            thread_pool_free(pool);
            return error_set(err, STATUS_NO_MEMORY, "thread pool: cannot start thread %d of %d: %s",
                             i + 1, n_threads, strerrorname_np(code));
        }
        pool->n_started++;
    }
    *out = pool;
    return STATUS_OK;
}

void thread_pool_free(struct thread_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    wake_workers(pool);
    for (int i = 1; i < pool->n_started; i++)
        pthread_join(pool->worker[i].handle, NULL);
    for (int i = 1; i < pool->n_threads; i++)
        if (pool->worker[i].place)
            hwloc_bitmap_free(pool->worker[i].place);
    if (pool->topology)
        hwloc_topology_destroy(pool->topology);
    mem_release_pages(pool, sizeof(struct thread_pool) +
                                (size_t)pool->n_threads * sizeof(struct worker));
}
