/* engine_fixture: an engine with one model, and answers with everything that can be compared. */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/metrics.h"
#include "unit/cmocka_setup.h"

#define FIXTURE_TOP 4
#define FIXTURE_ANSWER 512

struct fixture {
    struct engine *engine;
    struct engine_model *model;
    int32_t n_vocab;
};

static inline struct fixture fixture_start(const char *path, const struct engine_options *o)
{
    struct fixture f;
    struct error err = { 0 };
    if (engine_new(o, &f.engine, &err) != STATUS_OK ||
        engine_load(f.engine, path, &f.model, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    f.n_vocab = engine_model_info(f.model)->n_vocab;
    return f;
}

/* A folder of its own under /tmp; borrowed until the next call. */
static inline const char *fixture_make_folder(void)
{
    static char folder[64];
    snprintf(folder, sizeof folder, "/tmp/ingot-state-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static inline int fixture_remove_entry(const char *path, const struct stat *info, int kind,
                                       struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void fixture_remove_folder(const char *folder)
{
    assert_int_equal(nftw(folder, fixture_remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void fixture_tokens(const struct fixture *f, int32_t *out, int32_t n, uint32_t seed)
{
    for (int32_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (int32_t)((seed >> 8) % (uint32_t)f->n_vocab);
    }
}

/* Greedy, to its full length, drafting nothing. */
static inline struct request_options fixture_request(const struct fixture *f, const int32_t *tokens,
                                                     int32_t n, int32_t answer)
{
    struct request_options o = {
        .model = f->model,
        .tokens = tokens,
        .n_tokens = n,
        .sampling = sampling_builtin,
        .max_tokens = answer,
        .ignore_eos = true,
        .n_logprobs = -1,
        .lookup = -1,
    };
    o.sampling.temperature = 0;
    return o;
}

static inline struct request *fixture_submit(const struct fixture *f,
                                             const struct request_options *o)
{
    struct request *r = NULL;
    struct error err = { 0 };
    if (engine_submit(f->engine, o, &r, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return r;
}

struct answer {
    int32_t n, cached;
    enum cache_source source;
    enum finish_reason finish;
    int32_t id[FIXTURE_ANSWER];
    struct token_probability top[FIXTURE_ANSWER][1 + FIXTURE_TOP]; /* the drawn one first */
};

/* Reads to the end and drops the request. Prompt tokens of echo_logprobs count as the answer's. */
static inline void fixture_answer(struct request *r, struct answer *a)
{
    struct event e = { 0 };
    memset(a, 0, sizeof *a);
    while (request_wait(r, &e) && e.kind != EVENT_DONE) {
        if (e.kind == EVENT_PROGRESS)
            continue;
        assert_in_range(a->n, 0, FIXTURE_ANSWER - 1);
        a->id[a->n] = e.token;
        a->top[a->n][0] = e.drawn;
        for (int i = 0; i < e.n_top && i < FIXTURE_TOP; i++)
            a->top[a->n][1 + i] = e.top[i];
        a->n++;
    }
    if (e.finish == FINISH_ERROR)
        fail_msg("%s", e.error.message);
    a->finish = e.finish;
    a->cached = e.usage.cached_tokens;
    a->source = e.usage.cache_source;
    request_drop(r);
}

static inline void fixture_ask(const struct fixture *f, const struct request_options *o,
                               struct answer *a)
{
    fixture_answer(fixture_submit(f, o), a);
}

static inline void fixture_same_ids(const struct answer *a, const struct answer *b,
                                    const char *what)
{
    for (int32_t i = 0; i < MAX(a->n, b->n); i++)
        if (i >= a->n || i >= b->n || a->id[i] != b->id[i])
            fail_msg("%s: token %d of %d and %d: %d and %d", what, i, a->n, b->n,
                     i < a->n ? a->id[i] : -1, i < b->n ? b->id[i] : -1);
}

static inline uint64_t fixture_count(const struct fixture *f, enum engine_counter c)
{
    return metrics_value(engine_metrics(f->engine), c);
}

/* Pages are dropped just before the last event is seen, the numbers are published after it. */
static inline void fixture_all_returned(const struct fixture *f)
{
    struct engine_status s;
    for (int i = 0; i < 2000; i++) {
        engine_status(f->engine, &s);
        if (s.pages_used == 0 && s.n_running == 0 && s.n_waiting == 0)
            return;
        struct timespec pause = { 0, 1000000 };
        nanosleep(&pause, NULL);
    }
    fail_msg("%lld pages, %d running, %d waiting are left", (long long)s.pages_used, s.n_running,
             s.n_waiting);
}

#endif
