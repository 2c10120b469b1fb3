/* The draw against a plain reference that sorts everything, and its distribution. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/sampling.h"

struct pair {
    float value;
    int32_t id;
    double key;
};

static int by_value(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return x->id - y->id;
}

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? 1 : -1;
    return x->id - y->id;
}

static double exp_of(const struct pair *set, int i, float top)
{
    return exp((double)(set[i].value - top));
}

static int cut(struct pair *set, int n, float top, double p)
{
    double all = 0, sum = 0;
    for (int i = 0; i < n; i++)
        all += exp_of(set, i, top);
    int kept = 0;
    while (kept < n && sum < p * all)
        sum += exp_of(set, kept++, top);
    return kept > 0 ? kept : 1;
}

static int cut_typical(struct pair *set, int n, float top, double p)
{
    double all = 0, entropy = 0;
    for (int i = 0; i < n; i++)
        all += exp_of(set, i, top);
    for (int i = 0; i < n; i++)
        entropy += exp_of(set, i, top) / all * (log(all) - (double)(set[i].value - top));
    for (int i = 0; i < n; i++)
        set[i].key = fabs(log(all) - (double)(set[i].value - top) - entropy);
    qsort(set, (size_t)n, sizeof *set, by_key);
    n = cut(set, n, top, p);
    qsort(set, (size_t)n, sizeof *set, by_value);
    return n;
}

/* The set that a draw may choose from; probability of each id in *out. */
static void reference(const float *logits, int n, const struct sampling *s, double *out)
{
    struct pair *set = mem_array(struct pair, (size_t)n);
    for (int i = 0; i < n; i++)
        set[i] = (struct pair){ logits[i], i, 0 };
    qsort(set, (size_t)n, sizeof *set, by_value);
    int m = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    if (s->typical_p < 1)
        m = cut_typical(set, m, set[0].value, s->typical_p);
    if (s->top_p < 1)
        m = cut(set, m, set[0].value, s->top_p);
    double all = 0;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int i = 0; i < m; i++)
        if (s->min_p == 0 || exp_of(set, i, set[0].value) >= s->min_p) {
            out[set[i].id] = exp((double)(set[i].value - set[0].value) / s->temperature);
            all += out[set[i].id];
        }
    for (int i = 0; i < n; i++)
        out[i] /= all;
    mem_free(set);
}

static void random_logits(float *x, int n, uint64_t seed, double spread)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (uint64_t k = 0; k < 6; k++)
            sum += rng_uniform(seed, k, (uint64_t)i) - 0.5;
        x[i] = (float)(sum * spread);
    }
}

static struct sampling plain(double temperature)
{
    struct sampling s = sampling_builtin;
    s.temperature = temperature;
    s.top_k = 0;
    s.top_p = 1;
    s.min_p = 0;
    return s;
}

/* Draws many times; every draw must be allowed and the counts must fit (chi-square). */
static void check_against_reference(int n, double spread, struct sampling s)
{
    const int draws = n > 10000 ? 60 : n > 1000 ? 300 : 4000;
    float *x = mem_array(float, (size_t)n);
    double *p = mem_array(double, (size_t)n);
    int *count = mem_array(int, (size_t)n);
    random_logits(x, n, 7, spread);
    reference(x, n, &s, p);
    struct sampler_scratch *scratch = sampler_scratch_new(n);
    s.seed = 99;
    for (int i = 0; i < draws; i++) {
        struct sampler_input in = { .logits = x, .n_vocab = n, .position = (uint64_t)i };
        int32_t token = sampler_pick(&in, &s, scratch);
        assert_true(token >= 0 && token < n);
        if (p[token] == 0)
            fail_msg("token %d was drawn but is filtered out", token);
        count[token]++;
    }
    double chi = 0, rest = 0, rest_count = 0;
    int cells = 0;
    for (int i = 0; i < n; i++) {
        double expected = p[i] * draws;
        if (expected < 5) {
            rest += expected;
            rest_count += count[i];
            continue;
        }
        chi += (count[i] - expected) * (count[i] - expected) / expected;
        cells++;
    }
    if (rest >= 5)
        chi += (rest_count - rest) * (rest_count - rest) / rest, cells++;
    double freedom = cells - 1;
    if (freedom > 0)
        assert_true(chi < freedom + 5 * sqrt(2 * freedom) + 5);
    sampler_scratch_free(scratch);
    mem_free(x);
    mem_free(p);
    mem_free(count);
}

static void filters(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 5, 17, 300, 5000, 70000 };
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (int f = 0; f < 8; f++) {
            struct sampling s = plain(f == 5 ? 1.7 : 0.8);
            if (f == 1 || f == 5)
                s.top_k = 40;
            if (f == 2 || f == 5)
                s.top_p = 0.9;
            if (f == 3 || f == 5)
                s.min_p = 0.05;
            if (f == 4)
                s.typical_p = 0.7;
            if (f == 7)
                s.top_p = 0.95, s.min_p = 0.02;
            if (f == 6)
                s.top_k = 3000, s.top_p = 0.5, s.typical_p = 0.8;
            check_against_reference(sizes[i], 9, s);
            check_against_reference(sizes[i], 0.2, s);
        }
}

static int32_t pick(const float *x, int n, const struct sampling *s, const int32_t *history,
                    int n_history)
{
    struct sampler_scratch *scratch = sampler_scratch_new(n);
    struct sampler_input in = {
        .logits = x, .n_vocab = n, .history = history, .n_history = n_history
    };
    int32_t token = sampler_pick(&in, s, scratch);
    int32_t again = sampler_pick(&in, s, scratch);
    assert_int_equal(token, again);
    sampler_scratch_free(scratch);
    return token;
}

static void greedy_and_bad(void **state)
{
    (void)state;
    struct sampling s = plain(0);
    float ties[40] = { 0 };
    ties[11] = ties[30] = 2;
    assert_int_equal(pick(ties, 40, &s, NULL, 0), 11);
    ties[39] = NAN;
    assert_int_equal(pick(ties, 40, &s, NULL, 0), -1);
    for (int i = 0; i < 40; i++)
        ties[i] = -INFINITY;
    assert_int_equal(pick(ties, 40, &s, NULL, 0), -1);
    s.temperature = 1;
    assert_int_equal(pick(ties, 40, &s, NULL, 0), -1);
    ties[5] = 1;
    assert_int_equal(pick(ties, 40, &s, NULL, 0), 5);
    float hot[3] = { 1, 2, 3 };
    s.temperature = 1e-9;
    assert_int_equal(pick(hot, 3, &s, NULL, 0), 2);
}

static void penalties(void **state)
{
    (void)state;
    struct sampling s = plain(0);
    float x[4] = { 1.0f, 2.0f, 1.5f, -1.0f };
    int32_t history[] = { 1, 2, 2 };
    s.repetition_penalty = 2; /* 2 -> 1, 1.5 -> 0.75 */
    assert_int_equal(pick(x, 4, &s, history, 3), 0);
    s.penalty_window = 0;
    assert_int_equal(pick(x, 4, &s, history, 3), 1);
    s.penalty_window = 2; /* only token 2 is seen */
    assert_int_equal(pick(x, 4, &s, history, 3), 1);
    s = plain(0);
    s.penalty_window = -1;
    s.frequency_penalty = 0.6; /* token 1: 1.4, token 2: 0.3 */
    assert_int_equal(pick(x, 4, &s, history, 3), 1);
    s.presence_penalty = 0.5; /* token 1: 0.9 */
    assert_int_equal(pick(x, 4, &s, history, 3), 0);
    struct logit_bias bias[] = { { 3, 10.0f }, { 0, -INFINITY } };
    s.bias = bias;
    s.n_bias = 2;
    assert_int_equal(pick(x, 4, &s, history, 3), 3);
}

static void masks(void **state)
{
    (void)state;
    struct sampling s = plain(0);
    float x[40];
    for (int i = 0; i < 40; i++)
        x[i] = (float)i;
    uint32_t allowed[2] = { 1u << 7, 1u << 2 };
    int32_t forbidden[] = { 34 };
    struct sampler_scratch *scratch = sampler_scratch_new(40);
    struct sampler_input in = { .logits = x, .n_vocab = 40, .allowed = allowed };
    assert_int_equal(sampler_pick(&in, &s, scratch), 34);
    in.forbidden = forbidden;
    in.n_forbidden = 1;
    assert_int_equal(sampler_pick(&in, &s, scratch), 7);
    sampler_scratch_free(scratch);
}

static void logprobs(void **state)
{
    (void)state;
    enum { N = 1000 };
    float x[N];
    random_logits(x, N, 3, 8);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += exp((double)x[i]);
    struct sampler_scratch *scratch = sampler_scratch_new(N);
    struct sampler_input in = { .logits = x, .n_vocab = N };
    struct token_probability drawn, top[5];
    sampler_logprobs(&in, 123, &drawn, top, 5, scratch);
    assert_true(fabs((double)drawn.logprob - ((double)x[123] - log(sum))) < 1e-5);
    for (int k = 0; k < 5; k++) {
        int better = 0;
        for (int i = 0; i < N; i++)
            better += x[i] > x[top[k].token];
        assert_int_equal(better, k);
    }
    sampler_scratch_free(scratch);
}

/* Rising and falling logits are the bad cases of selection by threshold. */
static void bad_orders(void **state)
{
    (void)state;
    enum { N = 250000 };
    float *x = mem_array(float, N);
    struct sampling s = plain(1);
    s.top_k = 1;
    for (int i = 0; i < N; i++)
        x[i] = (float)i * 1e-3f;
    assert_int_equal(pick(x, N, &s, NULL, 0), N - 1);
    s.top_k = 40;
    assert_true(pick(x, N, &s, NULL, 0) >= N - 40);
    s.top_k = 0;
    s.top_p = 0.5;
    for (int i = 0; i < N; i++)
        x[i] = 1; /* all equal: the lower half of the ids */
    assert_true(pick(x, N, &s, NULL, 0) <= N / 2);
    random_logits(x, N, 5, 10);
    struct sampler_scratch *scratch = sampler_scratch_new(N);
    double best[4] = { 1, 1, 1, 1 };
    for (int round = 0; round < 4; round++)
        for (int k = 0; k < 4; k++) { /* top_k alone, top_p with min_p, top_p alone, no filter */
            s = sampling_builtin;
            s.top_k = k ? 0 : 40;
            s.min_p = k < 2 ? s.min_p : 0.0;
            s.top_p = k < 3 ? s.top_p : 1.0;
            struct sampler_input in = { .logits = x, .n_vocab = N, .position = 1 };
            double start = clock_seconds();
            sampler_pick(&in, &s, scratch);
            best[k] = fmin(best[k], clock_seconds() - start);
        }
    print_message("250,000 logits: top_k 40 %.2f ms, top_k 0 %.2f ms, without min_p %.2f ms, "
                  "no filter %.2f ms\n",
                  best[0] * 1e3, best[1] * 1e3, best[2] * 1e3, best[3] * 1e3);
    sampler_scratch_free(scratch);
    mem_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_and_bad), cmocka_unit_test(penalties), cmocka_unit_test(masks),
        cmocka_unit_test(logprobs),       cmocka_unit_test(filters),   cmocka_unit_test(bad_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
