/* What counts as an answer that repeats itself: every period up to the limit, nothing shorter than
 * the span, nothing that differs in one token. */
#include "unit/cmocka_setup.h"

#include "base/compiler.h"
#include "engine/loop_guard.h"

#define MOST 4096

/* The first n at which it is seen when the passage of `period` tokens starts at `start`; -1. */
static int32_t seen_at(int32_t *tokens, int32_t start, int32_t period, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        tokens[i] = i < start ? 100000 + i : (i - start) % period;
    for (int32_t i = 1; i <= n; i++)
        if (loop_guard_sees(tokens, i))
            return i;
    return -1;
}

static void every_period(void **state)
{
    (void)state;
    static int32_t tokens[MOST];
    for (int32_t period = 1; period <= LOOP_GUARD_PERIOD; period++) {
        int32_t start = period % 37, span = MAX(4 * period, LOOP_GUARD_SPAN);
        int32_t at = seen_at(tokens, start, period, MOST);
        assert_in_range(at, start + span, start + span + 16);
    }
}

static void longer_periods_are_not(void **state)
{
    (void)state;
    static int32_t tokens[MOST];
    assert_int_equal(seen_at(tokens, 0, LOOP_GUARD_PERIOD + 1, MOST), -1);
    assert_int_equal(seen_at(tokens, MOST, 1, MOST), -1);
}

static void three_times_are_not(void **state)
{
    (void)state;
    static int32_t tokens[MOST];
    assert_int_equal(seen_at(tokens, 0, 200, 4 * 200 - 1), -1);
    assert_int_equal(seen_at(tokens, 0, 1, LOOP_GUARD_SPAN - 1), -1);
}

static void one_token_differs(void **state)
{
    (void)state;
    int32_t tokens[LOOP_GUARD_SPAN];
    for (int32_t i = 0; i < LOOP_GUARD_SPAN; i++)
        tokens[i] = i % 8;
    assert_true(loop_guard_sees(tokens, LOOP_GUARD_SPAN));
    for (int32_t i = 0; i < LOOP_GUARD_SPAN; i += 17) {
        int32_t kept = tokens[i];
        tokens[i] = 99;
        assert_false(loop_guard_sees(tokens, LOOP_GUARD_SPAN));
        tokens[i] = kept;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_period),
        cmocka_unit_test(longer_periods_are_not),
        cmocka_unit_test(three_times_are_not),
        cmocka_unit_test(one_token_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
