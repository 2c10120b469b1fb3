#include "server/model_shelf.h"

#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

void model_shelf_init(struct model_shelf *s, struct engine *engine, struct shelf_model *entry,
                      size_t n)
{
    *s = (struct model_shelf){ .engine = engine, .entry = entry, .n = n, .autoload = true };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    for (size_t i = 0; i < n; i++) {
        entry[i].state = entry[i].model ? SHELF_LOADED : SHELF_UNLOADED;
        entry[i].last_used = clock_seconds();
        entry[i].loaded_unix = entry[i].model ? clock_unix() : 0;
    }
}

static bool answers_to(const struct shelf_model *m, struct str name)
{
    bool same = str_is(name, m->id);
    for (size_t i = 0; i < m->n_aliases; i++)
        same = same || str_is(name, m->aliases[i]);
    return same;
}

struct shelf_model *model_shelf_find(const struct model_shelf *s, struct str name)
{
    for (size_t i = 0; i < s->n; i++)
        if (answers_to(&s->entry[i], name))
            return &s->entry[i];
    return NULL;
}

/* --- under the lock -------------------------------------------------------------------------- */

static struct shelf_model *longest_unused(struct model_shelf *s)
{
    struct shelf_model *oldest = NULL;
    for (size_t i = 0; i < s->n; i++) {
        struct shelf_model *m = &s->entry[i];
        if (m->state == SHELF_LOADED && m->n_users == 0 &&
            (!oldest || m->last_used < oldest->last_used))
            oldest = m;
    }
    return oldest;
}

static int count_loaded(const struct model_shelf *s)
{
    int n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->entry[i].state != SHELF_UNLOADED;
    return n;
}

static bool is_loading(const struct model_shelf *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->entry[i].state == SHELF_LOADING)
            return true;
    return false;
}

/* Freeing takes the device, so that it happens outside the lock, as a load does. */
static void unload(struct model_shelf *s, struct shelf_model *m)
{
    struct engine_model *model = m->model;
    m->model = NULL;
    m->state = SHELF_LOADING;
    pthread_mutex_unlock(&s->lock);
    engine_unload(s->engine, model);
    pthread_mutex_lock(&s->lock);
    m->state = SHELF_UNLOADED;
    pthread_cond_broadcast(&s->changed);
}

/* One load at a time. When memory is short, models that rest are unloaded, one after the other. */
static enum status load(struct model_shelf *s, struct shelf_model *m, struct error *err)
{
    m->state = SHELF_LOADING;
    enum status status;
    struct shelf_model *rests = NULL;
    do {
        if (rests)
            unload(s, rests);
        pthread_mutex_unlock(&s->lock);
        status = engine_load(s->engine, m->path, &m->model, err);
        pthread_mutex_lock(&s->lock);
    } while (status == STATUS_NO_MEMORY && (rests = longest_unused(s)));
    m->state = status == STATUS_OK ? SHELF_LOADED : SHELF_UNLOADED;
    m->loaded_unix = clock_unix();
    pthread_cond_broadcast(&s->changed);
    return status;
}

static enum status make_room(struct model_shelf *s, struct error *err)
{
    while (s->max_loaded > 0 && count_loaded(s) >= s->max_loaded) {
        struct shelf_model *rests = longest_unused(s);
        if (!rests)
            return error_set(err, STATUS_EXHAUSTED,
                             "%d models are loaded, as many as this server keeps, and all of them "
                             "are in use",
                             s->max_loaded);
        unload(s, rests);
    }
    return STATUS_OK;
}

static enum status load_once(struct model_shelf *s, struct shelf_model *m, bool explicit_load,
                             struct error *err)
{
    while (m->state == SHELF_LOADING || (m->state == SHELF_UNLOADED && is_loading(s)))
        pthread_cond_wait(&s->changed, &s->lock);
    if (m->state == SHELF_LOADED)
        return STATUS_OK;
    if (!s->autoload && !explicit_load)
        return error_set(err, STATUS_NOT_FOUND, "the model '%s' is not loaded: POST /models/load",
                         m->id);
    m->n_users++; /* nobody takes it for one that rests */
    enum status status = make_room(s, err);
    if (status == STATUS_OK)
        status = load(s, m, err);
    m->n_users--;
    return status;
}

/* --- any thread ------------------------------------------------------------------------------ */

enum status model_shelf_acquire(struct model_shelf *s, struct shelf_model *m, bool explicit_load,
                                struct error *err)
{
    pthread_mutex_lock(&s->lock);
    enum status status = load_once(s, m, explicit_load, err);
    if (status == STATUS_OK) {
        m->n_users++;
        m->last_used = clock_seconds();
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

bool model_shelf_try_acquire(struct model_shelf *s, struct shelf_model *m)
{
    pthread_mutex_lock(&s->lock);
    bool loaded = m->state == SHELF_LOADED;
    m->n_users += loaded;
    pthread_mutex_unlock(&s->lock);
    return loaded;
}

void model_shelf_release_model(struct model_shelf *s, struct shelf_model *m, bool used)
{
    pthread_mutex_lock(&s->lock);
    m->n_users--;
    if (used)
        m->last_used = clock_seconds();
    if (m->n_users == 0)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* A reply that was just sent may still hold the model. */
static void wait_for_users(struct model_shelf *s, const struct shelf_model *m)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    int waited = 0;
    while (waited == 0 && (m->state == SHELF_LOADING || m->n_users > 0))
        waited = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    while (m->state == SHELF_LOADING)
        pthread_cond_wait(&s->changed, &s->lock);
}

enum status model_shelf_unload(struct model_shelf *s, struct shelf_model *m, struct error *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&s->lock);
    wait_for_users(s, m);
    if (m->state == SHELF_LOADED && m->n_users > 0)
        status = error_set(err, STATUS_EXHAUSTED, "the model '%s' is in use by %d requests", m->id,
                           m->n_users);
    else if (m->state == SHELF_LOADED)
        unload(s, m);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum shelf_state model_shelf_state(struct model_shelf *s, const struct shelf_model *m)
{
    pthread_mutex_lock(&s->lock);
    enum shelf_state state = m->state;
    pthread_mutex_unlock(&s->lock);
    return state;
}

/* --- the keeper ------------------------------------------------------------------------------ */

static void unload_idle(struct model_shelf *s)
{
    double before = clock_seconds() - s->idle_unload;
    for (size_t i = 0; i < s->n; i++) {
        struct shelf_model *m = &s->entry[i];
        if (m->state == SHELF_LOADED && m->n_users == 0 && m->last_used < before)
            unload(s, m);
    }
}

static void *keeper_main(void *argument)
{
    struct model_shelf *s = argument;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct timespec next;
        clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&s->changed, &s->lock, &next);
        unload_idle(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum status model_shelf_keep(struct model_shelf *s, struct error *err)
{
    if (s->idle_unload <= 0)
        return STATUS_OK;
    s->has_keeper = thread_start(&s->keeper, keeper_main, s) == 0;
    return s->has_keeper ? STATUS_OK
                         : error_set(err, STATUS_NO_MEMORY, "a thread cannot be started");
}

void model_shelf_release(struct model_shelf *s)
{
    if (s->has_keeper) {
        pthread_mutex_lock(&s->lock);
        s->stopping = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->keeper, NULL);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    mem_free(s->entry);
}
