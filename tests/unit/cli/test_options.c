/* The option parser against a table of its own, and the shared tables against its rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/help.h"

static const struct option rows[] = {
    OPT_TEXT("--prompt -p", "TEXT", NULL, "the question"),
    OPT_INT("--top-k", "N", NULL, 0, 100, "n"),
    OPT_INT_OR("--threads -t", "N", "auto", "auto", 1, 64, "n"),
    OPT_U64_OR("--seed", "N", "random|-1", NULL, "n"),
    OPT_REAL_ABOVE("--top-p", "X", NULL, 0, 1, "x"),
    OPT_REAL("--temperature --temp", "X", "0.5", 0, 100, "x"),
    OPT_BYTES("--limit", NULL, NULL, "b"),
    OPT_MIB("--cache", "auto|off", "auto", "b"),
    OPT_LIST("--stop -r", "TEXT", "s"),
    OPT_CHOICE("--key-type", "f32|f16", "f16", "k"),
    OPT_CHOICE("--value-type", "f32|f16", "f16", "v"),
    OPT_SETS("--type", "TYPE", "key-type value-type", "both"),
    OPT_SETS("--cold", NULL, "temperature=0", "cold"),
    OPT_FLAG("--warmup", "on", "w"),
    OPT_FLAG("--raw --plain-text", NULL, "r"),
    OPT_IGNORED("--flash-attn -fa", NULL, "on|off", "i"),
    OPT_IGNORED("--prio", "VALUE", NULL, "i"),
    OPT_REFUSED("--lora", "adapters are not supported"),
};
static const struct option_group own = OPTION_GROUP("own", "Own", rows);
static const struct option_group *const groups[] = { &own, NULL };

#define PARSE(o, err, ...) parse(o, err, (char *[]){ __VA_ARGS__, NULL })

static enum status parse(struct options *o, struct error *err, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return options_parse(o, groups, true, argc, argv, err);
}

static void expect_refused(const char *part, char **argv)
{
    struct options o;
    struct error err = { 0 };
    assert_int_equal(parse(&o, &err, argv), STATUS_INVALID);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" lacks \"%s\"", err.message, part);
    options_release(&o);
}
#define REFUSED(part, ...) expect_refused(part, (char *[]){ __VA_ARGS__, NULL })

static void test_values(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    assert_int_equal(PARSE(&o, &err, "model", "-p", "-dash", "--top-k=7", "--threads", "3",
                           "--seed", "18446744073709551615", "--top-p", "1", "--temp", "0",
                           "--limit", "3k", "--cache", "2", "--stop", "a", "-r", "b", "--",
                           "--raw"),
                     STATUS_OK);
    assert_string_equal(options_text(&o, "prompt"), "-dash");
    assert_int_equal(options_int(&o, "top-k"), 7);
    assert_int_equal(options_int(&o, "threads"), 3);
    assert_null(options_word(&o, "threads"));
    assert_true(options_u64(&o, "seed") == UINT64_MAX);
    assert_true(options_real(&o, "top-p") == 1.0);
    assert_true(options_real(&o, "temperature") == 0.0);
    assert_true(options_given(&o, "temperature"));
    assert_true(options_bytes(&o, "limit") == 3072);
    assert_true(options_bytes(&o, "cache") == 2097152);
    assert_int_equal(options_count(&o, "stop"), 2);
    assert_string_equal(options_item(&o, "stop", 1), "b");
    assert_int_equal(o.n_arguments, 2);
    assert_string_equal(options_argument(&o, 1), "--raw");
    assert_null(options_argument(&o, 2));
    assert_false(options_flag(&o, "raw"));
    options_release(&o);
}

static void test_defaults(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    assert_int_equal(parse(&o, &err, (char *[]){ NULL }), STATUS_OK);
    assert_true(options_real(&o, "temperature") == 0.5);
    assert_int_equal(options_source(&o, "temperature"), OPTION_DEFAULT);
    assert_false(options_given(&o, "temperature"));
    assert_string_equal(options_word(&o, "threads"), "auto");
    assert_int_equal(options_int(&o, "threads"), 0);
    assert_false(options_set(&o, "top-k"));
    assert_null(options_text(&o, "prompt"));
    assert_true(options_flag(&o, "warmup"));
    assert_string_equal(options_text(&o, "key-type"), "f16");
    options_release(&o);
}

static void test_flags(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    assert_int_equal(PARSE(&o, &err, "--no-warmup", "--plain-text"), STATUS_OK);
    assert_false(options_flag(&o, "warmup"));
    assert_true(options_given(&o, "warmup"));
    assert_true(options_flag(&o, "raw"));
    options_release(&o);
    assert_int_equal(PARSE(&o, &err, "--raw", "--no-raw", "--warmup=off"), STATUS_OK);
    assert_false(options_flag(&o, "raw"));
    assert_false(options_flag(&o, "warmup"));
    options_release(&o);
    REFUSED("takes no value", "--no-raw=1");
    REFUSED("expected on or off, found \"maybe\"", "--raw=maybe");
}

static void test_variables(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    setenv("INGOT_TOP_K", "9", 1);
    setenv("INGOT_WARMUP", "0", 1);
    assert_int_equal(parse(&o, &err, (char *[]){ NULL }), STATUS_OK);
    assert_int_equal(options_int(&o, "top-k"), 9);
    assert_int_equal(options_source(&o, "top-k"), OPTION_VARIABLE);
    assert_false(options_flag(&o, "warmup"));
    options_release(&o);
    assert_int_equal(PARSE(&o, &err, "--top-k", "4"), STATUS_OK);
    assert_int_equal(options_int(&o, "top-k"), 4);
    options_release(&o);
    setenv("INGOT_TOP_K", "none", 1);
    REFUSED("INGOT_TOP_K: expected a whole number from 0 to 100, found \"none\"", "x");
    assert_int_equal(options_parse(&o, groups, false, 0, NULL, &err), STATUS_OK);
    assert_false(options_set(&o, "top-k"));
    options_release(&o);
    unsetenv("INGOT_TOP_K");
    unsetenv("INGOT_WARMUP");
    setenv("INGOT_NO_WARMUP", "1", 1);
    assert_int_equal(parse(&o, &err, (char *[]){ NULL }), STATUS_OK);
    assert_false(options_flag(&o, "warmup"));
    assert_int_equal(options_source(&o, "warmup"), OPTION_VARIABLE);
    options_release(&o);
    setenv("INGOT_NO_WARMUP", "off", 1);
    assert_int_equal(parse(&o, &err, (char *[]){ NULL }), STATUS_OK);
    assert_true(options_flag(&o, "warmup"));
    options_release(&o);
    unsetenv("INGOT_NO_WARMUP");
}

static void test_shorthands(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    assert_int_equal(PARSE(&o, &err, "--type", "f32"), STATUS_OK);
    assert_string_equal(options_text(&o, "key-type"), "f32");
    assert_string_equal(options_text(&o, "value-type"), "f32");
    options_release(&o);
    assert_int_equal(PARSE(&o, &err, "--cold"), STATUS_OK);
    assert_true(options_real(&o, "temperature") == 0.0);
    options_release(&o);
    REFUSED("--type: expected one of f32|f16, found \"q9\"", "--type", "q9");
}

static void test_foreign(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    assert_int_equal(PARSE(&o, &err, "-fa", "on", "--flash-attn", "model", "--prio", "3"),
                     STATUS_OK);
    assert_string_equal(o.ignored.ptr, "-fa, --flash-attn, --prio");
    assert_int_equal(o.n_arguments, 1);
    options_release(&o);
    REFUSED("--lora is refused: adapters are not supported", "--lora", "x");
}

static void test_refusals(void **state)
{
    (void)state;
    REFUSED("unknown flag --top-kk; did you mean --top-k?", "--top-kk", "3");
    REFUSED("did you mean --temp?", "--tempe", "3");
    REFUSED("unknown flag --zzzzzzzz; see --help", "--zzzzzzzz");
    REFUSED("unknown flag --no-prompt", "--no-prompt");
    REFUSED("--prompt needs a value (TEXT)", "--prompt");
    REFUSED("from 0 to 100, found \"101\"", "--top-k", "101");
    REFUSED("found \"1.5\"", "--top-k", "1.5");
    REFUSED("found \"\"", "--top-k", "");
    REFUSED("above 0 and at most 1, found \"0\"", "--top-p", "0");
    REFUSED("found \"nan\"", "--temp", "nan");
    REFUSED("expected a whole number from 1 to 64 or auto, found \"0\"", "-t", "0");
    REFUSED("found \"18446744073709551616\"", "--seed", "18446744073709551616");
    REFUSED("a size such as", "--limit", "99999999999999T");
    REFUSED("a size such as", "--limit", "k");
}

static void test_help_stops(void **state)
{
    (void)state;
    struct options o;
    struct error err;
    assert_int_equal(PARSE(&o, &err, "a", "-h", "--unknown"), STATUS_OK);
    assert_true(o.help);
    options_release(&o);
}

/* Every table that a command has: readable defaults, no spelling twice. */
static void check_command(const struct cli_command *c)
{
    const struct option_group *all[16] = { &output_options };
    for (size_t i = 0; c->groups && c->groups[i]; i++)
        all[i + 1] = c->groups[i];
    struct options o;
    struct error err;
    if (options_parse(&o, all, false, 0, NULL, &err) != STATUS_OK)
        fail_msg("%s: %s", c->name, err.message);
    for (size_t i = 0; i < o.n_values; i++) {
        struct str a, b;
        for (size_t k = 0; option_name(o.values[i].row, k, &a); k++)
            for (size_t j = i + 1; j < o.n_values; j++)
                for (size_t m = 0; option_name(o.values[j].row, m, &b); m++)
                    if (str_eq(a, b))
                        fail_msg("%s: %.*s stands twice", c->name, STR_ARG(a));
    }
    options_release(&o);
}

static void test_tables(void **state)
{
    (void)state;
    for (size_t i = 0; cli_commands[i]; i++)
        check_command(cli_commands[i]);
    static const struct option_group *const everything[] = {
        &model_options,  &template_options, &sampling_options, &answer_options, &engine_options,
        &device_options, &server_options,   &foreign_options,  NULL,
    };
    const struct cli_command all = { .name = "all", .groups = everything };
    check_command(&all);
}

static void test_help_texts(void **state)
{
    (void)state;
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    assert_true(help_topic(&text, STR("sampling")));
    assert_non_null(strstr(text.ptr, "--temperature X"));
    assert_false(help_topic(&text, STR("nothing")));
    strbuf_clear(&text);
    help_man_page(&text);
    assert_non_null(strstr(text.ptr, ".SH EXIT STATUS"));
    assert_null(strstr(text.ptr, "--flash-attn"));
    strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),     cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_flags),      cmocka_unit_test(test_variables),
        cmocka_unit_test(test_shorthands), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_help_stops),
        cmocka_unit_test(test_tables),     cmocka_unit_test(test_help_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
