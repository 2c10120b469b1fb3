/* json: repairs, refusals with their place, exact large integers, Python's numbers. */
#include "unit/cmocka_setup.h"

#include <string.h>

#include "base/json.h"

static void round_trip(struct str in, unsigned flags, const char *expected)
{
    json_t *value;
    struct error e;
    enum status s = json_parse(in, flags, &value, &e);
    if (s != STATUS_OK)
        fail_msg("%.*s: %s", STR_ARG(in), e.message);
    struct strbuf out;
    strbuf_init(&out, 10000);
    json_write(&out, value);
    assert_string_equal(out.ptr, expected);
    strbuf_release(&out);
    json_decref(value);
}

static void refused(struct str in, unsigned flags, const char *mentions)
{
    json_t *value;
    struct error e;
    if (json_parse(in, flags, &value, &e) == STATUS_OK)
        fail_msg("accepted: %.*s", STR_ARG(in));
    assert_null(value);
    if (!strstr(e.message, mentions))
        fail_msg("\"%s\" does not mention \"%s\"", e.message, mentions);
}

static void repairs(void **state)
{
    (void)state;
    round_trip(STR("\xEF\xBB\xBF[1]"), 0, "[1]");
    round_trip(STR("\"a\xff\xc3\xa9\""), 0, "\"a\xEF\xBF\xBD\xc3\xa9\"");
    round_trip(STR("\"\\ud800x\""), 0, "\"\xEF\xBF\xBDx\"");
    round_trip(STR("\"\\udc00\\ud83d\\ude00\""), 0, "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"");
    round_trip(STR("\"\\ud800\\u0041\""), 0, "\"\xEF\xBF\xBD" "A\"");
    round_trip(STR("\"\\\\ud800\""), 0, "\"\\\\ud800\"");
    round_trip(STR("\"a\\u0000b\""), 0, "\"a\\u0000b\"");
    round_trip(STR("{\"b\":1,\"a\":2,\"b\":3}"), 0, "{\"b\":3,\"a\":2}");
    round_trip(STR(" {\"x\": [1.0, 1e22, 0.1, -0.0, true, null]} "), 0,
               "{\"x\":[1.0,1e+22,0.1,-0.0,true,null]}");
    round_trip(STR("\"\\b\\t\\n\\f\\r\\u000b\\u001f\\/\\\"\""), 0,
               "\"\\b\\t\\n\\f\\r\\u000b\\u001f/\\\"\"");
    round_trip(STR("9223372036854775807"), 0, "9223372036854775807");
    round_trip(STR("-9223372036854775808"), 0, "-9223372036854775808");
    round_trip(STR("[NaN,-Infinity,Infinity,-1,\"NaN\"]"), JSON_PYTHON_NUMBERS,
               "[null,null,null,-1,\"NaN\"]");
    round_trip(STR("[18446744073709551615]"), 0, "[1.8446744073709552e+19]");
}

static void refusals(void **state)
{
    (void)state;
    refused(STR("\"a\xff\""), JSON_STRICT_UTF8, "column 3");
    refused(STR("{\"a\":1,\"a\":2}"), JSON_UNIQUE_KEYS, "a");
    refused(STR("{\n \"max_tokens\": 18446744073709551616}"), 0, "max_tokens");
    refused(STR("{\"n\": -9223372036854775809}"), 0, "\"n\"");
    refused(STR("[1,\n2,\n  x]"), 0, "line 3");
    refused(STR("[1] 2"), 0, "line 1");
    refused(STR(""), 0, "line");
    refused(STR("[1\0]"), 0, "column 3");
    refused(STR("{\"a\\u0000b\": 1}"), 0, "NUL");
    refused(STR("\"abc"), 0, "line 1");
    refused(STR("\"\\"), 0, "line 1");
    refused(STR("\"\\ud8"), 0, "line 1");
    refused(STR("nan"), 0, "line 1");
    refused(STR("[NaN]"), 0, "line 1");
    char deep[600];
    memset(deep, '[', sizeof(deep));
    refused((struct str){ deep, 257 }, 0, "256");
    memset(deep + 256, ']', 256);
    json_t *value;
    assert_int_equal(json_parse((struct str){ deep, 512 }, 0, &value, NULL), STATUS_OK);
    json_decref(value);
}

static void large_integers(void **state)
{
    (void)state;
    struct str text = STR("{\"a\": {\"seed\": 1}, \"s\": \"seed\", \"seed\" : 18446744073709551613,"
                          "\"r\": 1e19, \"n\": -1, \"k\\u0065y\": 9223372036854775809, \"m\": 7}");
    json_t *object;
    uint64_t v;
    assert_int_equal(json_parse(text, 0, &object, NULL), STATUS_OK);
    assert_true(json_get_u64(text, object, "seed", &v));
    assert_true(v == 18446744073709551613u);
    assert_true(json_get_u64(text, object, "key", &v));
    assert_true(v == 9223372036854775809u);
    assert_true(json_get_u64(text, object, "m", &v) && v == 7);
    assert_false(json_get_u64(text, object, "r", &v));
    assert_false(json_get_u64(text, object, "n", &v));
    assert_false(json_get_u64(text, object, "s", &v));
    assert_false(json_get_u64(text, object, "none", &v));
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repairs),
        cmocka_unit_test(refusals),
        cmocka_unit_test(large_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
