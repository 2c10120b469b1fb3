/* Every cache type through the engine, keys and values apart: answers come, logits stay near those
 * of f32, and what is taken over, forked, brought back from host memory or drafted has the bits of
 * what is computed afresh. */
#include "unit/engine/engine_fixture.h"
#include "unit/engine/hybrid_family.h"

enum { PROMPT = 300, KNOWN = 230, LOGITS_FROM = 210, ANSWER = 30, TYPES = 9 };

/* The rms of what keys and values of that type change in the logits, relative to their own rms:
 * about twice what was measured. */
static const struct kv_case {
    enum tensor_type type;
    double keys, values;
} types[TYPES] = {
    { TENSOR_TYPE_F32, 0, 0 },
    { TENSOR_TYPE_F16, 3e-4, 2e-4 },
    { TENSOR_TYPE_BF16, 2.5e-3, 1.5e-3 },
    { TENSOR_TYPE_Q8_0, 7e-3, 5e-3 },
    { TENSOR_TYPE_F8_E4M3, 0.038, 0.024 },
    { TENSOR_TYPE_Q4_0, 0.12, 0.077 },
    { TENSOR_TYPE_NVFP4, 0.12, 0.082 },
    { TENSOR_TYPE_TURBO3, 0.24, 0.17 },
    { TENSOR_TYPE_TURBO4, 0.12, 0.085 },
};

struct outcome {
    float logits[PROMPT - LOGITS_FROM][HYBRID_VOCAB];
    struct answer answer;
};

static const char *path;

static void keep_logits(void *user, int32_t position, const float *logits, int32_t n_vocab)
{
    struct outcome *o = user;
    memcpy(o->logits[position - LOGITS_FROM], logits, (size_t)n_vocab * 4);
}

static struct fixture start(enum tensor_type k, enum tensor_type v)
{
    return fixture_start(path, &(struct engine_options){
                                   .device = "cpu",
                                   .n_threads = 1,
                                   .exact = true,
                                   .context = 384,
                                   .batch_tokens = 128,
                                   .no_text = true,
                                   .family = &hybrid_family,
                                   .max_sequences = 2,
                                   .checkpoint_interval = 64,
                                   .k_type = k,
                                   .v_type = v,
                                   .k_type_set = true,
                                   .v_type_set = true,
                               });
}

static void ask(const struct fixture *f, int32_t lookup, struct outcome *out)
{
    int32_t tokens[PROMPT];
    fixture_tokens(f, tokens, PROMPT, 31);
    struct request_options o = fixture_request(f, tokens, PROMPT, ANSWER);
    o.n_logprobs = FIXTURE_TOP;
    o.lookup = lookup;
    o.prompt_logits = keep_logits;
    o.prompt_logits_user = out;
    o.prompt_logits_from = LOGITS_FROM;
    fixture_ask(f, &o, &out->answer);
    assert_int_equal(out->answer.n, ANSWER);
}

static double distance(const struct outcome *a, const struct outcome *b)
{
    double difference = 0, all = 0;
    for (int r = 0; r < PROMPT - LOGITS_FROM; r++)
        for (int i = 0; i < HYBRID_VOCAB; i++) {
            double d = (double)a->logits[r][i] - b->logits[r][i];
            difference += d * d;
            all += (double)b->logits[r][i] * b->logits[r][i];
        }
    return sqrt(difference / all);
}

static void near_f32(void **state)
{
    (void)state;
    static struct outcome plain, out;
    struct fixture f = start(TENSOR_TYPE_F32, TENSOR_TYPE_F32);
    ask(&f, -1, &plain);
    engine_free(f.engine);
    for (int k = 0; k < TYPES; k++)
        for (int v = 0; v < TYPES; v++) {
            f = start(types[k].type, types[v].type);
            ask(&f, -1, &out);
            engine_free(f.engine);
            double found = distance(&out, &plain);
            double allowed = types[k].keys + types[v].values;
            if (!(found <= allowed))
                fail_msg("%s keys, %s values: %g from f32, at most %g",
                         tensor_type_name(types[k].type), tensor_type_name(types[v].type), found,
                         allowed);
            /* A type that changes nothing is not the one that was asked for. */
            assert_true((k == 0 && v == 0) == (found == 0));
        }
}

static void same_bits(const struct outcome *a, const struct outcome *b, const char *what, int i)
{
    if (memcmp(a->logits, b->logits, sizeof a->logits) != 0 ||
        memcmp(a->answer.id, b->answer.id, sizeof a->answer.id) != 0 ||
        memcmp(a->answer.top, b->answer.top, sizeof a->answer.top) != 0)
        fail_msg("%s keys: %s: other bits", tensor_type_name(types[i].type), what);
}

static void check_forks(const struct fixture *f, const struct outcome *cold)
{
    static struct answer forked;
    int32_t tokens[PROMPT];
    struct request_options o[2];
    struct request *r[2];
    struct error err = { 0 };
    fixture_tokens(f, tokens, PROMPT, 31);
    for (int i = 0; i < 2; i++) {
        o[i] = fixture_request(f, tokens, PROMPT, ANSWER);
        o[i].n_logprobs = FIXTURE_TOP;
    }
    assert_int_equal(engine_submit_group(f->engine, o, 2, r, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        fixture_answer(r[i], &forked);
        assert_memory_equal(forked.id, cold->answer.id, sizeof forked.id);
        assert_memory_equal(forked.top, cold->answer.top, sizeof forked.top);
    }
}

static void taken_over(void **state)
{
    (void)state;
    static struct outcome cold, out;
    static struct answer ignored;
    int32_t tokens[PROMPT];
    for (int i = 0; i < TYPES; i++) {
        struct fixture f = start(types[i].type, types[(i + 4) % TYPES].type);
        ask(&f, -1, &cold);
        assert_int_equal(cold.answer.cached, 0);
        ask(&f, -1, &out);
        assert_true(out.answer.cached >= 192);
        same_bits(&out, &cold, "taken over", i);
        ask(&f, 16, &out);
        same_bits(&out, &cold, "drafted", i);
        check_forks(&f, &cold);
        for (uint32_t k = 0; k < 6; k++) {
            fixture_tokens(&f, tokens, PROMPT, 600 + k);
            struct request_options o = fixture_request(&f, tokens, PROMPT, 2);
            fixture_ask(&f, &o, &ignored);
        }
        ask(&f, -1, &out);
        assert_true(out.answer.cached >= 192 && fixture_count(&f, COUNTER_HITS_HOST) > 0);
        same_bits(&out, &cold, "from host", i);
        fixture_all_returned(&f);
        engine_free(f.engine);
    }
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
        cmocka_unit_test(near_f32),
        cmocka_unit_test(taken_over),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
