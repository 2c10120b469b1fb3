/* Balanced keys: scores keep their differences, and a narrow type loses less of them. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rng.h"
#include "quant/kv_codec.h"
#include "tensor/kv_balance.h"

enum { HEADS = 2, GROUP = 2, DIM = 64, ROWS = 256 };

static float keys[ROWS][HEADS][DIM], queries[ROWS][HEADS * GROUP][DIM];

static float normal(uint64_t stream, uint64_t i)
{
    float sum = 0;
    for (uint64_t k = 0; k < 12; k++)
        sum += (float)rng_uniform(stream, i, k);
    return sum - 6;
}

/* As models have them: some numbers of a key are large and nearly constant, one varies much and no
 * query looks at it. */
static void make_rows(void)
{
    for (int r = 0; r < ROWS; r++)
        for (int d = 0; d < DIM; d++) {
            for (int h = 0; h < HEADS; h++) {
                float wide = d == 9 ? 30 : 1, offset = d % 16 == 3 ? 20 : 0;
                keys[r][h][d] = offset + wide * normal((uint64_t)h, (uint64_t)(r * DIM + d));
            }
            for (int h = 0; h < HEADS * GROUP; h++)
                queries[r][h][d] =
                    (d == 9 ? 0.02f : 1) * normal(10 + (uint64_t)h, (uint64_t)(r * DIM + d));
        }
}

static struct kv_balance *learned(bool no_shift)
{
    struct kv_balance *b = kv_balance_new(HEADS, DIM);
    struct tensor k = { .type = TENSOR_TYPE_F32,
                        .n_dims = 3,
                        .dim = { ROWS, HEADS, DIM },
                        .stride_bytes = { HEADS * DIM * 4, DIM * 4, 4 },
                        .data = keys };
    struct tensor q = { .type = TENSOR_TYPE_F32,
                        .n_dims = 3,
                        .dim = { ROWS, HEADS * GROUP, DIM },
                        .stride_bytes = { HEADS * GROUP * DIM * 4, DIM * 4, 4 },
                        .data = queries };
    assert_true(kv_balance_learns(b));
    for (int r = 0; r < ROWS; r++) {
        kv_balance_note_keys(b, &k, r);
        kv_balance_note_queries(b, &q, r);
    }
    b->no_shift = no_shift;
    kv_balance_finish(b);
    assert_false(kv_balance_learns(b));
    return b;
}

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (int d = 0; d < DIM; d++)
        sum += (double)a[d] * b[d];
    return sum;
}

/* Products of balanced rows and of plain ones differ by the same number for all keys. */
static void softmax_sees_nothing(void **state)
{
    (void)state;
    for (int no_shift = 0; no_shift < 2; no_shift++) {
        struct kv_balance *b = learned(no_shift);
        for (int h = 0; h < HEADS; h++) {
            float query[DIM], key[DIM];
            memcpy(query, queries[7][h * GROUP], sizeof query);
            kv_balance_query(b, h, query);
            double first = 0;
            for (int r = 0; r < ROWS; r++) {
                kv_balance_key(b, h, keys[r][h], key);
                double less = dot(queries[7][h * GROUP], keys[r][h]) - dot(query, key);
                first = r == 0 ? less : first;
                assert_true(fabs(less - (no_shift ? 0 : first)) < 1e-3);
            }
        }
        kv_balance_free(b);
    }
}

static void comes_back(void **state)
{
    (void)state;
    struct kv_balance *b = learned(false);
    float key[DIM];
    kv_balance_key(b, 1, keys[3][1], key);
    kv_unbalance_key(b, 1, key);
    for (int d = 0; d < DIM; d++)
        assert_true(fabsf(key[d] - keys[3][1][d]) < 1e-4f);
    kv_balance_free(b);
}

/* Mean square error of the scores' differences from their mean over the keys. */
static double score_error(const struct kv_balance *b, enum tensor_type type)
{
    const struct kv_codec *c = kv_codec_of(type);
    double all = 0;
    for (int i = 0; i < 32; i++) {
        float query[DIM], key[DIM];
        uint8_t row[DIM * 4];
        double sum = 0, squares = 0;
        memcpy(query, queries[i][0], sizeof query);
        kv_balance_query(b, 0, query);
        if (c->rotated)
            turbo_rotate(query, DIM, TURBO_KEYS);
        for (int r = 0; r < ROWS; r++) {
            kv_balance_key(b, 0, keys[r][0], key);
            kv_encode_row(c, key, DIM, TURBO_KEYS, row);
            kv_decode_row(c, row, key, DIM);
            double error = dot(query, key) - dot(queries[i][0], keys[r][0]);
            sum += error;
            squares += error * error;
        }
        const double n = ROWS;
        all += squares / n - sum * sum / n / n;
    }
    return all / 32;
}

static void loses_less(void **state)
{
    (void)state;
    static const enum tensor_type types[] = { TENSOR_TYPE_TURBO3, TENSOR_TYPE_TURBO4,
                                              TENSOR_TYPE_Q4_0, TENSOR_TYPE_NVFP4,
                                              TENSOR_TYPE_Q8_0 };
    struct kv_balance *b = learned(false), *plain = kv_balance_new(HEADS, DIM);
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        double with = score_error(b, types[i]), without = score_error(plain, types[i]);
        if (!(with < without / 4))
            fail_msg("%s: %g with, %g without", kv_type_name(types[i]), with, without);
    }
    kv_balance_free(b);
    kv_balance_free(plain);
}

int main(void)
{
    make_rows();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_sees_nothing),
        cmocka_unit_test(comes_back),
        cmocka_unit_test(loses_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
