/* worker_pool: threads that run what would hold up libmicrohttpd's: parsing, templates,
 * tokenizing. Jobs run in the order they came. */
#ifndef SERVER_WORKER_POOL_H
#define SERVER_WORKER_POOL_H

#include "base/error.h"

struct worker_pool;
typedef void worker_fn(void *job);

MUST_CHECK enum status worker_pool_new(int n_threads, int max_jobs, worker_fn *,
                                       struct worker_pool **, struct error *);
bool worker_pool_add(struct worker_pool *, void *job); /* false: full */
void worker_pool_free(struct worker_pool *);           /* runs what is queued, then joins */

#endif
