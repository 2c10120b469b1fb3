/* imatrix: both forms give the same values; damaged ones give errors. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/gguf_write.h"
#include "formats/imatrix.h"

static struct error e;

static void add_i32(struct strbuf *b, int32_t v)
{
    strbuf_append(b, &v, 4);
}

static void add_entry(struct strbuf *b, const char *name, int32_t calls, const float *v, int n)
{
    add_i32(b, (int32_t)strlen(name));
    strbuf_puts(b, name);
    add_i32(b, calls);
    add_i32(b, n);
    strbuf_append(b, v, (size_t)n * 4);
}

static void build_old(struct strbuf *b)
{
    strbuf_init(b, 10000);
    add_i32(b, 2);
    add_entry(b, "a.weight", 2, (const float[]){ 2, 4, 6 }, 3);
    add_entry(b, "b.weight", 0, (const float[]){ 0.5f }, 1);
    add_i32(b, 17);
    add_i32(b, 4);
    strbuf_puts(b, "wiki");
}

static void old_form(void **state)
{
    (void)state;
    struct strbuf b;
    build_old(&b);
    struct imatrix m;
    assert_int_equal(imatrix_open_memory(&m, "m", b.ptr, b.len, &e), STATUS_OK);
    assert_int_equal(m.n_entries, 2);
    assert_int_equal(m.n_chunks, 17);
    assert_true(str_is(m.dataset, "wiki"));
    const struct imatrix_entry *a = imatrix_find(&m, STR("a.weight"));
    assert_int_equal(a->n_values, 3);
    assert_true(a->values[0] == 1 && a->values[2] == 3);
    assert_true(imatrix_find(&m, STR("b.weight"))->values[0] == 0.5f);
    assert_null(imatrix_find(&m, STR("c")));
    imatrix_release(&m);
    size_t whole[] = { b.len, b.len - 8, b.len - 12 }; /* without the name; without the chunks */
    for (size_t cut = 0; cut < b.len; cut++) {
        void *part = mem_copy(b.ptr, cut);
        enum status s = imatrix_open_memory(&m, "m", part, cut, &e);
        mem_free(part);
        bool complete = cut == whole[1] || (cut >= whole[2] && cut < whole[2] + 4);
        assert_int_equal(s == STATUS_OK, complete);
        imatrix_release(&m);
    }
    strbuf_release(&b);
}

static void refused(struct strbuf *b, const char *mentions)
{
    struct imatrix m;
    assert_int_not_equal(imatrix_open_memory(&m, "m", b->ptr, b->len, &e), STATUS_OK);
    if (!strstr(e.message, mentions))
        fail_msg("\"%s\" does not mention \"%s\"", e.message, mentions);
    strbuf_release(b);
}

static void bad_values(void **state)
{
    (void)state;
    static const float bad[] = { NAN, INFINITY, -1 };
    struct strbuf b;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        strbuf_init(&b, 1000);
        add_i32(&b, 1);
        add_entry(&b, "x", 1, &bad[i], 1);
        refused(&b, "\"x\"");
    }
    strbuf_init(&b, 1000);
    add_i32(&b, 2);
    add_entry(&b, "x", 1, (const float[]){ 1, 2, 3 }, 3);
    add_entry(&b, "x", 1, (const float[]){ 1, 2, 3 }, 3);
    refused(&b, "twice");
    strbuf_init(&b, 1000);
    add_i32(&b, INT32_MAX);
    refused(&b, "entry count");
}

static void put_f32(struct gguf_writer *w, const float *v, size_t n)
{
    assert_int_equal(gguf_writer_write(w, v, n * 4, &e), STATUS_OK);
}

static void gguf_form(void **state)
{
    (void)state;
    char path[] = "/tmp/ingot-imatrix-XXXXXX";
    close(mkstemp(path));
    const struct str datasets[] = { STR("wiki") };
    for (int with_counts = 0; with_counts < 2; with_counts++) {
        struct gguf_writer *w;
        assert_int_equal(gguf_writer_open(&w, path, 0, &e), STATUS_OK);
        assert_int_equal(gguf_writer_put_str(w, "general.type", STR("imatrix"), &e), STATUS_OK);
        assert_int_equal(gguf_writer_put_u32(w, "imatrix.chunk_count", 9, &e), STATUS_OK);
        assert_int_equal(gguf_writer_put_strings(w, "imatrix.datasets", datasets, 1, &e),
                         STATUS_OK);
        assert_int_equal(gguf_writer_declare(w, STR("a.in_sum2"), TENSOR_TYPE_F32, 2,
                                             (int64_t[]){ 2, 3 }, &e), STATUS_OK);
        assert_int_equal(gguf_writer_declare(w, with_counts ? STR("a.counts") : STR("other"),
                                             TENSOR_TYPE_F32, 2, (int64_t[]){ 2, 1 }, &e),
                         STATUS_OK);
        put_f32(w, (const float[]){ 2, 4, 6, 7, 8, 9 }, 6);
        put_f32(w, (const float[]){ 2, 0 }, 2);
        assert_int_equal(gguf_writer_finish(w, &e), STATUS_OK);
        gguf_writer_free(w);
        struct imatrix m;
        enum status s = imatrix_open(&m, path, &e);
        if (!with_counts) {
            assert_int_equal(s, STATUS_INVALID);
            assert_non_null(strstr(e.message, "a.counts"));
            continue;
        }
        assert_int_equal(s, STATUS_OK);
        const struct imatrix_entry *a = imatrix_find(&m, STR("a"));
        static const float expected[] = { 1, 2, 3, 1, 1, 1 };
        assert_int_equal(a->n_values, 6);
        assert_memory_equal(a->values, expected, sizeof(expected));
        assert_int_equal(m.n_chunks, 9);
        assert_true(str_is(m.dataset, "wiki"));
        imatrix_release(&m);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_form),
        cmocka_unit_test(bad_values),
        cmocka_unit_test(gguf_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
