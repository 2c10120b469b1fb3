/* What the engine takes over instead of computing: answers are those of an engine that reuses
 * nothing, and the counts say how much was taken over. */
#include "unit/engine/engine_fixture.h"

#include "engine/prefix_tree.h"

#define LLAMA "tests/data/golden/llama-base/model.gguf"
#define GEMMA "tests/data/golden/gemma3-base/model.gguf" /* sliding windows */
#define QWEN3 "tests/data/golden/qwen3-base/hf"
#define MAX_ANSWER 100

static const char *const paths[] = { LLAMA, GEMMA, QWEN3 };

static struct fixture start(const char *path, int32_t context, int32_t sequences, int32_t batch,
                            bool reuse, int64_t cache_bytes)
{
    struct engine_options o = {
        .device = "cpu",
        .n_threads = 1,
        .exact = true,
        .context = context,
        .batch_tokens = batch,
        .max_sequences = sequences,
        .no_text = true,
        .no_reuse = !reuse,
        .cache_bytes = cache_bytes,
    };
    return fixture_start(path, &o);
}

static struct request *ask_drafting(const struct fixture *f, const int32_t *tokens, int32_t n,
                                    int32_t answer, int32_t lookup)
{
    struct request_options o = fixture_request(f, tokens, n, answer);
    o.lookup = lookup;
    return fixture_submit(f, &o);
}

static struct request *ask(const struct fixture *f, const int32_t *tokens, int32_t n,
                           int32_t answer)
{
    return ask_drafting(f, tokens, n, answer, -1);
}

/* Returns how many tokens were taken over. */
static int32_t answer_of(struct request *r, int32_t *ids, int32_t expected)
{
    struct event e = { 0 };
    int32_t n = 0;
    while (request_wait(r, &e) && e.kind != EVENT_DONE)
        if (e.kind == EVENT_TOKEN)
            ids[n++] = e.token;
    if (e.finish == FINISH_ERROR)
        fail_msg("%s", e.error.message);
    assert_int_equal(n, expected);
    request_drop(r);
    return e.usage.cached_tokens;
}

/* The same prompts, one after the other, with and without reuse. */
static int32_t check_same(const struct fixture *with, const struct fixture *without,
                          const int32_t *tokens, int32_t n, int32_t *ids)
{
    int32_t plain[MAX_ANSWER];
    int32_t taken = answer_of(ask(with, tokens, n, 40), ids, 40);
    assert_int_equal(answer_of(ask(without, tokens, n, 40), plain, 40), 0);
    assert_memory_equal(ids, plain, 40 * sizeof(int32_t));
    return taken;
}

static void turns(void **state)
{
    (void)state;
    static const int32_t batches[] = { 1, 64, 256, 100 };
    for (size_t k = 0; k < ARRAY_SIZE(paths) * ARRAY_SIZE(batches); k++) {
        const char *path = paths[k / ARRAY_SIZE(batches)];
        int32_t batch = batches[k % ARRAY_SIZE(batches)];
        struct fixture a = start(path, 512, 4, batch, true, 0);
        struct fixture b = start(path, 512, 4, batch, false, 0);
        int32_t tokens[400], ids[MAX_ANSWER];
        fixture_tokens(&a, tokens, 150, 11);
        assert_int_equal(check_same(&a, &b, tokens, 150, ids), 0);
        /* The next turn: the answer but its last token is known. */
        memcpy(tokens + 150, ids, 40 * sizeof(int32_t));
        fixture_tokens(&a, tokens + 190, 30, 12);
        assert_int_equal(check_same(&a, &b, tokens, 220, ids), 189);
        /* The same again: all but the token that is drawn from. */
        assert_int_equal(check_same(&a, &b, tokens, 220, ids), 219);
        /* An edit: read again from there. */
        tokens[170] ^= 1;
        int32_t taken = check_same(&a, &b, tokens, 220, ids);
        assert_true(taken == 170 || (k / ARRAY_SIZE(batches) == 1 && taken <= 170));
        engine_free(a.engine);
        engine_free(b.engine);
    }
}

/* Wrong guesses are computed, too, and stay behind the state: what the next turns take over is the
 * answer. False: no guess was wrong, which measured time decides. */
static bool check_drafts(const char *path)
{
    struct fixture a = start(path, 512, 2, 64, true, 0);
    struct fixture b = start(path, 512, 2, 64, false, 0);
    int32_t tokens[512], ids[MAX_ANSWER], plain[MAX_ANSWER], n = 100;
    fixture_tokens(&a, tokens, 20, 3);
    for (int32_t i = 20; i < n; i++)
        tokens[i] = tokens[i - 20];
    for (int turn = 0; turn < 4; turn++) {
        int32_t taken = answer_of(ask_drafting(&a, tokens, n, 60, 31), ids, 60);
        assert_int_equal(taken, turn == 0 ? 0 : n - 21);
        answer_of(ask(&b, tokens, n, 60), plain, 60);
        assert_memory_equal(ids, plain, 60 * sizeof(int32_t));
        memcpy(tokens + n, ids, 60 * sizeof(int32_t));
        memcpy(tokens + n + 60, tokens, 20 * sizeof(int32_t));
        n += 80;
    }
    const struct engine_metrics *m = engine_metrics(a.engine);
    bool wrong = metrics_value(m, COUNTER_PROPOSED_LOOKUP) >
                 metrics_value(m, COUNTER_ACCEPTED_LOOKUP);
    engine_free(a.engine);
    engine_free(b.engine);
    return wrong;
}

static void drafted(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
        int tries = 1;
        while (!check_drafts(paths[k]))
            assert_true(++tries <= 5);
    }
}

static uint64_t prompt_tokens(const struct fixture *f)
{
    struct engine_status s;
    engine_status(f->engine, &s);
    return s.prompt_tokens;
}

/* Eight that share 200 tokens read them once, also when they arrive together. */
static void together(void **state)
{
    (void)state;
    enum { N = 8 };
    for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
        struct fixture a = start(paths[k], 512, N, 64, true, 0);
        struct fixture b = start(paths[k], 512, N, 64, false, 0);
        int32_t tokens[N][220], ids[MAX_ANSWER], plain[MAX_ANSWER];
        struct request *r[N];
        for (int i = 0; i < N; i++) {
            fixture_tokens(&a, tokens[i], 200, 5);
            fixture_tokens(&a, tokens[i] + 200, 20, 100u + (uint32_t)i);
        }
        for (int i = 0; i < N; i++)
            r[i] = ask(&a, tokens[i], 220, 30);
        for (int i = 0; i < N; i++) {
            answer_of(r[i], ids, 30);
            answer_of(ask(&b, tokens[i], 220, 30), plain, 30);
            assert_memory_equal(ids, plain, 30 * sizeof(int32_t));
        }
        assert_in_range(prompt_tokens(&a), 192 + N * 20, 192 + N * 28);
        engine_free(a.engine);
        engine_free(b.engine);
    }
}

/* One context of pages for six conversations: what is displaced comes back from host memory. */
static void displaced(void **state)
{
    (void)state;
    enum { N = 6 };
    for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
        struct fixture a = start(paths[k], 320, 1, 64, true, 0);
        struct fixture none = start(paths[k], 320, 1, 64, true, -1);
        struct fixture b = start(paths[k], 320, 1, 64, false, 0);
        int32_t tokens[N][280], ids[MAX_ANSWER], taken_none = 0;
        for (int turn = 0; turn < 2; turn++)
            for (int i = 0; i < N; i++) {
                int32_t n = turn == 0 ? 200 : 260;
                if (turn == 0)
                    fixture_tokens(&a, tokens[i], 200, 40u + (uint32_t)i);
                else
                    fixture_tokens(&a, tokens[i] + 240, 20, 60u + (uint32_t)i);
                int32_t taken = check_same(&a, &b, tokens[i], n, ids);
                taken_none += check_same(&none, &b, tokens[i], n, ids);
                assert_int_equal(taken, turn == 0 ? 0 : 239);
                memcpy(tokens[i] + 200, ids, turn == 0 ? 40 * sizeof(int32_t) : 0);
            }
        assert_true(taken_none < 2 * 239); /* without host memory most of it is read again */
        engine_free(a.engine);
        engine_free(none.engine);
        engine_free(b.engine);
    }
}

static void value(void **state)
{
    (void)state;
    double one = prefix_value(64, 1e-3, 0, 1000);
    assert_true(prefix_value(128, 1e-3, 0, 1000) == 2 * one);
    assert_true(prefix_value(64, 2e-3, 0, 1000) == 2 * one);
    assert_true(prefix_value(64, 1e-3, 0, 2000) == one / 2);
    assert_true(prefix_value(64, 1e-3, 600, 1000) == one / 2);
    assert_true(prefix_value(64, 1e-3, 60, 1000) < one);
    assert_true(prefix_value(64, 1e-3, 1e30, 1000) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns),
        cmocka_unit_test(drafted),
        cmocka_unit_test(together),
        cmocka_unit_test(displaced),
        cmocka_unit_test(value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
