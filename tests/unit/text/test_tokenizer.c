#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "engine/load_tokenizer.h"
#include "text/template/jinja.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/split_expression.h"
#include "text/tokenizer/tokenizer_json.h"
#include "text/tokenizer/tokenizer_spec.h"
#include "unit/cmocka_setup.h"

#define TINY(name) "tests/data/tokenizer/tiny/" name "/tokenizer.gguf"

static struct tokenizer *load(const char *path)
{
    struct error err = { 0 };
    struct tokenizer *t = NULL;
    if (load_tokenizer_path(path, &t, NULL, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return t;
}

static struct token_list encode(const struct tokenizer *t, struct str text, unsigned flags)
{
    struct error err = { 0 };
    struct token_list ids = { 0 };
    if (tokenizer_encode(t, text, flags, &ids, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return ids;
}

static bool holds(const struct token_list *ids, int32_t id)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->ids[i] == id)
            return true;
    return false;
}

static void assert_same(struct token_list a, struct token_list b)
{
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof *a.ids);
    token_list_release(&a);
    token_list_release(&b);
}

static struct token_list encode_spans(const struct tokenizer *t, struct str text, size_t from,
                                      size_t to, unsigned flags)
{
    struct error err = { 0 };
    struct jinja_span span = { from, to };
    struct token_list ids = { 0 };
    if (tokenizer_encode_spans(t, text, &span, 1, flags, &ids, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return ids;
}

static void test_values_stay_text(void **state)
{
    static const char *const files[] = { TINY("qwen2"), TINY("spm_llama2"), TINY("gemma4"),
                                         TINY("unigram") };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct tokenizer *t = load(files[i]);
        int32_t start = tokenizer_find(t, STR("<|im_start|>"));
        int32_t think = tokenizer_find(t, STR("</think>"));
        struct str text = STR("<|im_start|>user\n<|im_start|></think><s><|im_end|>\n");
        struct token_list ids = encode_spans(t, text, 17, 40, 0);
        assert_int_equal(ids.ids[0], start);
        size_t n_start = 0;
        for (size_t k = 0; k < ids.n; k++)
            n_start += ids.ids[k] == start;
        assert_int_equal(n_start, 1);
        assert_false(holds(&ids, think));
        assert_false(holds(&ids, tokenizer_find(t, STR("<s>"))));
        assert_true(holds(&ids, tokenizer_find(t, STR("<|im_end|>"))));
        token_list_release(&ids);
        /* A spelling that is half the template's and half the value's is none. */
        ids = encode_spans(t, text, 20, 25, 0);
        n_start = 0;
        for (size_t k = 0; k < ids.n; k++)
            n_start += ids.ids[k] == start;
        assert_int_equal(n_start, 1);
        token_list_release(&ids);
        /* Asked for, values are read like everything else. */
        assert_same(encode_spans(t, text, 17, 40, TOKENIZER_PARSE_SPECIAL),
                    encode(t, text, TOKENIZER_PARSE_SPECIAL));
        tokenizer_free(t);
    }
}

static void test_pieces_cross_spans(void **state)
{
    (void)state;
    struct tokenizer *t = load(TINY("llama3"));
    struct str text = STR("<|im_start|>The world and the values return  \n\n then<|im_end|>");
    struct token_list expected = encode(t, text, TOKENIZER_PARSE_SPECIAL);
    for (size_t from = 12; from < text.len - 10; from++) {
        struct token_list ids = encode_spans(t, text, from, text.len - 10, 0);
        assert_int_equal(ids.n, expected.n);
        assert_memory_equal(ids.ids, expected.ids, ids.n * sizeof *ids.ids);
        token_list_release(&ids);
    }
    token_list_release(&expected);
    tokenizer_free(t);
}

static void test_bad_spans(void **state)
{
    (void)state;
    struct tokenizer *t = load(TINY("gpt2"));
    struct error err;
    struct token_list ids = { 0 };
    struct jinja_span spans[2] = { { 0, 3 }, { 2, 4 } };
    assert_int_equal(tokenizer_encode_spans(t, STR("abcdef"), spans, 2, 0, &ids, &err),
                     STATUS_INVALID);
    spans[1] = (struct jinja_span){ 4, 7 };
    assert_int_equal(tokenizer_encode_spans(t, STR("abcdef"), spans, 2, 0, &ids, &err),
                     STATUS_INVALID);
    assert_int_equal(tokenizer_encode(t, STR("a\xFFz"), 0, &ids, &err), STATUS_INVALID);
    assert_int_equal(ids.n, 0);
    tokenizer_free(t);
}

static void test_one_bos(void **state)
{
    (void)state;
    static const char *const files[] = { TINY("llama3"), TINY("spm_llama2"), TINY("gemma3") };
    unsigned flags = TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct tokenizer *t = load(files[i]);
        assert_true(tokenizer_adds_bos(t));
        int32_t bos = tokenizer_role(t, TOKEN_ROLE_BOS);
        struct token_list ids = encode(t, STR("<s>G"), flags);
        assert_int_equal(ids.ids[0], bos);
        assert_int_not_equal(ids.ids[1], bos);
        token_list_release(&ids);
        ids = encode(t, STR(""), flags);
        assert_int_equal(ids.n, 1);
        token_list_release(&ids);
        /* As plain text the spelling is no BOS, so the tokenizer's own comes. */
        ids = encode(t, STR("<s>G"), TOKENIZER_ADD_SPECIAL);
        assert_int_equal(ids.ids[0], bos);
        assert_true(ids.n > 3);
        token_list_release(&ids);
        tokenizer_free(t);
    }
}

static void test_decode_keeps_space_of_a_continuation(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct tokenizer *t = load(TINY("spm_llama2"));
    struct token_list ids = encode(t, STR("Hello"), 0);
    struct strbuf text;
    strbuf_init(&text, 1000);
    assert_int_equal(tokenizer_decode(t, ids.ids, ids.n, &text, &err), STATUS_OK);
    assert_string_equal(text.ptr, "Hello");
    struct detokenizer d;
    strbuf_clear(&text);
    detokenizer_init(&d, t, false, true);
    detokenizer_push(&d, tokenizer_role(t, TOKEN_ROLE_EOS), &text);
    for (size_t i = 0; i < ids.n; i++)
        detokenizer_push(&d, ids.ids[i], &text);
    detokenizer_push(&d, 1 << 30, &text);
    detokenizer_push(&d, -5, &text);
    assert_string_equal(text.ptr, " Hello");
    int32_t outside = tokenizer_n_tokens(t);
    assert_int_equal(tokenizer_decode(t, &outside, 1, &text, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "900"));
    strbuf_release(&text);
    token_list_release(&ids);
    tokenizer_free(t);
}

/* BPE as its definition says: the best pair, leftmost, again and again. */
struct naive {
    struct str left[1024], right[1024];
    size_t n_merges;
};

static void naive_merge(const struct naive *b, const struct tokenizer *t, struct str spelled,
                        struct token_list *out)
{
    struct str parts[600];
    size_t n = 0;
    for (size_t i = 0; i < spelled.len; i++)
        parts[n++] = str_slice(spelled, i, i + 1);
    for (;;) {
        size_t best_rank = b->n_merges, best = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t r = 0; r < best_rank; r++)
                if (str_eq(b->left[r], parts[i]) && str_eq(b->right[r], parts[i + 1])) {
                    best_rank = r;
                    best = i;
                }
        if (best_rank == b->n_merges)
            break;
        parts[best].len += parts[best + 1].len;
        memmove(&parts[best + 1], &parts[best + 2], (n - best - 2) * sizeof *parts);
        n--;
    }
    for (size_t i = 0; i < n; i++)
        token_list_add(out, tokenizer_find(t, parts[i]));
}

static void test_long_pieces(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct naive b = { .n_merges = 0 };
    json_t *root, *merge;
    size_t i;
    assert_int_equal(json_parse_file("tests/data/tokenizer/tiny/gpt2/tokenizer.json", 1 << 20, 0,
                                     &root, &err), STATUS_OK);
    json_array_foreach(json_object_get(json_object_get(root, "model"), "merges"), i, merge) {
        b.left[i] = json_str(json_array_get(merge, 0));
        b.right[i] = json_str(json_array_get(merge, 1));
        b.n_merges = i + 1;
    }
    assert_true(b.n_merges > 400 && b.n_merges < 1024);
    struct tokenizer *t = load(TINY("gpt2"));
    static const char letters[] = "theaionrsdnmlclu";
    for (unsigned round = 0; round < 60; round++) {
        char text[600];
        size_t n = 20 + round * 9;
        unsigned alphabet = 1 + round % 16;
        for (size_t k = 0; k < n; k++)
            text[k] = letters[(unsigned)(rng_uniform(7, round, k) * alphabet)];
        struct str s = { text, n };
        struct token_list expected = { 0 };
        naive_merge(&b, t, s, &expected);
        assert_same(encode(t, s, 0), expected);
    }
    tokenizer_free(t);
    json_decref(root);
}

static void test_composition(void **state)
{
    (void)state;
    static const uint32_t pool[] = { 'a', 'e', ' ', 0xE9, 0x301, 0x316, 0x323, 0x307, 0x1100,
                                     0x1161, 0x11A8, 0xAC00, 0x212B, 0x915, 0x93C, 0x94D, 0x9C7,
                                     0x9BE, 0x439, 0x4E2D, 0xFB2C, 0x1F71, 0x345, 0x30AB, 0x3099,
                                     0x1D15E, 0x2126, 0x3B9, 0x308 };
    struct text_buffer out = { 0 };
    for (unsigned round = 0; round < 4000; round++) {
        struct strbuf text;
        strbuf_init(&text, 4096);
        for (unsigned k = 0; k < 1 + round % 12; k++)
            strbuf_put_utf8(&text, pool[(size_t)(rng_uniform(3, round, k) * ARRAY_SIZE(pool))]);
        utf8proc_uint8_t *expected = utf8proc_NFC((const utf8proc_uint8_t *)text.ptr);
        out.len = 0;
        unicode_compose(strbuf_str(&text), false, &out);
        assert_int_equal(out.len, strlen((const char *)expected));
        assert_memory_equal(out.ptr, expected, out.len);
        if (unicode_is_composed(strbuf_str(&text)))
            assert_string_equal(text.ptr, (const char *)expected);
        free(expected);
        strbuf_release(&text);
    }
    text_buffer_release(&out);
}

static void test_rewriting(void **state)
{
    static const struct {
        const char *in, *out; /* NULL: refused */
    } cases[] = {
        { "[\\p{Lu}\\p{M}&&[^\\p{Han}]]+", "(?:(?=[^\\p{sc:Han}])[\\p{Lu}\\p{M}])+" },
        { "[a-z&&[b]&&[^c]]", "(?:(?=[b])(?=[^c])[a-z])" },
        { "\\p{Han}|[\\p{Hiragana}x]", "\\p{sc:Han}|[\\p{sc:Hiragana}x]" },
        { "\\w+|[^\\w\\s]+", "[\\p{L}\\p{M}\\p{N}\\p{Pc}]+|[^\\p{L}\\p{M}\\p{N}\\p{Pc}\\s]+" },
        { "(?i:'s|'t)|\\s+(?!\\S)|a?+", "(?i:'s|'t)|\\s+(?!\\S)|a?+" },
        { "[!\\]\\[&x]&&", "[!\\]\\[&x]&&" },
        { "[^a&&[b]]", NULL },
        { "[a&&b]", NULL },
        { "[a[bc]]", NULL },
        { "[a&&[b]c]", NULL },
        { "[a", NULL },
        { "\\h", NULL },
        { "(?m:.)", NULL },
        { "(*ACCEPT)", NULL },
        { "a\\", NULL },
        { "\\p{Han", NULL },
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err;
        struct strbuf out;
        strbuf_init(&out, 1000);
        enum status s = split_expression_rewrite(str_of(cases[i].in), &out, &err);
        assert_int_equal(s, cases[i].out ? STATUS_OK : STATUS_UNSUPPORTED);
        if (cases[i].out)
            assert_string_equal(out.ptr, cases[i].out);
        strbuf_release(&out);
    }
}

/* Texts that ruin engines which recurse or are quadratic; the ids must also give them back. */
static void test_monotonous_texts(void **state)
{
    static const char *const units[] = { "Z", " ", "\xC3\xA9", "\xE4\xB8\xAD", ".", "\xCC\x81",
                                         "\xCC\x96\xCC\x81", " \n", "\xE2\x96\x81" };
    static const char *const files[] = { TINY("qwen35"), TINY("deepseek_v3"), TINY("o200k"),
                                         TINY("gemma3"), TINY("gemma4") };
    (void)state;
    for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
        struct tokenizer *t = load(files[f]);
        for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
            struct error err = { 0 };
            struct strbuf text, back;
            strbuf_init(&text, 1 << 20);
            strbuf_init(&back, 1 << 20);
            while (text.len < 100000)
                strbuf_puts(&text, units[u]);
            struct token_list ids = encode(t, strbuf_str(&text), TOKENIZER_NO_NFC);
            assert_int_equal(tokenizer_decode(t, ids.ids, ids.n, &back, &err), STATUS_OK);
            if (strcmp(units[u], "\xE2\x96\x81") != 0)
                assert_true(str_eq(strbuf_str(&text), strbuf_str(&back)));
            token_list_release(&ids);
            ids = encode(t, strbuf_str(&text), 0);
            assert_true(ids.n > 0);
            token_list_release(&ids);
            strbuf_release(&text);
            strbuf_release(&back);
        }
        tokenizer_free(t);
    }
}

static void *encode_often(void *argument)
{
    const struct tokenizer *t = argument;
    struct str text = STR("The world and the values return; it is a point, \xC3\xA9t\xC3\xA9!");
    struct token_list first = encode(t, text, 0);
    for (int i = 0; i < 300; i++) {
        struct token_list ids = encode(t, text, 0);
        if (ids.n != first.n || memcmp(ids.ids, first.ids, ids.n * sizeof *ids.ids) != 0)
            first.n = 0;
        token_list_release(&ids);
    }
    size_t n = first.n;
    token_list_release(&first);
    return (void *)n;
}

static void test_many_threads(void **state)
{
    (void)state;
    struct tokenizer *t = load(TINY("gemma4"));
    pthread_t threads[4];
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *n;
        pthread_join(threads[i], &n);
        assert_true((size_t)n > 5);
    }
    tokenizer_free(t);
}

static void expect_refusal(const char *json, const char *part)
{
    struct error err = { 0 };
    struct tokenizer *t = NULL;
    enum status s = tokenizer_from_json(str_of(json), STR(""), &t, &err);
    assert_int_not_equal(s, STATUS_OK);
    assert_null(t);
    if (!strstr(err.message, part))
        fail_msg("expected \"%s\" in \"%s\"", part, err.message);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal("[", "tokenizer.json");
    expect_refusal("[]", "not an object");
    expect_refusal("{}", "model");
    expect_refusal("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "empty");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "-1");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}",
                   "99999999999");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}",
                   "merge 0");
    expect_refusal("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "piece 0");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}},\"normalizer\":"
                   "{\"type\":\"Precompiled\"}}", "Precompiled");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":"
                   "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[b]]\"},"
                   "\"behavior\":\"Isolated\"}}", "class within a class");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":"
                   "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},"
                   "\"behavior\":\"Isolated\"}}", "does not compile");
}

static void test_names(void **state)
{
    static const char *const names[] = { "gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe",
                                         "deepseek-v3", "deepseek-llm", "deepseek-coder",
                                         "gpt-4o", "o200k", "kimi-k2", "laguna", "bailingmoe",
                                         "bailingmoe2", "tekken", "llama4", "joyai-llm",
                                         "k2-horizon", "default", "exaone-moe", "seed-coder",
                                         "minicpm5", "falcon", "glm4" };
    (void)state;
    struct str piece = STR("a");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct error err = { 0 };
        struct tokenizer *t;
        struct tokenizer_spec spec;
        const struct pretokenizer_name *known = pretokenizer_find(str_of(names[i]));
        assert_non_null(known);
        tokenizer_spec_init(&spec);
        spec.tokens = &piece;
        spec.n_tokens = 1;
        spec.split_steps = known->steps;
        spec.n_split_steps = known->n_steps;
        if (tokenizer_new(&spec, &t, &err) != STATUS_OK)
            fail_msg("%s: %s", names[i], err.message);
        tokenizer_free(t);
    }
    assert_null(pretokenizer_find(STR("qwen")));
    assert_null(pretokenizer_find(STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_stay_text),
        cmocka_unit_test(test_pieces_cross_spans),
        cmocka_unit_test(test_bad_spans),
        cmocka_unit_test(test_one_bos),
        cmocka_unit_test(test_decode_keeps_space_of_a_continuation),
        cmocka_unit_test(test_long_pieces),
        cmocka_unit_test(test_composition),
        cmocka_unit_test(test_rewriting),
        cmocka_unit_test(test_monotonous_texts),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
