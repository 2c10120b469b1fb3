/* Every op in every shape of test-ops: each instruction set against the reference. */
#include "cli/op_cases.h"

#include <math.h>

#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "unit/cmocka_setup.h"

struct sweep {
    struct device *reference, *tested[2]; /* default, exact */
    int n;
};

static void compare_case(void *user, const struct op_case *c)
{
    struct sweep *s = user;
    struct error err;
    struct op_result expected, found;
    char name[OP_NAME_BYTES];
    op_case_name(c, name);
    if (op_case_run(c, s->reference, 0, &expected, &err) != STATUS_OK)
        fail_msg("%s: reference: %s", name, err.message);
    for (int exact = 0; exact < 2; exact++) {
        if (op_case_run(c, s->tested[exact], 0, &found, &err) != STATUS_OK)
            fail_msg("%s: %s", name, err.message);
        struct op_distance d = op_case_compare(c, exact, &expected, &found);
        if (!(d.found <= d.limit))
            fail_msg("%s: distance %g, limit %g", name, d.found, d.limit);
        mem_free(found.values);
    }
    mem_free(expected.values);
    s->n++;
}

static struct device *open_cpu(const char *isa, bool exact, int n_threads)
{
    struct device *dev;
    struct error err;
    struct cpu_device_options o = { .n_threads = n_threads, .exact = exact, .isa = isa };
    if (cpu_device_new(&o, &dev, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return dev;
}

static void test_all_cases(void **state)
{
    (void)state;
    struct sweep s = { .reference = open_cpu("reference", true, 1),
                       .tested = { open_cpu(NULL, false, 2), open_cpu(NULL, true, 3) } };
    op_cases_list(false, compare_case, &s);
    assert_true(s.n > 500);
    s.reference->ops->release(s.reference);
    s.tested[0]->ops->release(s.tested[0]);
    s.tested[1]->ops->release(s.tested[1]);
}

/* A comparison that finds nothing would be no test. */
static void test_comparison_can_fail(void **state)
{
    (void)state;
    float a[4] = { 1, 2, 3, 4 }, b[4] = { 1, 2, 3, 4.01f }, c[4] = { 1, 2, 3, NAN };
    struct op_result x = { .values = a, .n = 4 }, y = { .values = b, .n = 4 };
    struct op_result z = { .values = c, .n = 4 };
    struct op_case add = { .op = "add", .type = TENSOR_TYPE_F32 };
    struct op_distance same = op_case_compare(&add, false, &x, &x);
    struct op_distance off = op_case_compare(&add, false, &x, &y);
    struct op_distance nan = op_case_compare(&add, false, &x, &z);
    assert_true(same.found <= same.limit);
    assert_true(off.found > off.limit);
    assert_true(nan.found > nan.limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparison_can_fail),
        cmocka_unit_test(test_all_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
