/* ingot test-ops: every op x type x shape against the reference kernels, each instruction set of
 * this processor in turn; --bench times the same calls. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/op_cases.h"
#include "cpu/cpu_device.h"
#include "cpu/cpu_features.h"

static const struct option rows[] = {
    OPT_CHOICE("--device", "cpu", "cpu", "what to test"),
    OPT_TEXT("--filter", "RE", NULL, "only cases whose name matches this expression"),
    OPT_FLAG("--bench", NULL, "time the cases instead of comparing them"),
    OPT_INT_OR("--threads -t", "N", "auto", "auto", 1, 1024, "compute threads"),
};
static const struct option_group test_options = OPTION_GROUP("test-ops", "Testing ops", rows);
static const struct option_group *const groups[] = { &test_options, NULL };

/* A device under test; new kinds of devices are appended by open_targets. */
struct target {
    char name[32];
    struct device *dev;
    bool exact;
    int passed, failed, refused;
    double worst; /* of the limit */
};

#define MAX_TARGETS 16
struct test_run {
    struct device *reference;
    struct target target[MAX_TARGETS];
    int n_targets;
    pcre2_code *filter;
    pcre2_match_data *match;
    bool bench;
    const struct options *options;
};

static enum status add_cpu(struct test_run *t, const char *isa, bool exact, int n_threads,
                           struct error *err)
{
    struct target *x = &t->target[t->n_targets];
    TRY(cpu_device_new(&(struct cpu_device_options){ .n_threads = n_threads, .exact = exact,
                                                     .isa = isa }, &x->dev, err));
    snprintf(x->name, sizeof x->name, "cpu/%s%s", isa, exact ? "/exact" : "");
    x->exact = exact;
    t->n_targets++;
    return STATUS_OK;
}

static enum status open_targets(struct test_run *t, int n_threads, struct error *err)
{
    struct cpu_features f;
    cpu_features_read(&f);
    const struct {
        const char *isa;
        bool offered;
    } sets[] = { { "avx2", f.avx2 }, { "avx512", f.avx512 }, { "neon", f.neon_dotprod } };
    TRY(cpu_device_new(&(struct cpu_device_options){ .n_threads = 1, .exact = true,
                                                     .isa = "reference" }, &t->reference, err));
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
        for (int exact = 0; exact < 2 && sets[i].offered; exact++)
            TRY(add_cpu(t, sets[i].isa, exact, n_threads, err));
    return STATUS_OK;
}

static enum status set_filter(struct test_run *t, const char *expression, struct error *err)
{
    int code;
    size_t offset;
    if (!expression)
        return STATUS_OK;
    t->filter = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, 0, &code, &offset,
                              NULL);
    if (!t->filter)
        return error_set(err, STATUS_INVALID, "--filter: not an expression at character %zu",
                         offset);
    t->match = pcre2_match_data_create_from_pattern(t->filter, NULL);
    return STATUS_OK;
}

static bool matches(const struct test_run *t, const char *name)
{
    return !t->filter || pcre2_match(t->filter, (PCRE2_SPTR)name, strlen(name), 0, 0, t->match,
                                     NULL) >= 0;
}

static void compare(struct test_run *t, struct target *x, const struct op_case *c,
                    const char *name, const struct op_result *expected)
{
    struct error err = { 0 };
    struct op_result found;
    enum status s = op_case_run(c, x->dev, 0, &found, &err);
    if (s == STATUS_UNSUPPORTED) {
        x->refused++;
        cli_note(t->options, "%s: %s: %s", x->name, name, err.message);
        return;
    }
    struct op_distance d = { 0, 1 };
    if (s == STATUS_OK)
        d = op_case_compare(c, x->exact, expected, &found);
    bool good = s == STATUS_OK && d.found <= d.limit;
    x->passed += good;
    x->failed += !good;
    x->worst = MAX(x->worst, d.found / d.limit);
    if (s != STATUS_OK)
        printf("FAIL %s %s: %s\n", x->name, name, err.message);
    else if (!good)
        printf("FAIL %s %s: distance %.3g, limit %.3g\n", x->name, name, d.found, d.limit);
    else if (options_flag(t->options, "verbose"))
        printf("ok   %s %s: distance %.3g, limit %.3g\n", x->name, name, d.found, d.limit);
    mem_free(found.values);
}

static void time_case(struct target *x, const struct op_case *c, const char *name)
{
    struct error err = { 0 };
    struct op_result result;
    if (op_case_run(c, x->dev, 0.05, &result, &err) != STATUS_OK) {
        printf("%-14s %-60s %s\n", x->name, name, err.message);
        return;
    }
    printf("%-14s %-60s %10.2f us %8.2f G/s\n", x->name, name, result.seconds * 1e6,
           result.multiplies / result.seconds * 1e-9);
    mem_free(result.values);
}

static void each_case(void *user, const struct op_case *c)
{
    struct test_run *t = user;
    char name[OP_NAME_BYTES];
    struct error err = { 0 };
    op_case_name(c, name);
    if (!matches(t, name))
        return;
    if (t->bench) {
        for (int i = 0; i < t->n_targets; i++)
            time_case(&t->target[i], c, name);
        return;
    }
    struct op_result expected;
    if (op_case_run(c, t->reference, 0, &expected, &err) != STATUS_OK) {
        printf("FAIL reference %s: %s\n", name, err.message);
        t->target[0].failed++;
        return;
    }
    for (int i = 0; i < t->n_targets; i++)
        compare(t, &t->target[i], c, name, &expected);
    mem_free(expected.values);
}

static int report(const struct test_run *t)
{
    int failed = 0, passed = 0;
    for (int i = 0; i < t->n_targets && !t->bench; i++) {
        const struct target *x = &t->target[i];
        printf("%-18s %5d passed %5d failed %5d refused, worst %.2f of the limit\n", x->name,
               x->passed, x->failed, x->refused, x->worst);
        failed += x->failed;
        passed += x->passed;
    }
    return failed || (!t->bench && passed == 0) ? CLI_FAILED : CLI_OK;
}

static void close_run(struct test_run *t)
{
    for (int i = 0; i < t->n_targets; i++)
        t->target[i].dev->ops->release(t->target[i].dev);
    if (t->reference)
        t->reference->ops->release(t->reference);
    pcre2_match_data_free(t->match);
    pcre2_code_free(t->filter);
}

static int run(const struct options *o)
{
    struct error err = { 0 };
    struct test_run t = { .bench = options_flag(o, "bench"), .options = o };
    int n_threads = options_word(o, "threads") ? 0 : (int)options_int(o, "threads");
    enum status s = set_filter(&t, options_text(o, "filter"), &err);
    if (s == STATUS_OK)
        s = open_targets(&t, n_threads, &err);
    if (s == STATUS_OK && t.n_targets == 0)
        s = error_set(&err, STATUS_UNSUPPORTED,
                      "test-ops: this processor has no instruction set beside the reference");
    int code = CLI_OK;
    if (s == STATUS_OK) {
        op_cases_list(t.bench, each_case, &t);
        code = report(&t);
    } else {
        code = cli_fail(&err);
    }
    close_run(&t);
    return code;
}

const struct cli_command cmd_test_ops = {
    .name = "test-ops",
    .summary = "compare every op with the reference, or time it",
    .usage = "[--device cpu] [--filter RE] [--bench]",
    .groups = groups,
    .run = run,
    .example = "ingot test-ops --filter 'linear Q4_K'",
};
