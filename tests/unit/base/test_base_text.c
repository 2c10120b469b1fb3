/* str, strbuf, utf8, number, error, arena, strmap, rng, mem against known values. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "base/strmap.h"
#include "base/utf8.h"

static void error_is_one_clean_line(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(error_set(&e, STATUS_INVALID, "key \"%s\"", "a\nb\xff\x1b[31m\xc3\xa9"),
                     STATUS_INVALID);
    assert_string_equal(e.message, "key \"a\\x0ab\\xff\\x1b[31m\xc3\xa9\"");
    assert_int_equal(error_prefix(&e, "%s", "file\t"), STATUS_INVALID);
    assert_string_equal(e.message, "file\\x09: key \"a\\x0ab\\xff\\x1b[31m\xc3\xa9\"");
    assert_int_equal(error_set(NULL, STATUS_IO, "x"), STATUS_IO);
    assert_string_equal(status_name(STATUS_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(status_sentence(STATUS_OK), "done");
}

static void error_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[3001];
    for (int i = 0; i < 1500; i++)
        memcpy(text + 2 * i, "\xc3\xa9", 3);
    struct error e;
    error_set(&e, STATUS_INVALID, "x%s", text);
    assert_true(utf8_valid(str_of(e.message)));
    assert_true(strlen(e.message) >= 1021);
    error_prefix(&e, "a%s", text);
    assert_true(utf8_valid(str_of(e.message)));
    error_set(&e, STATUS_INVALID, "%s", text);
    error_prefix(&e, "a");
    assert_true(utf8_valid(str_of(e.message)));
    assert_true(strncmp(e.message, "a: \xc3\xa9", 5) == 0);
}

static void str_functions(void **state)
{
    (void)state;
    struct str s = STR("hello world");
    assert_true(str_starts(s, STR("hello")));
    assert_false(str_starts(STR("he"), STR("hello")));
    assert_true(str_ends(s, STR("world")));
    assert_int_equal(str_find(s, STR("o"), 5), 7);
    assert_int_equal(str_find(s, STR("x"), 0), STR_NONE);
    assert_int_equal(str_find(s, STR(""), 11), 11);
    assert_int_equal(str_find(s, STR(""), 12), STR_NONE);
    assert_true(str_is(str_trim(STR(" \t a b\r\n")), "a b"));
    assert_true(str_compare(STR("a"), STR("ab")) < 0);
    assert_true(str_compare(STR("b"), STR("ab")) > 0);
    assert_true(str_hash(s) == str_hash(STR("hello world")));
    assert_true(str_hash(STR("a")) != str_hash(STR("b")));
    assert_true(str_hash(STR("12345678")) != str_hash(STR("12345678\0")));
}

static void strbuf_keeps_its_maximum(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 10);
    assert_true(strbuf_str(&b).ptr && strbuf_str(&b).len == 0);
    strbuf_puts(&b, "12345");
    strbuf_printf(&b, "%d", 67890);
    assert_false(b.overflow);
    assert_string_equal(b.ptr, "1234567890");
    strbuf_putc(&b, 'x');
    assert_true(b.overflow);
    assert_string_equal(b.ptr, "1234567890");
    strbuf_clear(&b);
    strbuf_put_utf8(&b, 0x1F600);
    strbuf_put_utf8(&b, 0xD800);
    assert_string_equal(b.ptr, "\xF0\x9F\x98\x80\xEF\xBF\xBD");
    char *text = strbuf_detach(&b);
    assert_string_equal(text, "\xF0\x9F\x98\x80\xEF\xBF\xBD");
    mem_free(text);
    strbuf_init(&b, SIZE_MAX);
    for (int i = 0; i < 100000; i++)
        strbuf_putc(&b, 'a');
    assert_int_equal(b.len, 100000);
    strbuf_release(&b);
}

static void utf8_tables(void **state)
{
    (void)state;
    char bytes[4];
    uint32_t back;
    for (uint32_t c = 0; c <= 0x110000; c++) {
        size_t n = utf8_encode_one(c, bytes);
        bool scalar = c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
        assert_int_equal(n > 0, scalar);
        if (n) {
            assert_int_equal(utf8_decode(bytes, n, &back), n);
            assert_int_equal(back, c);
        }
    }
    /* Unicode 15.0, section 3.9: table 3-8 and the examples around it. */
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64",
          "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" "b\xEF\xBF\xBD" "c\xEF\xBF\xBD\xEF\xBF\xBD" "d" },
        { "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
          "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
          "\xEF\xBF\xBD" "A" },
        { "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "", "" },
        { "plain ascii, longer than eight", "plain ascii, longer than eight" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct strbuf b;
        strbuf_init(&b, 1000);
        utf8_repair(&b, str_of(cases[i].in));
        assert_string_equal(b.ptr, cases[i].out);
        assert_true(utf8_valid(strbuf_str(&b)));
        strbuf_release(&b);
    }
    assert_int_equal(utf8_complete(STR("ab\xE2\x82")), 2);
    assert_int_equal(utf8_complete(STR("ab\xE2\x82\xAC")), 5);
    assert_int_equal(utf8_complete(STR("ab\xE2\x28")), 4);
    assert_int_equal(utf8_complete(STR("\xF0\x9F\x98")), 0);
    assert_int_equal(utf8_complete(STR("\xED\xA0")), 2); /* no byte could complete it */
    assert_int_equal(utf8_complete(STR("\x80\x80\x80\x80")), 4);
    assert_int_equal(utf8_count(STR("a\xE2\x82\xAC")), 2);
}

static void numbers_as_python(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        { 0.1, "0.1" }, { 1e22, "1e+22" }, { 100000.0, "100000.0" }, { 1e-7, "1e-07" },
        { 1.0, "1.0" }, { -0.0, "-0.0" }, { 1e16, "1e+16" },
        { 123456789012345680.0, "1.2345678901234568e+17" },
        { 9007199254740993.0, "9007199254740992.0" }, { 0.0001, "0.0001" }, { 0.00001, "1e-05" },
        { 5e-324, "5e-324" }, { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { 2.5, "2.5" }, { 1.0 / 3, "0.3333333333333333" }, { 0.1 + 0.2, "0.30000000000000004" },
        { INFINITY, "inf" }, { -INFINITY, "-inf" }, { 1e15, "1000000000000000.0" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { 9.5367431640625e-07, "9.5367431640625e-07" },
        { 5e22, "5e+22" }, { 12.5, "12.5" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct strbuf b;
        strbuf_init(&b, 100);
        number_put_double(&b, cases[i].value);
        assert_string_equal(b.ptr, cases[i].text);
        strbuf_release(&b);
    }
}

static void numbers_read(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    double d;
    assert_true(number_parse_i64(STR("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(number_parse_i64(STR("9223372036854775807"), &i) && i == INT64_MAX);
    assert_false(number_parse_i64(STR("9223372036854775808"), &i));
    assert_false(number_parse_i64(STR("-"), &i));
    assert_false(number_parse_i64(STR("+-1"), &i));
    assert_false(number_parse_i64(STR("1 "), &i));
    assert_true(number_parse_u64(STR("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_false(number_parse_u64(STR("18446744073709551616"), &u));
    assert_false(number_parse_u64(STR(""), &u));
    assert_true(number_parse_double(STR("1e-3"), &d) && d == 1e-3);
    assert_true(number_parse_double(STR(".5"), &d) && d == 0.5);
    assert_true(number_parse_double(STR("5."), &d) && d == 5);
    const char *bad[] = { "", ".", "e1", "1e", "0x10", "nan", "inf", "1e999", " 1", "1,5", "1e+" };
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++)
        assert_false(number_parse_double(str_of(bad[k]), &d));
    char digits[400];
    memset(digits, '1', sizeof(digits));
    assert_false(number_parse_double((struct str){ digits, 400 }, &d));
    assert_true(number_parse_double((struct str){ digits, 300 }, &d));
}

static void arena_limits(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 100000);
    for (int i = 0; i < 1000; i++) {
        void *p = arena_alloc(&a, (size_t)i % 60);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, 1, (size_t)i % 60);
    }
    assert_null(arena_alloc(&a, 100000));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_zero(&a, SIZE_MAX / 2, 3));
    assert_string_equal(arena_str(&a, STR("abc")).ptr, "abc");
    assert_string_equal(arena_format(&a, "%d-%s", 5, "x").ptr, "5-x");
    int *n = arena_array(&a, int, 5000);
    assert_non_null(n);
    assert_int_equal(n[4999], 0);
    arena_release(&a);
    assert_non_null(arena_alloc(&a, 90000));
    arena_release(&a);
}

static void strmap_holds_many(void **state)
{
    (void)state;
    struct strmap m;
    strmap_init(&m, 0);
    uint32_t v;
    assert_false(strmap_find(&m, STR("x"), &v));
    enum { N = 20000 };
    char (*keys)[8] = mem_zero(N, 8);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(keys[i], 8, "k%u", i);
        assert_true(strmap_insert(&m, str_of(keys[i]), i, NULL));
    }
    for (uint32_t i = 0; i < N; i++)
        assert_true(strmap_find(&m, str_of(keys[i]), &v) && v == i);
    assert_false(strmap_insert(&m, STR("k7"), 1, &v));
    assert_int_equal(v, 7);
    strmap_set(&m, STR("k7"), 99);
    assert_true(strmap_find(&m, STR("k7"), &v) && v == 99);
    assert_true(strmap_insert(&m, STR(""), 5, NULL));
    assert_true(strmap_find(&m, (struct str){ NULL, 0 }, &v) && v == 5);
    assert_int_equal(m.n_used, N + 1);
    strmap_release(&m);
    mem_free(keys);
}

static void philox_known_answers(void **state)
{
    (void)state;
    struct rng_block b = rng_philox(0, 0, 0);
    assert_int_equal(b.word[0], 0x6627e8d5u);
    assert_int_equal(b.word[3], 0x9b00dbd8u);
    b = rng_philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu);
    assert_int_equal(b.word[0], 0xd16cfe09u);
    assert_int_equal(b.word[1], 0x94fdccebu);
    assert_int_equal(b.word[2], 0x5001e420u);
    assert_int_equal(b.word[3], 0x24126ea1u);
    double sum = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        double u = rng_uniform(1, 2, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(fabs(sum / 10000 - 0.5) < 0.02);
    assert_true(rng_random_seed() != rng_random_seed());
}

static void memory(void **state)
{
    (void)state;
    char *pages = mem_try_pages((size_t)5 << 20);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % ((size_t)2 << 20), 0);
    pages[(5 << 20) - 1] = 1;
    mem_release_pages(pages, (size_t)5 << 20);
    assert_null(mem_try_pages(SIZE_MAX - 5));
    void *items = NULL;
    size_t capacity = 0;
    mem_reserve(&items, &capacity, 100, 8);
    assert_true(capacity >= 100);
    mem_free(items);
}

static void collect(void *user, enum log_level level, struct str line)
{
    strbuf_printf(user, "%s: %.*s\n", log_level_name(level), STR_ARG(line));
}

static void log_levels(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 10000);
    struct log_sink sink = { collect, &b, LOG_INFO };
    log_write(&sink, LOG_INFO, "n %d", 5);
    log_write(&sink, LOG_DEBUG, "not wanted");
    log_write(&sink, LOG_ERROR, "bad \xff");
    log_write(NULL, LOG_ERROR, "nowhere");
    assert_string_equal(b.ptr, "info: n 5\nerror: bad \xEF\xBF\xBD\n");
    strbuf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_one_clean_line), cmocka_unit_test(error_is_cut_at_a_character),
        cmocka_unit_test(str_functions),           cmocka_unit_test(strbuf_keeps_its_maximum),
        cmocka_unit_test(utf8_tables),             cmocka_unit_test(numbers_as_python),
        cmocka_unit_test(numbers_read),            cmocka_unit_test(arena_limits),
        cmocka_unit_test(strmap_holds_many),       cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(memory),                  cmocka_unit_test(log_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
