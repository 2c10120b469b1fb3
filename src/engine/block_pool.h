/* block_pool: a few blocks of memory of one size that travel between two threads.
 *
 * Their number bounds how far the one may run ahead of the other. Blocks are made when they are
 * first needed and go when nobody works (block_pool_trim). Threads: any. */
#ifndef ENGINE_BLOCK_POOL_H
#define ENGINE_BLOCK_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct block_pool {
    pthread_mutex_t lock;
    pthread_cond_t given;
    uint8_t **free; /* [n_most] */
    size_t bytes;
    int n_free, n_made, n_most;
};

void block_pool_init(struct block_pool *p, size_t block_bytes, size_t all_bytes);
void block_pool_release(struct block_pool *p);  /* every block was given back */
uint8_t *block_pool_take(struct block_pool *p); /* NULL: all are out, or there is no memory */
/* Waits for a block; NULL once *stop is true, which block_pool_wake() has looked at, or when there
 * is no memory for any. */
uint8_t *block_pool_wait(struct block_pool *p, const atomic_bool *stop);
void block_pool_wake(struct block_pool *p);
void block_pool_give(struct block_pool *p, uint8_t *block);
void block_pool_trim(struct block_pool *p); /* frees what is not out */

#endif
