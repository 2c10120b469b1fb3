/* State of a fixed size, beside pages: checkpoints, forks, what drafts and preemption do to it.
 * Every answer is that of an engine that takes nothing over and drafts nothing. */
#include "engine/drafter.h"
#include "unit/engine/engine_fixture.h"
#include "unit/engine/hybrid_family.h"

static const char *path;

static struct fixture start(int32_t context, int32_t sequences, bool reuse, int32_t interval)
{
    return fixture_start(path, &(struct engine_options){
                                   .device = "cpu",
                                   .n_threads = 1,
                                   .exact = true,
                                   .context = context,
                                   .batch_tokens = 100,
                                   .max_sequences = sequences,
                                   .no_text = true,
                                   .no_reuse = !reuse,
                                   .checkpoint_interval = interval,
                                   .family = &hybrid_family,
                               });
}

/* Returns how many tokens were taken over. */
static int32_t check_same(const struct fixture *with, const struct fixture *without,
                          const int32_t *tokens, int32_t n, int32_t lookup, struct answer *a)
{
    static struct answer plain;
    struct request_options o = fixture_request(without, tokens, n, 40);
    fixture_ask(without, &o, &plain);
    assert_int_equal(plain.cached, 0);
    o = fixture_request(with, tokens, n, 40);
    o.lookup = lookup;
    fixture_ask(with, &o, a);
    fixture_same_ids(a, &plain, "reused");
    return a->cached;
}

static void taken_over_at_checkpoints(void **state)
{
    (void)state;
    static struct answer a;
    for (int32_t interval = 64; interval <= 256; interval *= 4) {
        struct fixture with = start(1024, 4, true, interval), without = start(1024, 4, false, 0);
        int32_t tokens[700];
        fixture_tokens(&with, tokens, 150, 11);
        assert_int_equal(check_same(&with, &without, tokens, 150, -1, &a), 0);
        /* The next turn goes on behind the answer but its last token. */
        memcpy(tokens + 150, a.id, 40 * sizeof(int32_t));
        fixture_tokens(&with, tokens + 190, 30, 12);
        assert_int_equal(check_same(&with, &without, tokens, 220, -1, &a), 189);
        /* Its last token is not read yet where the prompt ends: the checkpoint before that. */
        int32_t before = interval == 64 ? 192 : 189;
        assert_int_equal(check_same(&with, &without, tokens, 220, -1, &a), before);
        /* An edit in the answer: where the answer began. */
        tokens[170] ^= 1;
        assert_int_equal(check_same(&with, &without, tokens, 220, -1, &a), 150);
        tokens[140] ^= 1;
        assert_int_equal(check_same(&with, &without, tokens, 220, -1, &a),
                         interval == 64 ? 128 : 0);
        /* A long prompt leaves one at every interval. */
        fixture_tokens(&with, tokens, 700, 13);
        assert_int_equal(check_same(&with, &without, tokens, 700, -1, &a), 0);
        tokens[600] ^= 1;
        assert_int_equal(check_same(&with, &without, tokens, 700, -1, &a),
                         600 / interval * interval);
        fixture_all_returned(&with);
        engine_free(with.engine);
        engine_free(without.engine);
    }
}

/* Answers leave checkpoints, too. */
static void long_answers(void **state)
{
    (void)state;
    static struct answer a, b;
    struct fixture with = start(1024, 2, true, 64), without = start(1024, 2, false, 0);
    int32_t tokens[600];
    fixture_tokens(&with, tokens, 50, 3);
    struct request_options o = fixture_request(&with, tokens, 50, 300);
    fixture_ask(&with, &o, &a);
    memcpy(tokens + 50, a.id, 300 * sizeof(int32_t));
    tokens[300] ^= 1;
    assert_int_equal(check_same(&with, &without, tokens, 400 - 60, -1, &b), 256);
    engine_free(with.engine);
    engine_free(without.engine);
}

static void displaced_to_host(void **state)
{
    (void)state;
    enum { N = 6 };
    static struct answer a;
    struct fixture with = start(320, 1, true, 64), without = start(320, 1, false, 0);
    static int32_t tokens[N][280];
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < N; i++) {
            fixture_tokens(&with, tokens[i] + (turn ? 240 : 0), turn ? 20 : 200,
                           40u + (uint32_t)(i + turn * 20));
            int32_t taken = check_same(&with, &without, tokens[i], turn ? 260 : 200, -1, &a);
            assert_int_equal(taken, turn ? 239 : 0);
            memcpy(tokens[i] + 200, a.id, turn ? 0 : 40 * sizeof(int32_t));
        }
    assert_true(fixture_count(&with, COUNTER_HITS_HOST) > 0);
    engine_free(with.engine);
    engine_free(without.engine);
}

static void forked(void **state)
{
    (void)state;
    enum { N = 5 };
    static struct answer alone, together;
    struct fixture f = start(512, 3, true, 0), without = start(512, 3, false, 0);
    int32_t tokens[130];
    fixture_tokens(&f, tokens, 130, 21);
    struct request_options o[N];
    struct request *r[N];
    for (int i = 0; i < N; i++) {
        o[i] = fixture_request(&f, tokens, 130, 60);
        o[i].sampling.temperature = 0.9;
        o[i].sampling.has_seed = true;
        o[i].sampling.seed = (uint64_t)i;
    }
    struct error err = { 0 };
    assert_int_equal(engine_submit_group(f.engine, o, N, r, &err), STATUS_OK);
    for (int i = 0; i < N; i++) {
        fixture_answer(r[i], &together);
        o[i].model = without.model;
        fixture_ask(&without, &o[i], &alone);
        fixture_same_ids(&together, &alone, "forked");
    }
    fixture_all_returned(&f);
    engine_free(f.engine);
    engine_free(without.engine);
}

/* The answer consists of three tokens, so that guesses are right now and then. */
static const struct logit_bias narrow[] = { { 5, 60 }, { 6, 60 }, { 7, 60 } };

/* Guesses that are wrong leave no trace, neither in the answer nor in what is taken over. Which
 * guesses are made is decided by measured time: false when none was wrong. */
static bool check_drafts(int32_t n_streams)
{
    static struct answer a[4], plain;
    struct fixture f = start(1024, n_streams, true, 64), without = start(1024, 1, false, 0);
    static int32_t tokens[4][600];
    struct request *r[4];
    int32_t n = 100;
    for (int i = 0; i < n_streams; i++) {
        fixture_tokens(&f, tokens[i], 20, 3u + (uint32_t)i);
        for (int32_t k = 20; k < n; k++)
            tokens[i][k] = tokens[i][k - 20];
    }
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < n_streams; i++) {
            struct request_options o = fixture_request(&f, tokens[i], n, 60);
            o.lookup = 31;
            o.sampling.bias = narrow;
            o.sampling.n_bias = ARRAY_SIZE(narrow);
            o.sampling.temperature = i % 2 ? 0.5 : 0;
            o.sampling.has_seed = true;
            r[i] = fixture_submit(&f, &o);
        }
        for (int i = 0; i < n_streams; i++) {
            fixture_answer(r[i], &a[i]);
            struct request_options o = fixture_request(&without, tokens[i], n, 60);
            o.sampling.bias = narrow;
            o.sampling.n_bias = ARRAY_SIZE(narrow);
            o.sampling.temperature = i % 2 ? 0.5 : 0;
            o.sampling.has_seed = true;
            fixture_ask(&without, &o, &plain);
            fixture_same_ids(&a[i], &plain, "drafted");
            assert_true(turn == 0 || a[i].cached >= n - 20 - DRAFT_MOST - 1);
            memcpy(tokens[i] + n, a[i].id, 60 * sizeof(int32_t));
            memcpy(tokens[i] + n + 60, tokens[i], 20 * sizeof(int32_t));
        }
        n += 80;
    }
    uint64_t accepted = fixture_count(&f, COUNTER_ACCEPTED_LOOKUP);
    uint64_t proposed = fixture_count(&f, COUNTER_PROPOSED_LOOKUP);
    fixture_all_returned(&f);
    engine_free(f.engine);
    engine_free(without.engine);
    return accepted > 0 && proposed > accepted;
}

static void drafted(void **state)
{
    (void)state;
    int tries = 1;
    while (!check_drafts(1))
        assert_true(++tries <= 5);
    for (tries = 1; !check_drafts(4);)
        assert_true(++tries <= 5);
}

/* One context for many, with and without a cache: the newest give way and are read again. */
static void out_of_pages(void **state)
{
    (void)state;
    enum { N = 10 };
    static struct answer together, alone[N];
    static int32_t tokens[N][200];
    struct request *r[N];
    struct fixture without = start(320, 1, false, 0);
    for (int reuse = 0; reuse < 2; reuse++) {
        struct fixture f = start(320, N, reuse, 64);
        for (int i = 0; i < N; i++) {
            int32_t n = 30 + i * 17;
            fixture_tokens(&f, tokens[i], n, 70u + (uint32_t)i);
            struct request_options o = fixture_request(&without, tokens[i], n, 100);
            if (!reuse)
                fixture_ask(&without, &o, &alone[i]);
            o.model = f.model;
            o.lookup = i % 2 ? 8 : -1;
            r[i] = fixture_submit(&f, &o);
        }
        for (int i = 0; i < N; i++) {
            fixture_answer(r[i], &together);
            fixture_same_ids(&together, &alone[i], "preempted");
        }
        assert_true(fixture_count(&f, COUNTER_PREEMPTIONS) > 0);
        fixture_all_returned(&f);
        engine_free(f.engine);
    }
    engine_free(without.engine);
}

/* Who leaves in the middle of a pass spoils nobody's state. */
static void cancelled(void **state)
{
    (void)state;
    static struct answer a;
    struct fixture f = start(1024, 4, true, 64), without = start(1024, 1, false, 0);
    int32_t tokens[600];
    fixture_tokens(&f, tokens, 600, 5);
    for (int i = 0; i < 30; i++) {
        struct request_options o = fixture_request(&f, tokens, 600 - i % 3, 100);
        struct request *r = fixture_submit(&f, &o);
        struct timespec pause = { 0, 500000 * (i % 10) };
        nanosleep(&pause, NULL);
        request_drop(r);
        if (i % 5 == 4)
            check_same(&f, &without, tokens, 560 + i, -1, &a);
    }
    fixture_all_returned(&f);
    engine_free(f.engine);
    engine_free(without.engine);
}

static int make_file(void **state)
{
    (void)state;
    path = hybrid_make_file();
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_over_at_checkpoints),
        cmocka_unit_test(long_answers),
        cmocka_unit_test(displaced_to_host),
        cmocka_unit_test(forked),
        cmocka_unit_test(drafted),
        cmocka_unit_test(out_of_pages),
        cmocka_unit_test(cancelled),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
