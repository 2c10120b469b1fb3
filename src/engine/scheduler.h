/* scheduler: which requests of a model are resident, and which rows the next pass computes.
 *
 * Each pass: finish what was cancelled, admit from the queue, take one row of every running
 * answer and prompt chunks under the token budget, run one forward, draw, deliver. Answers come
 * first, so that a long prompt delays them by one chunk at most; prompts share the rest in turn.
 * When pages run out, the request admitted last gives its own back and waits; it is read again
 * later. The request admitted first always gets what it needs, so all of them finish.
 * Threads: the engine thread, which owns every request that it was given. */
#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include <stdbool.h>

#include "base/error.h"
#include "engine/engine_internal.h"
#include "engine/request.h"

MUST_CHECK enum status scheduler_new(struct engine_model *m, struct scheduler **out,
                                     struct error *err);
void scheduler_free(struct scheduler *s); /* NULL is allowed; no request is left */

void scheduler_add(struct scheduler *s, struct request *r); /* takes over the engine's reference */
/* One pass. False: there is nothing to do until something is added, cancelled or taken. */
bool scheduler_pass(struct scheduler *s);
/* Ends everything with FINISH_CANCELLED. */
void scheduler_stop(struct scheduler *s);

struct scheduler_counts {
    int32_t n_running, n_waiting;
    int64_t pages_used, pages_all;
};
struct scheduler_counts scheduler_count(const struct scheduler *s);

/* Host memory for displaced state, under these options: of all models of an engine. */
int64_t host_cache_budget(const struct engine_options *);
/* This model's share of it; with the device lock. */
void scheduler_set_host_cache(struct scheduler *s, int64_t bytes);

/* Bytes that are reserved for it and were not needed yet; with the device lock. */
int64_t scheduler_untouched(const struct scheduler *s);

void scheduler_publish(struct scheduler *s); /* the state of its seats, after a pass */
/* What was published last; any thread. */
int32_t scheduler_slots(struct scheduler *s, struct engine_slot *out, int32_t max);

#endif
