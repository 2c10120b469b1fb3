/* Ids of the reference for every tokenizer of tests/data/tokenizer/tiny, in both containers.
 * With arguments, FILE IDS: the same for one tokenizer that lies elsewhere. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "engine/load_tokenizer.h"
#include "unit/cmocka_setup.h"

#define DATA "tests/data/tokenizer/"

struct fixture {
    const char *file;
    json_t *corpus, *invalid, *ids;
    struct tokenizer *tokenizer;
    unsigned failures;
};

static json_t *read_json(const char *path)
{
    struct error err = { 0 };
    json_t *value = NULL;
    if (json_parse_file(path, (size_t)16 << 20, 0, &value, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return value;
}

static bool same(const json_t *expected, const int32_t *ids, size_t n)
{
    if (json_array_size(expected) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(expected, i)) != ids[i])
            return false;
    return true;
}

static void report(struct fixture *f, const char *what, size_t i, struct str text)
{
    if (f->failures++ < 5)
        fprintf(stderr, "%s: %s of string %zu \"%.*s\" differ\n", f->file, what, i,
                (int)MIN(text.len, (size_t)60), text.ptr);
}

static void check_ids(struct fixture *f, const char *what, size_t i, struct str text,
                      unsigned flags, const json_t *expected)
{
    struct error err = { 0 };
    struct token_list ids = { 0 };
    if (tokenizer_encode(f->tokenizer, text, flags, &ids, &err) != STATUS_OK ||
        !same(expected, ids.ids, ids.n))
        report(f, what, i, text);
    token_list_release(&ids);
}

static void check_decoded(struct fixture *f, size_t i, const json_t *ids, struct str expected)
{
    struct error err = { 0 };
    struct token_list list = { 0 };
    struct strbuf text;
    strbuf_init(&text, (size_t)1 << 24);
    for (size_t k = 0; k < json_array_size(ids); k++)
        token_list_add(&list, (int32_t)json_integer_value(json_array_get(ids, k)));
    if (tokenizer_decode(f->tokenizer, list.ids, list.n, &text, &err) != STATUS_OK ||
        !str_eq(strbuf_str(&text), expected))
        report(f, "decoded", i, expected);
    strbuf_release(&text);
    token_list_release(&list);
}

/* The entry of a table of exceptions, else what holds for all others. */
static const json_t *exception(const struct fixture *f, const char *table, size_t i,
                               const json_t *otherwise)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", i);
    const json_t *value = json_object_get(json_object_get(f->ids, table), key);
    return value ? value : otherwise;
}

static void check_string(struct fixture *f, size_t i, struct str text)
{
    const json_t *ids = json_array_get(json_object_get(f->ids, "ids"), i);
    check_ids(f, "ids", i, text, TOKENIZER_PARSE_SPECIAL, ids);
    check_ids(f, "ids as plain text", i, text, 0, exception(f, "ids_without_special", i, ids));
    check_ids(f, "ids without NFC", i, text, TOKENIZER_PARSE_SPECIAL | TOKENIZER_NO_NFC,
              exception(f, "ids_without_nfc", i, ids));
    const json_t *decoded = exception(f, "decoded", i, NULL);
    check_decoded(f, i, ids, decoded ? json_str(decoded) : text);
}

static unsigned check_tokenizer(const char *file, const char *ids_path, bool surroundings)
{
    struct error err = { 0 };
    struct fixture f = { .file = file,
                         .corpus = read_json(DATA "corpus.json"),
                         .invalid = read_json(DATA "invalid_utf8.json"),
                         .ids = read_json(ids_path) };
    if (load_tokenizer_path(file, &f.tokenizer, NULL, &err) != STATUS_OK)
        fail_msg("%s: %s", file, err.message);
    assert_true(json_array_size(f.corpus) > 400);
    size_t i;
    json_t *item;
    json_array_foreach(f.corpus, i, item)
        check_string(&f, i, json_str(json_object_get(item, "text")));
    json_array_foreach(f.invalid, i, item)
        check_ids(&f, "ids of repaired text", i, json_str(json_object_get(item, "as_text")),
                  TOKENIZER_PARSE_SPECIAL,
                  json_array_get(json_object_get(f.ids, "invalid_utf8_ids"), i));
    const int32_t *around;
    size_t n = tokenizer_prefix_ids(f.tokenizer, &around);
    if (surroundings && !same(json_object_get(f.ids, "prefix"), around, n))
        report(&f, "prefix", 0, STR(""));
    n = tokenizer_suffix_ids(f.tokenizer, &around);
    if (surroundings && !same(json_object_get(f.ids, "suffix"), around, n))
        report(&f, "suffix", 0, STR(""));
    tokenizer_free(f.tokenizer);
    json_decref(f.corpus);
    json_decref(f.invalid);
    json_decref(f.ids);
    return f.failures;
}

static void test_tiny(void **state)
{
    static const char *const names[] = { "bailing", "deepseek_v3", "gemma3",     "gpt2",
                                         "kimi_k2", "laguna",      "llama3",     "o200k",
                                         "qwen2",   "qwen35",      "smollm",     "spm_llama2",
                                         "unigram" };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char ids[128], file[128];
        snprintf(ids, sizeof ids, DATA "ids/tiny_%s.json", names[i]);
        snprintf(file, sizeof file, DATA "tiny/%s/tokenizer.json", names[i]);
        assert_int_equal(check_tokenizer(file, ids, true), 0);
        snprintf(file, sizeof file, DATA "tiny/%s/tokenizer.gguf", names[i]);
        assert_int_equal(check_tokenizer(file, ids, true), 0);
    }
    assert_int_equal(check_tokenizer(DATA "tiny/gemma4/tokenizer.gguf",
                                     DATA "ids/tiny_gemma3.json", true), 0);
}

static void check_bytes(const struct tokenizer *t, int32_t id, struct str hex)
{
    struct str bytes = tokenizer_bytes(t, id);
    assert_int_equal(hex.len, 2 * bytes.len);
    for (size_t i = 0; i < bytes.len; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", (uint8_t)bytes.ptr[i]);
        assert_memory_equal(digits, hex.ptr + 2 * i, 2);
    }
}

static void check_stream(const struct tokenizer *t, const json_t *c)
{
    const json_t *ids = json_object_get(c, "ids"), *id;
    struct detokenizer d;
    struct strbuf text;
    size_t i, at = 0;
    strbuf_init(&text, 65536);
    detokenizer_init(&d, t, false, false);
    json_array_foreach((json_t *)(uintptr_t)ids, i, id) {
        detokenizer_push(&d, (int32_t)json_integer_value(id), &text);
        struct str delta = str_slice(strbuf_str(&text), at, text.len);
        struct str expected = json_str(json_array_get(json_object_get(c, "deltas"), i));
        if (!str_eq(delta, expected))
            fail_msg("id %zu of %s: expected \"%.*s\", found \"%.*s\"", i,
                     json_string_value(json_array_get(json_object_get(c, "token_bytes"), i)),
                     STR_ARG(expected), STR_ARG(delta));
        at = text.len;
        check_bytes(t, (int32_t)json_integer_value(id),
                    json_str(json_array_get(json_object_get(c, "token_bytes"), i)));
    }
    detokenizer_flush(&d, &text);
    assert_true(str_eq(str_slice(strbuf_str(&text), at, text.len),
                       json_str(json_object_get(c, "final"))));
    strbuf_release(&text);
}

static void test_streaming(void **state)
{
    (void)state;
    json_t *all = read_json(DATA "streaming.json"), *entry, *c;
    size_t i, k, n_cases = 0;
    json_array_foreach(all, i, entry) {
        struct error err = { 0 };
        struct tokenizer *t;
        char file[128];
        struct str name = json_str(json_object_get(entry, "tokenizer"));
        snprintf(file, sizeof file, DATA "tiny/%.*s/tokenizer.json", STR_ARG(name));
        assert_int_equal(load_tokenizer_path(file, &t, NULL, &err), STATUS_OK);
        json_array_foreach(json_object_get(entry, "cases"), k, c) {
            check_stream(t, c);
            n_cases++;
        }
        tokenizer_free(t);
    }
    assert_true(n_cases > 150);
    json_decref(all);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        /* What surrounds a text is the file's business where the ids come from elsewhere. */
        unsigned failures = check_tokenizer(argv[1], argv[2], !strstr(argv[2], "/gguf_"));
        printf("%u differences\n", failures);
        return failures != 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_streaming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
