/* The engine on tiny checkpoints: many requests at once answer as each does alone, forks share
 * pages, pages come back, cancelling works from any thread, bad requests are refused. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/metrics.h"

#define LLAMA "tests/data/golden/llama-base/model.gguf"
#define GEMMA "tests/data/golden/gemma3-base/model.gguf" /* sliding windows */
#define MAX_ANSWER 120

struct fixture {
    struct engine *engine;
    struct engine_model *model;
    int32_t n_vocab;
};

static struct fixture start(const char *path, int32_t context, int32_t sequences, int32_t batch)
{
    struct engine_options o = {
        .device = "cpu", .n_threads = 1, .exact = true, .context = context,
        .batch_tokens = batch, .max_sequences = sequences, .no_text = true,
    };
    struct fixture f;
    struct error err = { 0 };
    if (engine_new(&o, &f.engine, &err) != STATUS_OK ||
        engine_load(f.engine, path, &f.model, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    f.n_vocab = engine_model_info(f.model)->n_vocab;
    return f;
}

static struct request_options request_for(const struct fixture *f, const int32_t *tokens,
                                          int32_t n, int32_t answer)
{
    struct request_options o = {
        .model = f->model, .tokens = tokens, .n_tokens = n, .sampling = sampling_builtin,
        .max_tokens = answer, .ignore_eos = true, .n_logprobs = -1,
    };
    o.sampling.temperature = 0;
    return o;
}

static void prompt_of(const struct fixture *f, int32_t *out, int32_t n, uint32_t seed)
{
    for (int32_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (int32_t)((seed >> 8) % (uint32_t)f->n_vocab);
    }
}

static struct request *submit(const struct fixture *f, const struct request_options *o)
{
    struct request *r = NULL;
    struct error err = { 0 };
    if (engine_submit(f->engine, o, &r, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return r;
}

/* Reads to the end; ids may be NULL. */
static struct event collect(struct request *r, int32_t *ids, int32_t *n)
{
    struct event e;
    *n = 0;
    while (request_wait(r, &e)) {
        if (e.kind == EVENT_TOKEN && ids)
            ids[*n] = e.token;
        *n += e.kind == EVENT_TOKEN;
        if (e.kind == EVENT_DONE)
            break;
    }
    assert_int_equal(e.kind, EVENT_DONE);
    return e;
}

/* Pages are dropped just before the last event is seen, the numbers are published after it. */
static void check_all_returned(const struct fixture *f)
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

static void check_batch(const char *path, int32_t context, int32_t sequences)
{
    enum { N = 12 };
    int32_t prompt[N][200], length[N], alone[N][MAX_ANSWER], together[N][MAX_ANSWER];
    int32_t n_alone[N], n_together[N];
    struct request *r[N];
    struct fixture f = start(path, context, sequences, 64);
    for (int i = 0; i < N; i++) {
        length[i] = 1 + i * 17 % 180;
        prompt_of(&f, prompt[i], length[i], (uint32_t)i);
        struct request_options o = request_for(&f, prompt[i], length[i], 20 + 6 * i);
        if (i % 3 == 1) {
            o.sampling.temperature = 1;
            o.sampling.has_seed = true;
            o.sampling.seed = (uint64_t)i;
        }
        r[i] = submit(&f, &o);
        struct event e = collect(r[i], alone[i], &n_alone[i]);
        assert_int_equal(e.finish, FINISH_LENGTH);
        assert_int_equal(n_alone[i], 20 + 6 * i);
        request_drop(r[i]);
    }
    for (int i = 0; i < N; i++) {
        struct request_options o = request_for(&f, prompt[i], length[i], 20 + 6 * i);
        if (i % 3 == 1) {
            o.sampling.temperature = 1;
            o.sampling.has_seed = true;
            o.sampling.seed = (uint64_t)i;
        }
        r[i] = submit(&f, &o);
    }
    for (int i = 0; i < N; i++) {
        struct event e = collect(r[i], together[i], &n_together[i]);
        assert_int_equal(e.finish, FINISH_LENGTH);
        assert_int_equal(n_together[i], n_alone[i]);
        assert_memory_equal(together[i], alone[i], (size_t)n_alone[i] * sizeof(int32_t));
        request_drop(r[i]);
    }
    check_all_returned(&f);
    engine_free(f.engine);
}

static void batched_as_alone(void **state)
{
    (void)state;
    check_batch(LLAMA, 512, 8);
    check_batch(GEMMA, 512, 8);
}

/* One context for many: the newest give their pages back and are read again. */
static void out_of_pages(void **state)
{
    (void)state;
    check_batch(LLAMA, 320, 12);
}

/* Answers over a repetitive prompt, drafted or not: the same ids, greedy and seeded, with
 * penalties, alone and together. */
static bool check_drafts(const char *path)
{
    enum { N = 4, ANSWER = 150 };
    struct fixture f = start(path, 512, N, 64);
    int32_t prompt[200], plain[N][ANSWER], drafted[ANSWER], n;
    struct request_options o[N];
    struct request *r[N];
    prompt_of(&f, prompt, 20, 7);
    for (int i = 20; i < 200; i++)
        prompt[i] = prompt[i - 20];
    for (int i = 0; i < N; i++) {
        o[i] = request_for(&f, prompt, 200 - i, ANSWER - i);
        o[i].lookup = -1;
        o[i].n_logprobs = i == 3 ? 2 : -1;
        o[i].min_tokens = i == 3 ? 100 : 0;
        if (i > 0) {
            o[i].sampling.temperature = 0.7;
            o[i].sampling.has_seed = true;
            o[i].sampling.seed = (uint64_t)i;
            o[i].sampling.repetition_penalty = i == 2 ? 1.3 : 1.0;
        }
        r[i] = submit(&f, &o[i]);
        collect(r[i], plain[i], &n);
        assert_int_equal(n, ANSWER - i);
        request_drop(r[i]);
        o[i].lookup = 31;
    }
    for (int together = 0; together < 2; together++) {
        for (int i = 0; i < N; i++) {
            r[i] = together && i > 0 ? r[i] : submit(&f, &o[i]);
            for (int j = 1; together && i == 0 && j < N; j++)
                r[j] = submit(&f, &o[j]);
            collect(r[i], drafted, &n);
            assert_int_equal(n, ANSWER - i);
            assert_memory_equal(drafted, plain[i], (size_t)n * sizeof *drafted);
            request_drop(r[i]);
        }
    }
    const struct engine_metrics *m = engine_metrics(f.engine);
    uint64_t accepted = metrics_value(m, COUNTER_ACCEPTED_LOOKUP);
    assert_true(metrics_value(m, COUNTER_PROPOSED_LOOKUP) >= accepted);
    check_all_returned(&f);
    engine_free(f.engine);
    return accepted > 0;
}

/* Whether guesses are worth it is decided by measured time: a stall may say no. */
static void drafted_as_plain(void **state)
{
    (void)state;
    static const char *const paths[] = { LLAMA, GEMMA };
    for (int k = 0; k < 2; k++) {
        int tries = 1;
        while (!check_drafts(paths[k]))
            assert_true(++tries <= 5);
    }
}

/* A 9 takes the seat of a 5 at once; who made room goes on later and answers the same. */
static void priority_takes_a_seat(void **state)
{
    (void)state;
    struct fixture f = start(LLAMA, 512, 2, 64);
    int32_t prompt[100], ids[3][300], alone[300], n;
    struct request *r[3];
    prompt_of(&f, prompt, 100, 1);
    for (int i = 0; i < 3; i++) {
        struct request_options o = request_for(&f, prompt, 100 - i, i == 2 ? 3 : 300);
        o.priority = i == 2 ? 9 : 5;
        r[i] = submit(&f, &o);
    }
    struct engine_status status;
    collect(r[2], ids[2], &n);
    assert_int_equal(n, 3);
    engine_status(f.engine, &status);
    assert_int_equal(status.requests_done, 1); /* neither of those that came first */
    for (int i = 0; i < 2; i++) {
        collect(r[i], ids[i], &n);
        assert_int_equal(n, 300);
    }
    for (int i = 0; i < 3; i++) {
        struct request_options o = request_for(&f, prompt, 100 - i, i == 2 ? 3 : 300);
        struct request *one = submit(&f, &o);
        collect(one, alone, &n);
        assert_memory_equal(alone, ids[i], (size_t)n * sizeof *alone);
        request_drop(one);
        request_drop(r[i]);
    }
    check_all_returned(&f);
    engine_free(f.engine);
}

static void forks(void **state)
{
    (void)state;
    enum { N = 5 };
    static const char *const paths[] = { LLAMA, GEMMA };
    for (int k = 0; k < 2; k++) {
        struct fixture f = start(paths[k], 512, 8, 64);
        int32_t prompt[150], ids[N][40], alone[40], n;
        struct request_options o[N];
        struct request *r[N];
        struct error err = { 0 };
        prompt_of(&f, prompt, 150, 3);
        for (int i = 0; i < N; i++) {
            o[i] = request_for(&f, prompt, 150, 40);
            o[i].sampling.temperature = 1.2;
            o[i].sampling.has_seed = true;
            o[i].sampling.seed = (uint64_t)(100 + i);
        }
        assert_int_equal(engine_submit_group(f.engine, o, N, r, &err), STATUS_OK);
        for (int i = 0; i < N; i++) {
            struct event e = collect(r[i], ids[i], &n);
            assert_int_equal(n, 40);
            assert_int_equal(e.usage.cached_tokens, i == 0 ? 0 : 150);
            request_drop(r[i]);
        }
        for (int i = 0; i < N; i++) {
            struct request *one = submit(&f, &o[i]);
            collect(one, alone, &n);
            assert_memory_equal(alone, ids[i], sizeof alone);
            request_drop(one);
        }
        check_all_returned(&f);
        engine_free(f.engine);
    }
}

struct rows {
    float *logits;
    int32_t n_vocab, n_seen, first;
};

static void take_row(void *user, int32_t position, const float *logits, int32_t n_vocab)
{
    struct rows *rows = user;
    assert_int_equal(position, rows->first + rows->n_seen++);
    memcpy(rows->logits + (size_t)position * (size_t)n_vocab, logits,
           (size_t)n_vocab * sizeof *logits);
}

/* Any chunk size gives the same logits, bit for bit. */
static void chunks_agree(void **state)
{
    (void)state;
    static const int32_t batches[] = { 256, 64, 7, 1 };
    static const char *const paths[] = { LLAMA, GEMMA };
    for (int k = 0; k < 2; k++) {
        struct rows first = { 0 };
        for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
            struct fixture f = start(paths[k], 256, 1, batches[i]);
            int32_t prompt[150], n;
            prompt_of(&f, prompt, 150, 5);
            struct rows rows = { .n_vocab = f.n_vocab, .first = i == 1 ? 75 : 0 };
            rows.logits = mem_array(float, 150 * (size_t)f.n_vocab);
            struct request_options o = request_for(&f, prompt, 150, 0);
            o.prompt_only = true;
            o.prompt_logits = take_row;
            o.prompt_logits_from = rows.first;
            o.prompt_logits_user = &rows;
            struct request *r = submit(&f, &o);
            collect(r, NULL, &n);
            request_drop(r);
            engine_free(f.engine);
            assert_int_equal(n, 0);
            assert_int_equal(rows.n_seen, 150 - rows.first);
            if (i == 0) {
                first = rows;
                continue;
            }
            size_t skip = (size_t)rows.first * (size_t)f.n_vocab;
            assert_memory_equal(first.logits + skip, rows.logits + skip,
                                (150 * (size_t)f.n_vocab - skip) * sizeof(float));
            mem_free(rows.logits);
        }
        mem_free(first.logits);
    }
}

static void echo(void **state)
{
    (void)state;
    struct fixture f = start(LLAMA, 512, 2, 64);
    int32_t prompt[100], n_prompt = 0, n_answer = 0;
    prompt_of(&f, prompt, 100, 9);
    struct request_options o = request_for(&f, prompt, 100, 3);
    o.n_logprobs = 2;
    o.echo_logprobs = true;
    struct request *r = submit(&f, &o);
    struct event e;
    while (request_wait(r, &e) && e.kind != EVENT_DONE) {
        if (e.kind == EVENT_PROMPT) {
            assert_int_equal(e.token, prompt[n_prompt]);
            assert_int_equal(e.drawn.token, prompt[n_prompt]);
            assert_true(n_prompt == 0 ? isnan(e.drawn.logprob) : e.drawn.logprob <= 0);
            n_prompt++;
        }
        if (e.kind == EVENT_TOKEN) {
            assert_int_equal(e.top[0].token, e.token); /* greedy */
            n_answer++;
        }
    }
    assert_int_equal(n_prompt, 100);
    assert_int_equal(n_answer, 3);
    request_drop(r);
    engine_free(f.engine);
}

static void limits(void **state)
{
    (void)state;
    struct fixture f = start(LLAMA, 128, 2, 64);
    struct request *r = NULL;
    struct error err = { 0 };
    int32_t prompt[129], n;
    prompt_of(&f, prompt, 129, 1);
    struct request_options o = request_for(&f, prompt, 128, 5);
    assert_int_equal(engine_submit(f.engine, &o, &r, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "128"));
    assert_non_null(strstr(err.message, "127"));
    o.n_tokens = 127; /* room for one token */
    r = submit(&f, &o);
    struct event e = collect(r, NULL, &n);
    assert_int_equal(n, 1);
    assert_int_equal(e.finish, FINISH_LENGTH);
    assert_int_equal(e.usage.prompt_tokens + e.usage.completion_tokens, 128);
    request_drop(r);
    prompt[3] = f.n_vocab;
    assert_int_equal(engine_submit(f.engine, &o, &r, &err), STATUS_INVALID);
    prompt[3] = 0;
    o.n_tokens = 0;
    assert_int_equal(engine_submit(f.engine, &o, &r, &err), STATUS_INVALID);
    engine_free(f.engine);
}

/* What is not read pauses that request alone; what is cancelled ends soon. */
static void slow_reader_and_cancel(void **state)
{
    (void)state;
    struct fixture f = start(LLAMA, 2048, 4, 64);
    int32_t prompt[10], n;
    prompt_of(&f, prompt, 10, 2);
    struct request_options o = request_for(&f, prompt, 10, 1500);
    struct request *slow = submit(&f, &o), *endless = submit(&f, &o);
    o.max_tokens = 200;
    struct request *other = submit(&f, &o);
    struct event e = collect(other, NULL, &n);
    assert_int_equal(n, 200);
    request_drop(other);
    uint64_t start_ns = clock_ns();
    request_cancel(endless);
    e = collect(endless, NULL, &n);
    assert_int_equal(e.finish, FINISH_CANCELLED);
    print_message("cancelled after %.1f ms\n", (double)(clock_ns() - start_ns) / 1e6);
    request_drop(endless);
    e = collect(slow, NULL, &n);
    assert_int_equal(n, 1500);
    request_drop(slow);
    check_all_returned(&f);
    engine_free(f.engine);
}

struct worker {
    struct fixture *f;
    uint32_t seed;
};

static void *hammer(void *argument)
{
    struct worker *w = argument;
    uint32_t x = w->seed;
    for (int i = 0; i < 25; i++) {
        x = x * 1664525u + 1013904223u;
        int32_t prompt[150], n = 1 + (int32_t)((x >> 10) % 150);
        prompt_of(w->f, prompt, n, x);
        struct request_options o = request_for(w->f, prompt, n, 1 + (int32_t)((x >> 20) % 30));
        struct request *r;
        struct event e;
        if (engine_submit(w->f->engine, &o, &r, NULL) != STATUS_OK)
            continue;
        if (x >> 30 == 0) {
            request_drop(r);
            continue;
        }
        if (x >> 30 == 1)
            request_cancel(r);
        while (request_wait(r, &e))
            ;
        request_drop(r);
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct fixture f = start(GEMMA, 256, 4, 32);
    pthread_t thread[4];
    struct worker worker[4];
    for (int i = 0; i < 4; i++) {
        worker[i] = (struct worker){ &f, (uint32_t)i * 77u + 1u };
        pthread_create(&thread[i], NULL, hammer, &worker[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    check_all_returned(&f);
    /* A free with requests in flight ends them; handles outlive the engine. */
    int32_t prompt[100], n;
    prompt_of(&f, prompt, 100, 8);
    struct request_options o = request_for(&f, prompt, 100, 150);
    struct request *r[6];
    for (int i = 0; i < 6; i++)
        r[i] = submit(&f, &o);
    engine_free(f.engine);
    for (int i = 0; i < 6; i++) {
        struct event e = collect(r[i], NULL, &n);
        assert_true(e.finish == FINISH_CANCELLED || e.finish == FINISH_LENGTH);
        request_drop(r[i]);
    }
}

static void planned_is_used(void **state)
{
    (void)state;
    struct engine_options o = { .device = "cpu", .n_threads = 1, .context = 512,
                                .max_sequences = 2, .no_text = true };
    struct engine_plan plan;
    struct engine *engine = NULL;
    struct engine_model *m;
    struct error err = { 0 };
    if (engine_plan(&o, LLAMA, &plan, &err) != STATUS_OK ||
        engine_new(&o, &engine, &err) != STATUS_OK ||
        engine_load(engine, LLAMA, &m, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    const struct engine_model_info *info = engine_model_info(m);
    assert_int_equal(plan.kv_bytes, info->kv_bytes);
    assert_true(llabs(plan.weight_bytes - info->weight_bytes) * 100 <= 3 * info->weight_bytes);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),
        cmocka_unit_test(batched_as_alone),
        cmocka_unit_test(out_of_pages),
        cmocka_unit_test(drafted_as_plain),
        cmocka_unit_test(priority_takes_a_seat),
        cmocka_unit_test(forks),
        cmocka_unit_test(chunks_agree),
        cmocka_unit_test(echo),
        cmocka_unit_test(slow_reader_and_cancel),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(planned_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
