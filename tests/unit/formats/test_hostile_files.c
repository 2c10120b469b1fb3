/* Every damaged file of tests/data/hostile gives the outcome that its table asks for; a small good
 * file cut at every byte, and with every byte changed, gives an answer and never a crash. The
 * bytes lie in blocks of exactly their size, so that a sanitizer sees each read beyond them. */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

#define FOLDER "tests/data/hostile/"

/* Touches everything that a user of the file would. */
static unsigned read_all(const struct gguf *g, const struct weight_file *f)
{
    unsigned sum = 0;
    for (size_t i = 0; g && i < g->n_pairs; i++) {
        const struct gguf_value *v = &g->pairs[i].value;
        char text[200];
        gguf_value_describe(v, text, sizeof(text));
        struct gguf_string_iter it = gguf_strings_begin(v);
        for (struct str s; gguf_strings_next(&it, &s);)
            sum += s.len ? (unsigned char)s.ptr[s.len - 1] : 1;
        double d;
        bool b;
        for (uint64_t k = 0; k < v->count && k < 1000; k++)
            sum += gguf_value_f64(v, k, &d) + gguf_value_bool(v, k, &b);
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct weight_tensor *t = &f->tensors[i];
        assert_ptr_equal(weight_file_find(f, t->name), t);
        if (t->n_bytes)
            sum += t->bytes[0] + t->bytes[t->n_bytes - 1] + (unsigned)weight_tensor_elements(t);
    }
    return sum;
}

static enum status open_and_close(bool is_gguf, const void *bytes, size_t n, struct error *err)
{
    struct gguf g = { 0 };
    struct weight_file f = { 0 };
    enum status s = is_gguf ? gguf_open_memory(&g, "file", bytes, n, err)
                            : safetensors_open_memory(&f, "file", bytes, n, err);
    if (s == STATUS_OK)
        read_all(is_gguf ? &g : NULL, is_gguf ? &g.weights : &f);
    gguf_close(&g);
    weight_file_close(&f);
    return s;
}

static void *read_exactly(const char *name, size_t *n)
{
    struct strbuf path, text;
    strbuf_init(&path, 1000);
    strbuf_init(&text, 1 << 20);
    strbuf_printf(&path, FOLDER "%s", name);
    struct error e;
    if (file_read(path.ptr, 1 << 20, &text, &e) != STATUS_OK)
        fail_msg("%s", e.message);
    *n = text.len;
    void *bytes = mem_copy(text.ptr, text.len);
    strbuf_release(&path);
    strbuf_release(&text);
    return bytes;
}

static void table_of_outcomes(void **state)
{
    (void)state;
    json_t *table;
    struct error e;
    assert_int_equal(json_parse_file(FOLDER "expected.json", 1 << 20, 0, &table, &e), STATUS_OK);
    assert_true(json_object_size(table) > 120);
    int n_wrong = 0;
    for (void *i = json_object_iter(table); i; i = json_object_iter_next(table, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *row = json_object_iter_value(i);
        const char *expect = json_string_value(json_object_get(row, "expect"));
        const char *names = json_string_value(json_object_get(row, "names"));
        size_t n;
        void *bytes = read_exactly(name, &n);
        e.message[0] = 0;
        uint64_t start = clock_ns();
        enum status s = open_and_close(strncmp(name, "gguf/", 5) == 0, bytes, n, &e);
        bool slow = clock_ns() - start > 500000000;
        bool right = s == STATUS_OK ? strcmp(expect, "error") != 0
                                    : strcmp(expect, "loads") != 0 && strstr(e.message, names);
        if (!right || slow) {
            print_message("%s: expected %s naming \"%s\", got %s %s%s\n", name, expect, names,
                          status_name(s), e.message, slow ? " (slow)" : "");
            n_wrong++;
        }
        mem_free(bytes);
    }
    json_decref(table);
    assert_int_equal(n_wrong, 0);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    static const char *const names[] = { "gguf/ok_all_value_types.gguf", "gguf/ok_minimal.gguf",
                                         "safetensors/ok_types.safetensors" };
    for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
        size_t n;
        uint8_t *bytes = read_exactly(names[k], &n);
        struct error e;
        for (size_t cut = 0; cut < n; cut++) {
            void *part = mem_copy(bytes, cut);
            enum status s = open_and_close(k < 2, part, cut, &e);
            mem_free(part);
            /* Only the zeros behind the last tensor may be missing. */
            if (s == STATUS_OK && cut + 32 < n)
                fail_msg("%s loads with %zu of %zu bytes", names[k], cut, n);
        }
        mem_free(bytes);
    }
}

static void every_byte_changed(void **state)
{
    (void)state;
    static const char *const names[] = { "gguf/ok_all_value_types.gguf",
                                         "safetensors/ok_types.safetensors" };
    static const uint8_t patterns[] = { 0x01, 0x80, 0xFF };
    for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
        size_t n;
        uint8_t *bytes = read_exactly(names[k], &n);
        struct error e;
        for (size_t i = 0; i < n * ARRAY_SIZE(patterns); i++) {
            uint8_t pattern = patterns[i / n];
            bytes[i % n] ^= pattern;
            enum status s = open_and_close(k == 0, bytes, n, &e);
            assert_true(s == STATUS_OK || e.message[0]);
            bytes[i % n] ^= pattern;
        }
        mem_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_outcomes),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(every_byte_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
