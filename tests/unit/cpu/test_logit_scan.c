/* Passes over logits: right, and the same bits from every instruction set. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rng.h"
#include "cpu/logit_scan.h"

#define N 3000

static const int32_t lengths[] = { 0, 1, 7, 15, 16, 17, 31, 64, 1000, 1024, 1025, 2999 };

static void fill(float *x, uint64_t seed)
{
    for (uint32_t i = 0; i < N; i++)
        x[i] = (float)(rng_uniform(seed, 1, i) * 120.0 - 120.0);
}

static void is_right(const struct logit_scan *s)
{
    float x[N], weight[N];
    fill(x, 7);
    for (size_t k = 0; k < ARRAY_SIZE(lengths); k++) {
        int32_t n = lengths[k], above = n;
        bool has_nan = true;
        float best = -INFINITY;
        double sum = 0;
        s->weights(weight, x, n, 0);
        for (int32_t i = 0; i < n; i++) {
            double exact = exp((double)x[i]);
            best = fmaxf(best, x[i]);
            sum += exp((double)x[i] * 0.5);
            assert_true(x[i] < -87.0f ? weight[i] == 0 : fabs(weight[i] - exact) < 4e-7 * exact);
        }
        assert_true(s->maximum(x, n, &has_nan) == best && !has_nan);
        assert_true(fabs(s->mass(x, n, 0, 0.5f) - sum) <= 2e-6 * sum + 1e-30);
        for (int32_t i = n - 1; i >= 0; i--)
            above = x[i] > -5 ? i : above;
        int32_t found = s->next_above(x, 0, n, -5);
        assert_int_equal(found, MIN(above, n) / LOGIT_LANES * LOGIT_LANES);
    }
    assert_int_equal(s->next_above(x, 0, 16, x[3] + 500), 16);
    float flat[32];
    for (int i = 0; i < 32; i++)
        flat[i] = i == 20 ? 1 : 0;
    assert_int_equal(s->next_from(flat, 0, 32, 1), 16);
    assert_int_equal(s->next_above(flat, 0, 32, 1), 32);
    bool has_nan = false;
    x[2000] = NAN;
    s->maximum(x, N, &has_nan);
    assert_true(has_nan);
}

static void plain_is_right(void **state)
{
    (void)state;
    is_right(&logit_scan_plain);
}

static void best_is_right(void **state)
{
    (void)state;
    is_right(logit_scan_best());
}

static void all_agree(void **state)
{
    (void)state;
    const struct logit_scan *a = &logit_scan_plain, *b = logit_scan_best();
    float x[N], u[N], v[N];
    bool nan;
    for (uint64_t seed = 1; seed < 50; seed++) {
        fill(x, seed);
        x[seed * 3] = -INFINITY;
        for (size_t k = 0; k < ARRAY_SIZE(lengths); k++) {
            int32_t n = lengths[k];
            float top = a->maximum(x, n, &nan);
            double p = a->mass(x, n, top, 1.3f), q = b->mass(x, n, top, 1.3f);
            assert_memory_equal(&p, &q, sizeof(p));
            a->weights(u, x, n, top);
            b->weights(v, x, n, top);
            assert_memory_equal(u, v, (size_t)n * sizeof(float));
            assert_int_equal(a->next_from(x, 0, n, -1), b->next_from(x, 0, n, -1));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_is_right),
        cmocka_unit_test(best_is_right),
        cmocka_unit_test(all_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
