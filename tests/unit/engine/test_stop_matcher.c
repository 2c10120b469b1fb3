/* Stop strings: every way to cut a text gives the same answer, and nothing of a stop leaks. */
#include "unit/cmocka_setup.h"

#include "base/compiler.h"
#include "engine/stop_matcher.h"

static const struct {
    const char *text, *stop[3];
    int n_stop;
    const char *out;
    int32_t index;
} cases[] = {
    { "hello world", { "xyz" }, 1, "hello world", -1 },
    { "hello world", { "o w" }, 1, "hell", 0 },
    { "aaab", { "aab" }, 1, "a", 0 },
    { "abcd", { "abcd", "bc" }, 2, "a", 1 },
    { "abc", { "bc", "abc" }, 2, "", 1 },
    { "one\n\nUser: two", { "", "\nUser:" }, 2, "one\n", 1 },
    { "almost <|im_en", { "<|im_end|>" }, 1, "almost <|im_en", -1 },
    { "\xC3\xA4\xE2\x82\xAC!", { "\xE2\x82\xAC" }, 1, "\xC3\xA4", 0 },
};

static void every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct str text = str_of(cases[i].text), stop[3];
        for (int k = 0; k < cases[i].n_stop; k++)
            stop[k] = str_of(cases[i].stop[k]);
        for (size_t step = 1; step <= text.len; step++) {
            struct stop_matcher m;
            struct strbuf out;
            strbuf_init(&out, 1000);
            stop_matcher_init(&m, stop, cases[i].n_stop);
            int32_t index = -1;
            for (size_t at = 0; at < text.len && index < 0; at += step)
                index = stop_matcher_push(
                    &m, str_slice(text, at, MIN(at + step, text.len)), &out);
            if (index < 0)
                stop_matcher_flush(&m, &out);
            assert_int_equal(index, cases[i].index);
            assert_true(str_is(strbuf_str(&out), cases[i].out));
            stop_matcher_release(&m);
            strbuf_release(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_cut) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
