/* How long an idle engine waits for company, on a clock of the test's own. */
#include "unit/cmocka_setup.h"

#include "engine/admission_window.h"

#define US 1000u
#define MS 1000000u
#define SECOND 1000000000ull

static struct admission_window window_of(int32_t most_ms, int32_t n_seats)
{
    struct admission_window w;
    admission_window_init(&w, most_ms, n_seats);
    return w;
}

/* An idle engine gets n requests, `gap` apart; returns when the last one came. */
static uint64_t burst(struct admission_window *w, uint64_t now, int n, uint64_t gap)
{
    admission_window_rest(w);
    for (int i = 0; i < n; i++)
        admission_window_arrive(w, now + (uint64_t)i * gap);
    return now + (uint64_t)(n - 1) * gap;
}

static void off(void **state)
{
    (void)state;
    struct admission_window w = window_of(0, 16);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(admission_window_left(&w, burst(&w, i * SECOND, 4, 1 * MS)), 0);
    w = window_of(-1, 16);
    assert_int_equal(admission_window_left(&w, burst(&w, SECOND, 1, 0)), 0);
}

static void lone_requests(void **state)
{
    (void)state;
    struct admission_window w = window_of(ADMISSION_WINDOW_MOST_MS, 16);
    for (uint64_t i = 1; i < 50; i++) {
        uint64_t came = burst(&w, i * 20 * MS, 1, 0);
        assert_int_equal(admission_window_left(&w, came), 250 * US);
        assert_int_equal(admission_window_left(&w, came + 100 * US), 150 * US);
        assert_int_equal(admission_window_left(&w, came + 250 * US), 0);
        assert_int_equal(admission_window_left(&w, came + SECOND), 0);
    }
}

/* The gaps are learned even while the first one of each burst is computed alone. */
static void bursts(void **state)
{
    (void)state;
    struct admission_window w = window_of(ADMISSION_WINDOW_MOST_MS, 16);
    for (uint64_t i = 1; i < 30; i++)
        burst(&w, i * SECOND, 8, 1 * MS);
    uint64_t came = burst(&w, 40 * SECOND, 1, 0);
    assert_in_range(admission_window_left(&w, came), 1900 * US, 2000 * US);
    admission_window_arrive(&w, came += 1 * MS);
    assert_in_range(admission_window_left(&w, came), 2900 * US, 3000 * US);
    assert_in_range(admission_window_left(&w, came + 2 * MS), 900 * US, 1000 * US);
    assert_int_equal(admission_window_left(&w, came + 3 * MS), 0);
    /* One that comes late begins no burst, whatever came before. */
    admission_window_arrive(&w, came += 13 * MS);
    assert_int_equal(admission_window_left(&w, came), 0);
    /* Where they have become rare, a lone one no longer waits for them. */
    for (uint64_t i = 50; i < 60; i++)
        came = burst(&w, i * SECOND, 1, 0);
    assert_int_equal(admission_window_left(&w, came), 250 * US);
}

static void ends(void **state)
{
    (void)state;
    struct admission_window w = window_of(ADMISSION_WINDOW_MOST_MS, 16);
    for (uint64_t i = 1; i < 30; i++)
        burst(&w, i * SECOND, 12, 10 * MS);
    /* Slow bursts: probe and quiet stop at 3 and 12 ms. */
    uint64_t first = burst(&w, 40 * SECOND, 1, 0), now = first;
    assert_int_equal(admission_window_left(&w, now), 3 * MS);
    admission_window_arrive(&w, now += 2 * MS);
    assert_int_equal(admission_window_left(&w, now), 12 * MS);
    /* The hard end, with 16 seats 4 x quiet after the first, however many come. */
    while (now + 10 * MS < first + 48 * MS)
        admission_window_arrive(&w, now += 10 * MS);
    assert_int_equal(admission_window_left(&w, now), first + 48 * MS - now);
    assert_int_equal(admission_window_left(&w, first + 48 * MS), 0);
    /* Every seat taken: nothing is gained by waiting. */
    now = burst(&w, 50 * SECOND, 16, 10 * US);
    assert_int_equal(admission_window_left(&w, now), 0);
}

static void narrow(void **state)
{
    (void)state;
    struct admission_window w = window_of(1, 64);
    for (uint64_t i = 1; i < 30; i++) {
        uint64_t came = burst(&w, i * SECOND, 8, 4 * MS);
        assert_int_equal(admission_window_left(&w, came), 0);
        came = burst(&w, i * SECOND + SECOND / 2, 1, 0);
        assert_in_range(admission_window_left(&w, came), 250 * US, 1 * MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off),  cmocka_unit_test(lone_requests), cmocka_unit_test(bursts),
        cmocka_unit_test(ends), cmocka_unit_test(narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
