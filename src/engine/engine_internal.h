/* engine_internal: what the files of the engine share; nobody else includes it.
 *
 * Locks: `lock` guards the incoming list and the flags beside it and is never held while another
 * lock is taken. `device_lock` is held by whoever drives the device: the engine thread during a
 * pass, a caller while it loads. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/turn_lock.h"
#include "engine/admission_window.h"
#include "engine/engine.h"
#include "engine/metrics.h"
#include "engine/pass.h"
#include "engine/state_pool.h"
#include "models/family.h"

struct disk_store;
struct scheduler;
struct model_source;

struct engine {
    struct engine_options options; /* texts point into `texts` */
    char *texts[6];
    struct device *dev;
    struct disk_store *disk; /* NULL: nothing is kept on disk */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    struct turn_lock device_lock;
    pthread_cond_t wake;
    bool poked, stopping;
    struct request *incoming, **incoming_end;
    struct admission_window window; /* of those in `incoming`, under `lock` */
    struct engine_model *models;   /* grows at the front, under `lock` */
    atomic_int n_admitted;         /* waiting and running */
    atomic_uint n_cancels;         /* counts request_cancel calls */
    atomic_bool stop_now;          /* engine_free: forward passes end at the next op */
    atomic_int n_running, n_waiting;
    _Atomic int64_t pages_used, pages_all;
    int64_t host_cache_bytes;      /* for displaced state of all models, in equal shares */
    struct engine_metrics metrics;
};

/* How large the parts of a loaded model are. */
struct model_sizes {
    struct state_pool_options state;
    struct pass_size pass;
    size_t scratch_bytes;
    int64_t kv_bytes, weight_bytes, mapped_bytes;
};

struct engine_model {
    struct engine *engine;
    struct engine_model *next;
    struct engine_model_info info;
    struct model_source *source;
    struct model *model;
    struct tokenizer *tokenizer;
    struct chat_template *chat;
    char *name;
    int32_t *end_tokens;
    struct model_sizes sizes;
    struct state_pool *pool;
    struct scheduler *scheduler;
};

void engine_wake(struct engine *e);
void engine_note_cancel(struct engine *e);

#endif
