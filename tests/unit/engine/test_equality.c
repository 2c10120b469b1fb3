/* The same bits whatever else is computed: {prompt chunks} x {alone, among strangers} x {cold,
 * taken over, back from host memory, back from disk after a restart} x {plain, drafted}, for
 * families of attention, of windows, and of fixed-size state, with plain and quantized weights.
 * Also: an answer read again as prompt. */
#include "unit/engine/engine_fixture.h"
#include "unit/engine/hybrid_family.h"

#include "engine/quantize_model.h"

enum { PROMPT = 300, KNOWN = 200, LOGITS_FROM = 210, ANSWER = 40, STRANGERS = 3, N_VOCAB = 512 };

enum warmth { COLD, TAKEN_OVER, FROM_HOST, FROM_DISK, N_WARMTHS };
static const char *const warmth_names[] = { "cold", "taken over", "from host", "from disk" };
static const enum cache_source sources[] = { CACHE_NONE, CACHE_PAGES, CACHE_HOST, CACHE_DISK };

struct setting {
    int32_t chunk; /* 0: the whole prompt in one pass */
    bool strangers, deterministic, seeded;
    enum warmth warmth;
    int32_t lookup;
    int n_threads;
};

/* Logits of the last prompt positions, and the answer. */
struct outcome {
    float logits[PROMPT - LOGITS_FROM][N_VOCAB];
    struct answer answer;
    int32_t n_rows;
};

static const char *path;
static const struct model_family *family;

static void keep_logits(void *user, int32_t position, const float *logits, int32_t n_vocab)
{
    struct outcome *o = user;
    memcpy(o->logits[position - LOGITS_FROM], logits, (size_t)MIN(n_vocab, N_VOCAB) * 4);
    o->n_rows++;
}

static struct fixture start(const struct setting *s, const char *folder)
{
    return fixture_start(path, &(struct engine_options){
                                   .device = "cpu",
                                   .n_threads = s->n_threads ? s->n_threads : 1,
                                   .context = 384,
                                   .batch_tokens = s->chunk ? s->chunk : 384,
                                   .no_text = true,
                                   .family = family,
                                   .max_sequences = s->strangers ? 1 + STRANGERS : 1,
                                   .deterministic = s->deterministic,
                                   .checkpoint_interval = 64,
                                   .cache_dir = folder,
                               });
}

static void ask_ignored(const struct fixture *f, const int32_t *tokens, int32_t n)
{
    static struct answer ignored;
    struct request_options o = fixture_request(f, tokens, n, 3);
    fixture_ask(f, &o, &ignored);
}

/* Others take all pages: there are as many as 1 + STRANGERS contexts need, or one alone. */
static void displace(const struct fixture *f, const struct setting *s)
{
    int32_t other[PROMPT];
    for (uint32_t i = 0; i < (s->strangers ? 2 + STRANGERS : 2); i++) {
        fixture_tokens(f, other, PROMPT, 900 + i);
        ask_ignored(f, other, PROMPT);
    }
}

/* An engine that knows the beginning of the prompt, or nothing. */
static struct fixture start_warm(const struct setting *s, const char *folder, int32_t *tokens)
{
    struct fixture f = start(s, folder);
    fixture_tokens(&f, tokens, PROMPT, 17);
    for (int i = 0; s->lookup && i < 100; i++) /* something to copy */
        tokens[PROMPT - 100 + i] = tokens[i];
    if (s->warmth != COLD)
        ask_ignored(&f, tokens, KNOWN);
    if (s->warmth == FROM_HOST)
        displace(&f, s);
    if (s->warmth == FROM_DISK) {
        engine_free(f.engine);
        f = start(s, folder);
    }
    return f;
}

static struct request_options request_of(const struct fixture *f, const struct setting *s,
                                         const int32_t *tokens)
{
    static const struct logit_bias narrow[] = { { 5, 2 }, { 6, 2 } };
    struct request_options o = fixture_request(f, tokens, PROMPT, ANSWER);
    o.n_logprobs = FIXTURE_TOP;
    o.lookup = s->lookup ? s->lookup : -1;
    o.sampling.temperature = s->seeded ? 0.8 : 0;
    o.sampling.has_seed = true;
    o.sampling.seed = 7;
    o.sampling.bias = narrow;
    o.sampling.n_bias = ARRAY_SIZE(narrow);
    return o;
}

static void run(const struct setting *s, struct outcome *out)
{
    static struct answer ignored;
    int32_t tokens[PROMPT], other[STRANGERS][PROMPT];
    struct request *r[STRANGERS];
    const char *folder = s->warmth == FROM_DISK ? fixture_make_folder() : NULL;
    struct fixture f = start_warm(s, folder, tokens);
    assert_true(f.n_vocab <= N_VOCAB);
    memset(out, 0, sizeof *out);
    for (int i = 0; s->strangers && i < STRANGERS; i++) {
        fixture_tokens(&f, other[i], 40 + 50 * i, 50u + (uint32_t)i);
        struct request_options o = fixture_request(&f, other[i], 40 + 50 * i, 60);
        r[i] = fixture_submit(&f, &o);
    }
    struct request_options o = request_of(&f, s, tokens);
    o.prompt_logits = keep_logits;
    o.prompt_logits_user = out;
    o.prompt_logits_from = LOGITS_FROM;
    fixture_ask(&f, &o, &out->answer);
    for (int i = 0; s->strangers && i < STRANGERS; i++)
        fixture_answer(r[i], &ignored);
    assert_int_equal(out->n_rows, PROMPT - LOGITS_FROM);
    assert_int_equal(out->answer.n, ANSWER);
    assert_true(s->warmth == COLD ? out->answer.cached == 0 : out->answer.cached >= 128);
    assert_int_equal(out->answer.source, sources[s->warmth]);
    fixture_all_returned(&f);
    engine_free(f.engine);
    if (folder)
        fixture_remove_folder(folder);
}

static void check(const struct setting *s, const struct outcome *expected)
{
    static struct outcome found;
    char name[160];
    snprintf(name, sizeof name, "%s: chunk %d, %s, %s, lookup %d%s%s, %d threads", path, s->chunk,
             s->strangers ? "among strangers" : "alone", warmth_names[s->warmth], s->lookup,
             s->seeded ? ", seeded" : "", s->deterministic ? ", deterministic" : "", s->n_threads);
    run(s, &found);
    fixture_same_ids(&found.answer, &expected->answer, name);
    for (int i = 0; i < PROMPT - LOGITS_FROM; i++)
        if (memcmp(found.logits[i], expected->logits[i], sizeof found.logits[i]) != 0)
            fail_msg("%s: other bits at prompt position %d", name, LOGITS_FROM + i);
    for (int i = 0; i < ANSWER; i++)
        if (memcmp(found.answer.top[i], expected->answer.top[i], sizeof found.answer.top[i]) != 0)
            fail_msg("%s: other probabilities at token %d", name, i);
}

static void matrix(void)
{
    static const int32_t chunks[] = { 1, 64, 256, 0 };
    static struct outcome expected;
    /* The reference of each row: one pass, alone, cold, plain. Greedy with --deterministic; seeded
     * without, where the slow chunks of one row are left out. A sanitizer looks at the ways, not
     * at the bits: it gets each way once. */
    for (int seeded = TESTS_SANITIZED; seeded < 2; seeded++) {
        struct setting s = { .lookup = 0, .seeded = seeded, .deterministic = !seeded };
        run(&s, &expected);
        for (size_t c = (size_t)seeded; c < ARRAY_SIZE(chunks); c += 1 + TESTS_SANITIZED)
            for (int strangers = 0; strangers < 2; strangers++)
                for (int warmth = 0; warmth < N_WARMTHS; warmth++) {
                    s.chunk = chunks[c];
                    s.strangers = strangers;
                    s.warmth = (enum warmth)warmth;
                    s.n_threads = 1 + (int)(c + (size_t)warmth) % 2;
                    check(&s, &expected);
                }
    }
}

/* With something to copy in the prompt: the reference drafts nothing. */
static void drafted(void)
{
    static struct outcome expected;
    for (int seeded = 0; seeded < 2; seeded++)
        for (int strangers = 0; strangers < 2; strangers++) {
            struct setting s = { .seeded = seeded, .lookup = -1 };
            run(&s, &expected);
            s.strangers = strangers;
            s.chunk = 64;
            s.lookup = 16;
            check(&s, &expected);
            s.warmth = TAKEN_OVER;
            check(&s, &expected);
        }
}

/* What was drawn with one row at a time has the same probabilities when it is read in chunks. */
static void read_again(void)
{
    static struct answer drawn, echoed;
    int32_t tokens[PROMPT + ANSWER];
    struct setting s = { .deterministic = true };
    struct fixture f = start(&s, NULL);
    fixture_tokens(&f, tokens, PROMPT, 23);
    struct request_options o = fixture_request(&f, tokens, PROMPT, ANSWER);
    o.n_logprobs = FIXTURE_TOP;
    fixture_ask(&f, &o, &drawn);
    memcpy(tokens + PROMPT, drawn.id, ANSWER * sizeof(int32_t));
    o = fixture_request(&f, tokens, PROMPT + ANSWER, 1);
    o.n_logprobs = FIXTURE_TOP;
    o.echo_logprobs = true;
    fixture_ask(&f, &o, &echoed);
    assert_int_equal(echoed.n, PROMPT + ANSWER + 1);
    assert_memory_equal(echoed.id + PROMPT, drawn.id, ANSWER * sizeof(int32_t));
    assert_memory_equal(echoed.top + PROMPT, drawn.top, ANSWER * sizeof drawn.top[0]);
    engine_free(f.engine);
}

static void check_model(const char *model, const struct model_family *its_family)
{
    path = model;
    family = its_family;
    matrix();
    drafted();
    read_again();
}

/* Int8 products; the path is borrowed until the next call. */
static const char *quantized(const char *from)
{
    static char to[80];
    struct quantize_model_options o = { .type = STR("Q8_0"), .n_threads = 1 };
    struct quantize_model_result result;
    struct error err = { 0 };
    snprintf(to, sizeof to, "/tmp/ingot-equality-%ld.gguf", (long)getpid());
    if (quantize_model(from, to, &o, &result, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_true(result.n_changed > 0);
    return to;
}

static void attention(void **state)
{
    (void)state;
    const char *model = quantized("tests/data/golden/llama-base/model.gguf");
    check_model(model, NULL);
    assert_int_equal(unlink(model), 0);
}

static void windows(void **state)
{
    (void)state;
    check_model("tests/data/golden/gemma3-base/model.gguf", NULL);
}

static void fixed_state(void **state)
{
    (void)state;
    char plain[64];
    snprintf(plain, sizeof plain, "%s", hybrid_make_file());
    check_model(plain, &hybrid_family);
    const char *model = quantized(plain);
    check_model(model, &hybrid_family);
    assert_int_equal(unlink(model), 0);
    assert_int_equal(unlink(plain), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),
        cmocka_unit_test(windows),
        cmocka_unit_test(fixed_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
