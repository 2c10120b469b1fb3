/* model_shelf: the models that a server offers, loaded when somebody asks for them.
 *
 * An entry has a name from the start (read from the file's header), its engine model only while
 * it is loaded. Whoever uses one holds it: acquire loads if needed and may first unload others
 * that nobody holds, those unused for longest first, when there are more than `max_loaded` or
 * memory is short. Without a loaded model requests to it wait in acquire.
 * Ownership: entries live as long as the shelf; engine models belong to the engine. Threads: any;
 * acquire may block for the time of a load, never call it on the HTTP thread. */
#ifndef SERVER_MODEL_SHELF_H
#define SERVER_MODEL_SHELF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"

enum shelf_state { SHELF_UNLOADED, SHELF_LOADING, SHELF_LOADED };

struct shelf_model {
    const char *id, *path;      /* id: what the API calls it */
    const char *const *aliases; /* [n_aliases] other names it answers to */
    size_t n_aliases;
    struct engine_model *model; /* NULL unless loaded */
    enum shelf_state state;
    int n_users;
    double last_used; /* monotonic seconds */
    int64_t loaded_unix;
};

struct model_shelf {
    struct engine *engine;
    struct shelf_model *entry; /* [n] the first is the default */
    size_t n;
    int max_loaded;       /* 0: as many as memory holds */
    double idle_unload;   /* seconds without use; 0: never */
    bool autoload;        /* load on a request; else only by /models/load */
    pthread_mutex_t lock; /* guards the entries and what follows */
    pthread_cond_t changed;
    pthread_t keeper;
    bool has_keeper, stopping;
};

/* Takes over `entry`; strings are borrowed. Entries have id, path and aliases set, and model if
 * it is loaded already. */
void model_shelf_init(struct model_shelf *s, struct engine *engine, struct shelf_model *entry,
                      size_t n);
/* With idle_unload: starts the thread that unloads what rests. */
MUST_CHECK enum status model_shelf_keep(struct model_shelf *s, struct error *err);
void model_shelf_release(struct model_shelf *s);

/* By id or alias. NULL: there is none of that name. */
struct shelf_model *model_shelf_find(const struct model_shelf *s, struct str name);

/* Holds a loaded model. NOT_FOUND when it is unloaded and may not be loaded by a request. */
MUST_CHECK enum status model_shelf_acquire(struct model_shelf *s, struct shelf_model *m,
                                           bool explicit_load, struct error *err);
/* `used`: it counts as work, and the time until an idle model is unloaded starts again. */
void model_shelf_release_model(struct model_shelf *s, struct shelf_model *m, bool used);
/* Holds it only if it is loaded; never blocks. */
bool model_shelf_try_acquire(struct model_shelf *s, struct shelf_model *m);

/* EXHAUSTED: somebody uses it, for a second already. An unloaded one is fine. */
MUST_CHECK enum status model_shelf_unload(struct model_shelf *s, struct shelf_model *m,
                                          struct error *err);
enum shelf_state model_shelf_state(struct model_shelf *s, const struct shelf_model *m);

#endif
