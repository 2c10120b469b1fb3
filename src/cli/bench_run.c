#include "cli/bench_run.h"

#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/cli.h"

#define SEED 7
#define ROOM 256 /* tokens that a stream may write while others still read, beside passes */
#define SMALLEST_PASS 64

struct stream {
    struct request *request;
    int64_t n_generated;
    int32_t n_read;
    bool done;
};

struct run {
    const struct bench_test *test;
    struct stream *stream;
    int32_t *prompt;
    int32_t n_prompt;
    sem_t wake;
    double start, end;   /* of what is counted */
    int64_t from, to;    /* tokens at those times */
    double submitted, seconds; /* the whole of the newest run */
    uint64_t number;     /* runs so far: every prompt is a new one */
};

int bench_test_context(const struct bench_test *t)
{
    if (t->n_gen == 0)
        return t->n_depth + t->n_prompt;
    return t->n_depth + t->n_gen + ROOM + t->n_streams * (t->n_depth / SMALLEST_PASS + 2);
}

void bench_test_name(const struct bench_test *t, char *out, size_t size)
{
    int n = t->n_gen ? snprintf(out, size, "tg%d", t->n_gen)
                     : snprintf(out, size, "pp%d", t->n_prompt);
    if (t->n_depth)
        n += snprintf(out + n, size - (size_t)n, " @ d%d", t->n_depth);
    if (t->n_streams > 1)
        snprintf(out + n, size - (size_t)n, " x %d", t->n_streams);
}

static void wake(void *user)
{
    sem_post(user);
}

static void fill_prompt(struct run *r, int32_t n_vocab)
{
    for (int32_t i = 0; i < r->n_prompt; i++)
        r->prompt[i] = (int32_t)(rng_uniform(SEED, r->number, (uint64_t)i) * n_vocab);
    r->number++;
}

static enum status submit(struct run *r, struct engine *engine, struct engine_model *model,
                          struct error *err)
{
    for (int i = 0; i < r->test->n_streams; i++) {
        fill_prompt(r, engine_model_info(model)->n_vocab);
        struct request_options o = {
            .model = model, .tokens = r->prompt, .n_tokens = r->n_prompt,
            .sampling = sampling_builtin, .ignore_eos = true, .n_logprobs = -1,
            .prompt_only = r->test->n_gen == 0, .notify = wake, .notify_user = &r->wake,
        };
        o.sampling.temperature = 0;
        TRY(engine_submit(engine, &o, &r->stream[i].request, err));
    }
    return STATUS_OK;
}

static enum status take_events(struct stream *s, struct error *err)
{
    struct event e;
    while (!s->done && request_next(s->request, &e)) {
        if (e.kind == EVENT_TOKEN && e.token >= 0)
            s->n_generated++;
        if (e.kind == EVENT_PROGRESS)
            s->n_read = e.prompt_done;
        s->done = e.kind == EVENT_DONE;
        if (s->done && e.finish == FINISH_ERROR) {
            *err = e.error;
            return err->status;
        }
    }
    return STATUS_OK;
}

/* True: all that is counted has happened. */
static bool count(struct run *r)
{
    const struct bench_test *t = r->test;
    int64_t all = 0, least = INT64_MAX;
    bool done = true;
    for (int i = 0; i < t->n_streams; i++) {
        const struct stream *s = &r->stream[i];
        int64_t n = t->n_gen ? s->n_generated : s->done ? r->n_prompt : s->n_read;
        all += n;
        least = MIN(least, n);
        done = done && s->done;
    }
    bool begun = t->n_gen ? least >= 1 : least == t->n_depth && t->n_depth > 0;
    if (begun && r->from < 0) {
        r->from = all;
        r->start = clock_seconds();
    }
    r->to = all;
    r->end = clock_seconds();
    bool enough = t->n_gen && r->from >= 0 && all - r->from >= (int64_t)t->n_gen * t->n_streams;
    return done || enough;
}

/* Sleeps until an event or a tenth of a second is over, so that Ctrl-C is seen. */
static void wait_for_event(sem_t *semaphore)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    while (sem_timedwait(semaphore, &until) != 0 && errno == EINTR && !cli_interrupted())
        ;
}

static enum status follow(struct run *r, struct error *err)
{
    for (;;) {
        if (cli_interrupted())
            return error_set(err, STATUS_CANCELLED, "interrupted");
        wait_for_event(&r->wake);
        for (int i = 0; i < r->test->n_streams; i++)
            TRY(take_events(&r->stream[i], err));
        if (count(r))
            return STATUS_OK;
    }
}

static enum status run_once(struct run *r, struct engine *engine, struct engine_model *model,
                            double *rate, struct error *err)
{
    int n = r->test->n_streams;
    r->stream = mem_array(struct stream, (size_t)n);
    /* A prompt that begins at depth 0 is counted from the moment it is handed over. */
    r->from = r->test->n_gen || r->test->n_depth ? -1 : 0;
    r->start = r->submitted = clock_seconds();
    enum status s = submit(r, engine, model, err);
    if (s == STATUS_OK)
        s = follow(r, err);
    for (int i = 0; i < n; i++)
        if (r->stream[i].request)
            request_drop(r->stream[i].request);
    mem_free(r->stream);
    if (s != STATUS_OK)
        return s;
    r->seconds = r->end - r->submitted;
    *rate = r->from >= 0 && r->to > r->from ? (double)(r->to - r->from) / (r->end - r->start) : 0;
    return STATUS_OK;
}

/* Where no pass ends at the depth: the time of the whole prompt less that of its beginning. */
static enum status run_difference(struct run *r, struct engine *engine, struct engine_model *model,
                                  double *rate, struct error *err)
{
    double whole = r->seconds, unused;
    r->n_prompt = r->test->n_depth;
    enum status s = run_once(r, engine, model, &unused, err);
    r->n_prompt = r->test->n_depth + r->test->n_prompt;
    TRY(s);
    if (whole <= r->seconds)
        return error_set(err, STATUS_INTERNAL,
                         "bench: %d tokens behind %d are lost in the noise of this machine",
                         r->test->n_prompt, r->test->n_depth);
    *rate = r->test->n_prompt / (whole - r->seconds);
    return STATUS_OK;
}

enum status bench_run(struct engine *engine, struct engine_model *model,
                      const struct bench_test *t, int repetitions, struct bench_result *out,
                      struct error *err)
{
    struct run r = { .test = t, .n_prompt = t->n_depth + (t->n_gen ? 1 : t->n_prompt) };
    r.prompt = mem_array(int32_t, (size_t)r.n_prompt);
    sem_init(&r.wake, 0, 0);
    double sum = 0, squares = 0, best = 0;
    enum status s = STATUS_OK;
    for (int i = -1; i < repetitions && s == STATUS_OK; i++) {
        double rate = 0;
        s = run_once(&r, engine, model, &rate, err);
        if (s == STATUS_OK && rate <= 0 && i >= 0)
            s = run_difference(&r, engine, model, &rate, err);
        if (i < 0)
            continue;
        sum += rate;
        squares += rate * rate;
        best = MAX(best, rate);
    }
    double mean = sum / repetitions, variance = squares / repetitions - mean * mean;
    double degrees = repetitions > 1 ? (double)repetitions / (repetitions - 1) : 0;
    *out = (struct bench_result){ mean, best, sqrt(MAX(variance, 0) * degrees) };
    sem_destroy(&r.wake);
    mem_free(r.prompt);
    return s;
}
