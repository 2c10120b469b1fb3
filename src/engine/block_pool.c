#include "engine/block_pool.h"

#include "base/mem.h"

#define BLOCKS_FEWEST 4
#define BLOCKS_MOST 64

void block_pool_init(struct block_pool *p, size_t block_bytes, size_t all_bytes)
{
    size_t n = all_bytes / MAX(block_bytes, 1);
    *p = (struct block_pool){ .bytes = MAX(block_bytes, 1) };
    p->n_most = (int)MIN(MAX(n, BLOCKS_FEWEST), BLOCKS_MOST);
    p->free = mem_array(uint8_t *, (size_t)p->n_most);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->given, NULL);
}

void block_pool_trim(struct block_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->n_made -= p->n_free;
    while (p->n_free > 0)
        mem_release_pages(p->free[--p->n_free], p->bytes);
    pthread_mutex_unlock(&p->lock);
}

void block_pool_release(struct block_pool *p)
{
    if (!p->free)
        return;
    block_pool_trim(p);
    CHECK(p->n_made == 0);
    mem_free(p->free);
    p->free = NULL;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->given);
}

/* Under the lock. */
static uint8_t *take(struct block_pool *p)
{
    if (p->n_free > 0)
        return p->free[--p->n_free];
    if (p->n_made == p->n_most)
        return NULL;
    uint8_t *block = mem_try_pages(p->bytes);
    p->n_made += block ? 1 : 0;
    return block;
}

uint8_t *block_pool_take(struct block_pool *p)
{
    pthread_mutex_lock(&p->lock);
    uint8_t *block = take(p);
    pthread_mutex_unlock(&p->lock);
    return block;
}

uint8_t *block_pool_wait(struct block_pool *p, const atomic_bool *stop)
{
    pthread_mutex_lock(&p->lock);
    uint8_t *block = NULL;
    while (!atomic_load(stop) && !(block = take(p)) && p->n_made > 0)
        pthread_cond_wait(&p->given, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return block;
}

void block_pool_wake(struct block_pool *p)
{
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->given);
    pthread_mutex_unlock(&p->lock);
}

void block_pool_give(struct block_pool *p, uint8_t *block)
{
    pthread_mutex_lock(&p->lock);
    p->free[p->n_free++] = block;
    pthread_cond_signal(&p->given);
    pthread_mutex_unlock(&p->lock);
}
