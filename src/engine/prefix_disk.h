/* prefix_disk: what of a prefix tree is on disk, on the way there, and on the way back.
 *
 * Every finished turn is queued; one after the other its new pages are copied, a few in each step,
 * and handed to the writer. A prompt that is known on disk is fetched before it is taken over;
 * fetched pages go straight to the device and belong to the tree. A file that cannot be read is a
 * miss: it is logged, removed if it is damaged, and what it held is computed again. One of a named
 * session is kept, and the session is damaged.
 * Ownership: a fetch belongs to the request that asked until it is dropped. Threads: the engine
 * thread, or whoever holds the device lock. */
#ifndef ENGINE_PREFIX_DISK_H
#define ENGINE_PREFIX_DISK_H

#include "engine/disk_store.h"
#include "engine/prefix_tree.h"

struct prefix_fetch;
struct save_job;
struct session; /* engine/session_table.h */

struct prefix_disk {
    struct disk_store *store; /* NULL: nothing is kept on disk */
    struct disk_folder *folder;
    struct prefix_tree *tree;
    struct engine_metrics *metrics;
    const struct log_sink *log;
    struct state_shape shape;
    const char *model; /* its name, for manifests */
    struct block_pool save_blocks, fetch_blocks;
    struct save_job *jobs, **jobs_end; /* turns that wait */
    int32_t n_jobs;
    struct disk_save *save; /* the turn that is being written */
    int32_t n_copied;       /* of its records */
    bool closed;            /* all of it was handed over */
    struct prefix_fetch *fetches;
    uint64_t n_evicted; /* of the folder, as far as counted */
};

/* Reads the index of every file of this model. */
void prefix_disk_init(struct prefix_disk *d, struct disk_store *store, struct prefix_tree *tree,
                      const struct state_shape *shape, const struct log_sink *log,
                      struct engine_metrics *metrics);
/* Writes what is queued first. */
void prefix_disk_release(struct prefix_disk *d);

/* Gets on with what can be done now; the store wakes the engine when there is more. */
void prefix_disk_step(struct prefix_disk *d);

/* A turn is over: what of it is in the tree shall be on disk. `session` holds it then; NULL: none
 * does. */
void prefix_disk_save(struct prefix_disk *d, const int32_t *tokens, int32_t n,
                      struct session *session);

/* Starts to fetch what a take-over of these tokens needs beside what is in memory; NULL: nothing,
 * or (*busy) another fetch brings some of it. */
struct prefix_fetch *prefix_disk_fetch(struct prefix_disk *d, const int32_t *tokens, int32_t most,
                                       bool *busy);
bool prefix_fetch_over(const struct prefix_fetch *f);
int32_t prefix_fetch_blocks(const struct prefix_fetch *f);                  /* that came */
void prefix_disk_drop_fetch(struct prefix_disk *d, struct prefix_fetch *f); /* NULL is allowed */

#endif
