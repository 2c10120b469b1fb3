#include "unit/cmocka_setup.h"

#include <math.h>

#include "base/compiler.h"
#include "base/histogram.h"

static void test_a_value_on_a_bound_belongs_below(void **state)
{
    (void)state;
    static const double bound[] = { 1, 2, 4 };
    struct histogram h;
    histogram_init(&h, bound, ARRAY_SIZE(bound));
    const double values[] = { 0, 1, 1.5, 2, 4, 4.5, -1, NAN };
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        histogram_add(&h, values[i]);
    assert_int_equal(h.count[0], 3);
    assert_int_equal(h.count[1], 2);
    assert_int_equal(h.count[2], 1);
    assert_int_equal(h.count[3], 1);
    assert_int_equal(histogram_total(&h), 7);
    assert_true(fabs(histogram_sum(&h) - 12) < 1e-12);
}

static void test_shared_bounds_ascend(void **state)
{
    (void)state;
    for (size_t i = 1; i < ARRAY_SIZE(histogram_durations); i++)
        assert_true(histogram_durations[i] > histogram_durations[i - 1]);
    for (size_t i = 1; i < ARRAY_SIZE(histogram_gaps); i++)
        assert_true(histogram_gaps[i] > histogram_gaps[i - 1]);
    for (size_t i = 1; i < ARRAY_SIZE(histogram_batches); i++)
        assert_true(histogram_batches[i] > histogram_batches[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_on_a_bound_belongs_below),
        cmocka_unit_test(test_shared_bounds_ascend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
