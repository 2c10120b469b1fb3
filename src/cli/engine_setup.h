/* engine_setup: from flags to the engine, for every command that runs a model.
 *
 * Ownership: engine_setup_release() frees what the reading allocated; the engine and its options
 * borrow from the struct until then. Threads: the main thread; the log sink locks for itself. */
#ifndef CLI_ENGINE_SETUP_H
#define CLI_ENGINE_SETUP_H

#include "base/arena.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/term.h"
#include "engine/engine.h"

struct engine_setup {
    struct arena arena;
    struct engine_options engine;
    struct sampling sampling;   /* only what flags give */
    const struct str *stop;     /* --stop */
    int32_t n_stop;
    int32_t max_tokens;         /* 0: until stop or context end */
    int32_t min_tokens;
    bool ignore_eos;
    const struct str *script;   /* raw assistant turns */
    size_t n_script;
    struct progress progress;   /* the engine borrows it */
    struct log_sink log;        /* "note: ..." on stderr; levels by --quiet and --verbose */
};

/* What the sampling flags alone show to be wrong: CLI_OK, or the state after a message. */
int engine_setup_check(const struct options *, const char *command);
/* Reads model_options, template_options, engine_options and device_options. */
MUST_CHECK enum status engine_setup_read(struct engine_setup *, const struct options *,
                                         struct error *err);
void engine_setup_read_sampling(struct engine_setup *, const struct options *);
MUST_CHECK enum status engine_setup_read_answer(struct engine_setup *, const struct options *,
                                                struct error *err);
void engine_setup_release(struct engine_setup *);

/* Makes the engine alone; what it loads until progress_end(&progress) has a progress line on a
 * terminal. */
MUST_CHECK enum status engine_setup_open(struct engine_setup *, const struct options *,
                                         struct engine **, struct error *err);
/* Makes the engine and loads the model. */
MUST_CHECK enum status engine_setup_load(struct engine_setup *, const struct options *,
                                         const char *model_path, struct engine **,
                                         struct engine_model **, struct error *err);

#endif
