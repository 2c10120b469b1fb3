#include "cpu/peak.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cpu/cpu_features.h"
#include "cpu/thread_pool.h"

#define READ_BYTES ((int64_t)512 << 20) /* well beyond any cache */
#define RUN_SECONDS 0.02
#define N_RUNS 8

struct peak_job {
    const struct peak_kernels *kernels;
    const char *bytes;
    int64_t n; /* rounds, or bytes of one thread */
    float (*loop)(int64_t rounds);
    volatile float results[THREAD_POOL_MAX];
};

/* *bf16 NULL: there is no such loop. */
static const struct peak_kernels *choose(const struct peak_loop **bf16)
{
    *bf16 = NULL;
#if defined(__x86_64__)
    struct cpu_features features;
    cpu_features_read(&features);
    if (features.avx512_bf16)
        *bf16 = &peak_bf16_avx512bf16;
    if (features.avx512)
        return &peak_kernels_avx512;
    if (features.avx2)
        return &peak_kernels_avx2;
#endif
    return NULL;
}

static void work_loop(void *arg, int chunk, int thread)
{
    struct peak_job *job = arg;
    (void)chunk;
    job->results[thread] = job->loop(job->n);
}

static void work_read(void *arg, int chunk, int thread)
{
    struct peak_job *job = arg;
    job->results[thread] = job->kernels->read(job->bytes + chunk * job->n, job->n);
}

static double best_seconds(struct thread_pool *pool, void (*work)(void *, int, int),
                           struct peak_job *job)
{
    double best = 1e9;
    for (int i = 0; i < N_RUNS; i++) {
        double start = clock_seconds();
        thread_pool_run(pool, thread_pool_threads(pool), work, job);
        double t = clock_seconds() - start;
        best = MIN(best, t);
    }
    return best;
}

/* Billions of operations a second of all threads. */
static double loop_rate(struct thread_pool *pool, struct peak_job *job, float (*loop)(int64_t),
                        double ops)
{
    job->loop = loop;
    job->n = 100000;
    double once = best_seconds(pool, work_loop, job);
    job->n = (int64_t)(100000.0 * RUN_SECONDS / once) + 1;
    double t = best_seconds(pool, work_loop, job);
    return ops * (double)job->n * thread_pool_threads(pool) / t * 1e-9;
}

static double read_rate(struct thread_pool *pool, struct peak_job *job, char *bytes)
{
    memset(bytes, 1, READ_BYTES); /* untouched pages are all the same one */
    job->bytes = bytes;
    job->n = READ_BYTES / thread_pool_threads(pool) & ~(int64_t)255;
    double t = best_seconds(pool, work_read, job);
    return (double)job->n * thread_pool_threads(pool) / t * 1e-9;
}

enum status cpu_peak_measure(int n_threads, struct cpu_peak *out, struct error *err)
{
    struct thread_pool *pool;
    *out = (struct cpu_peak){ .isa = "none", .n_threads = n_threads };
    const struct peak_loop *bf16;
    const struct peak_kernels *kernels = choose(&bf16);
    if (!kernels)
        return STATUS_OK;
    char *bytes = mem_try_pages(READ_BYTES);
    if (!bytes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the %lld MiB that are read",
                         (long long)(READ_BYTES >> 20));
    enum status status = thread_pool_new(n_threads, true, &pool, err);
    if (status == STATUS_OK) {
        struct peak_job *job = mem_new(struct peak_job);
        job->kernels = kernels;
        out->isa = kernels->isa;
        out->read_gb_s = read_rate(pool, job, bytes);
        out->f32_gflop_s = loop_rate(pool, job, kernels->f32, kernels->f32_ops);
        out->int8_gop_s = loop_rate(pool, job, kernels->int8, kernels->int8_ops);
        if (bf16)
            out->bf16_gflop_s = loop_rate(pool, job, bf16->run, bf16->ops);
        mem_free(job);
        thread_pool_free(pool);
    }
    mem_release_pages(bytes, READ_BYTES);
    return status;
}
