#include "server/worker_pool.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

struct worker_pool {
    pthread_mutex_t lock;
    pthread_cond_t more;
    worker_fn *run;
    void **job; /* ring */
    int capacity, first, count;
    bool closed;
    int n_threads;
    pthread_t *thread;
};

static void *worker_main(void *argument)
{
    struct worker_pool *p = argument;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->count == 0 && !p->closed)
            pthread_cond_wait(&p->more, &p->lock);
        if (p->count == 0)
            break;
        void *job = p->job[p->first];
        p->first = (p->first + 1) % p->capacity;
        p->count--;
        pthread_mutex_unlock(&p->lock);
        p->run(job);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

enum status worker_pool_new(int n_threads, int max_jobs, worker_fn *run, struct worker_pool **out,
                            struct error *err)
{
    struct worker_pool *p = mem_new(struct worker_pool);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    p->run = run;
    p->capacity = max_jobs;
    p->job = mem_array(void *, (size_t)max_jobs);
    p->thread = mem_array(pthread_t, (size_t)n_threads);
    for (; p->n_threads < n_threads; p->n_threads++) {
        int failed = thread_start(&p->thread[p->n_threads], worker_main, p);
        if (failed) {
            worker_pool_free(p);
            return error_set(err, STATUS_NO_MEMORY, "http: cannot start worker thread %d: %s",
                             p->n_threads, strerror(failed));
        }
    }
    *out = p;
    return STATUS_OK;
}

bool worker_pool_add(struct worker_pool *p, void *job)
{
    pthread_mutex_lock(&p->lock);
    bool room = p->count < p->capacity && !p->closed;
    if (room) {
        p->job[(p->first + p->count) % p->capacity] = job;
        p->count++;
        pthread_cond_signal(&p->more);
    }
    pthread_mutex_unlock(&p->lock);
    return room;
}

void worker_pool_free(struct worker_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->thread);
    mem_free(p->job);
    mem_free(p);
}
