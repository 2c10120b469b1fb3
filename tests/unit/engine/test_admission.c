/* When requests are admitted, told by the passes that were run: those that arrive together share
 * one, and an important one waits for no more than the pass that runs. */
#include "unit/engine/engine_fixture.h"

#include <stdatomic.h>

#include "engine/admission_window.h"

#define LLAMA "tests/data/golden/llama-base/model.gguf"
#define N_TOGETHER 8
#define N_PROMPT 20
#define TRIES 200

static struct fixture start(int32_t sequences, int32_t window_ms)
{
    struct engine_options o = {
        .device = "cpu",
        .n_threads = 1,
        .exact = true,
        .context = 512,
        .batch_tokens = 256,
        .max_sequences = sequences,
        .no_text = true,
        .no_reuse = true,
        .admission_window_ms = window_ms,
    };
    return fixture_start(LLAMA, &o);
}

/* All answers together have one row each, so the passes are as many as the bursts that the
 * prompts were read in. */
static uint64_t passes_of_burst(const struct fixture *f, struct answer *answers)
{
    int32_t tokens[N_TOGETHER][N_PROMPT];
    struct request *r[N_TOGETHER];
    uint64_t before = fixture_count(f, COUNTER_PASSES);
    for (int i = 0; i < N_TOGETHER; i++) {
        fixture_tokens(f, tokens[i], N_PROMPT, (uint32_t)i);
        struct request_options o = fixture_request(f, tokens[i], N_PROMPT, 1);
        r[i] = fixture_submit(f, &o);
    }
    for (int i = 0; i < N_TOGETHER; i++)
        fixture_answer(r[i], &answers[i]);
    fixture_all_returned(f);
    return fixture_count(f, COUNTER_PASSES) - before;
}

static void together(void **state)
{
    (void)state;
    static struct answer with[N_TOGETHER], without[N_TOGETHER];
    struct fixture a = start(16, ADMISSION_WINDOW_MOST_MS), b = start(16, 0);
    uint64_t passes = 0;
    for (int i = 0; i < TRIES && passes != 1; i++) /* the machine may stall between two of them */
        passes = passes_of_burst(&a, with);
    assert_int_equal(passes, 1);
    passes_of_burst(&b, without);
    for (int i = 0; i < N_TOGETHER; i++)
        fixture_same_ids(&with[i], &without[i], "with a window and without");
    engine_free(a.engine);
    engine_free(b.engine);
}

/* Nothing waits for a burst when an engine ends. */
static void ends_while_waiting(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        static struct answer a;
        struct fixture f = start(4, ADMISSION_WINDOW_MOST_MS);
        int32_t tokens[N_PROMPT];
        fixture_tokens(&f, tokens, N_PROMPT, 3);
        struct request_options o = fixture_request(&f, tokens, N_PROMPT, 1);
        struct request *r = fixture_submit(&f, &o);
        engine_free(f.engine);
        fixture_answer(r, &a);
        assert_true(a.finish == FINISH_CANCELLED || a.finish == FINISH_LENGTH);
    }
}

struct watched {
    const struct fixture *fixture;
    atomic_ullong passes; /* when it had its first event */
};

static void note_passes(void *user)
{
    struct watched *w = user;
    unsigned long long none = 0;
    atomic_compare_exchange_strong(&w->passes, &none, fixture_count(w->fixture, COUNTER_PASSES));
}

/* Both seats and the queue are full of fives: the nine is read in the pass after the one that
 * runs when it comes. */
static void nine_waits_one_step(void **state)
{
    (void)state;
    enum { N_FIVES = 10 };
    static struct answer answer;
    struct fixture f = start(2, 0);
    int32_t tokens[N_PROMPT];
    struct request *five[N_FIVES];
    fixture_tokens(&f, tokens, N_PROMPT, 1);
    struct request_options o = fixture_request(&f, tokens, N_PROMPT, 300);
    o.priority = 5;
    for (int i = 0; i < N_FIVES; i++)
        five[i] = fixture_submit(&f, &o);
    while (fixture_count(&f, COUNTER_PASSES) < 5)
        ;
    for (int i = 0; i < 5; i++) {
        struct watched w = { .fixture = &f };
        o.max_tokens = 1;
        o.priority = 9;
        o.notify = note_passes;
        o.notify_user = &w;
        uint64_t before = fixture_count(&f, COUNTER_PASSES);
        fixture_answer(fixture_submit(&f, &o), &answer);
        assert_in_range(atomic_load(&w.passes), before + 1, before + 2);
    }
    struct engine_status status;
    engine_status(f.engine, &status);
    assert_int_equal(status.requests_done, 5); /* no five has ended */
    for (int i = 0; i < N_FIVES; i++)
        request_drop(five[i]);
    fixture_all_returned(&f);
    engine_free(f.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together),
        cmocka_unit_test(ends_while_waiting),
        cmocka_unit_test(nine_waits_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
