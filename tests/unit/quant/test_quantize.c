/* Quantizers: errors against those of another implementation on the same weights, and the edges
 * (zeros, scales below the normal range, hostile values, refusals). */
#include "unit/quant/golden.h"

#include <jansson.h>
#include <math.h>

#include "quant/dequant.h"
#include "quant/quantize.h"

#define TOLERANCE 1.02 /* ours may leave this much more error than theirs */
#define MAX_VALUES 4096

static float decoded[MAX_VALUES];
static unsigned char written[MAX_VALUES * 4];

static void write_and_read(enum tensor_type type, const float *x, const float *importance,
                           int n_rows, int n_cols)
{
    struct error err = { 0 };
    enum status s = quantize_rows(type, x, importance, n_rows, n_cols, written, &err);
    if (s != STATUS_OK)
        fail_msg("%s: %s", tensor_type_name(type), err.message);
    dequant_row(type, written, decoded, (int64_t)n_rows * n_cols);
}

static double rmse(const float *x, const float *weights, int first_row, int n_rows, int n_cols)
{
    double sum = 0, sum_weights = 0;
    for (int j = 0; j < n_cols; j++)
        sum_weights += weights ? (double)weights[j] : 1.0;
    for (int i = first_row; i < first_row + n_rows; i++) {
        for (int j = 0; j < n_cols; j++) {
            double e = (double)x[i * n_cols + j] - (double)decoded[i * n_cols + j];
            sum += e * e * (weights ? (double)weights[j] : 1.0);
        }
    }
    return sqrt(sum / (n_rows * sum_weights));
}

static void check_error(const char *what, const char *type, double found, double theirs)
{
    if (!(found <= theirs * TOLERANCE + 1e-12))
        fail_msg("%s, %s: expected an error of at most %g, found %g", type, what, theirs, found);
}

static json_t *load_json(const char *name)
{
    size_t bytes;
    const unsigned char *text = golden_read(0, &bytes, "%s", name);
    json_t *root = json_loadb((const char *)text, bytes, 0, NULL);
    assert_non_null(root);
    return root;
}

static void check_recorded(const char *name, const json_t *entry, const float *x,
                           const float *importance)
{
    enum tensor_type type;
    assert_true(tensor_type_from_name(str_of(name), &type));
    const json_t *plain = json_object_get(entry, "plain");
    if (plain) {
        write_and_read(type, x, NULL, 16, 256);
        check_error("plain", name, rmse(x, NULL, 0, 16, 256),
                    json_real_value(json_object_get(plain, "rmse")));
        const json_t *rows = json_object_get(plain, "row_rmse");
        for (int row = 0; row < 16; row++)
            check_error("one row", name, rmse(x, NULL, row, 1, 256),
                        json_real_value(json_array_get(rows, (size_t)row)));
    }
    const json_t *weighted = json_object_get(entry, "imatrix");
    if (json_is_string(weighted)) /* their bytes are the same with importances */
        weighted = plain;
    if (weighted) {
        write_and_read(type, x, importance, 16, 256);
        check_error("weighted", name, rmse(x, importance, 0, 16, 256),
                    json_real_value(json_object_get(weighted, "weighted_rmse")));
    }
}

static void errors_do_not_exceed_the_recorded_ones(void **state)
{
    (void)state;
    float x[MAX_VALUES], importance[256];
    size_t bytes;
    memcpy(x, golden_read(0, &bytes, "weights/x.f32"), sizeof x);
    assert_int_equal(bytes, sizeof x);
    memcpy(importance, golden_read(0, &bytes, "weights/imatrix.f32"), sizeof importance);
    assert_int_equal(bytes, sizeof importance);
    json_t *root = load_json("weights/rmse.json");
    const char *name;
    json_t *entry;
    int n_checked = 0;
    json_object_foreach(json_object_get(root, "types"), name, entry) {
        enum tensor_type type;
        assert_true(tensor_type_from_name(str_of(name), &type));
        if (!tensor_type_writable(type))
            continue;
        check_recorded(name, entry, x, importance);
        n_checked++;
    }
    assert_true(n_checked >= 12);
    json_decref(root);
}

/* The recipe of tools/gen_quant_rmse.py. */
static double uniform(uint64_t *seed)
{
    *seed += 0x9E3779B97F4A7C15u;
    uint64_t z = (*seed ^ *seed >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static const char *const shapes[] = { "gaussian", "heavy", "outliers", "positive", "negative",
                                      "tiny", "huge", "sparse", "offset" };

static double shaped(size_t shape, double g, double pick)
{
    switch (shape) {
    case 0: return g * 0.05;
    case 1: return g * g * g;
    case 2: return pick < 0.004 ? g * 30 : g;
    case 3: return fabs(g);
    case 4: return -fabs(g);
    case 5: return g * 1e-6;
    case 6: return g * 1e4;
    case 7: return pick < 0.9 ? 0 : g;
    default: return g + 3.0;
    }
}

static void make_weights(size_t shape, float *x, int n)
{
    uint64_t seed = shape + 1;
    for (int i = 0; i < n; i++) {
        double u[5];
        for (int k = 0; k < 5; k++)
            u[k] = uniform(&seed);
        x[i] = (float)shaped(shape, u[0] + u[1] + u[2] + u[3] - 2.0, u[4]);
    }
}

static void make_importances(float *importance, int n)
{
    uint64_t seed = 100;
    for (int i = 0; i < n; i++) {
        double u = uniform(&seed);
        importance[i] = (float)(u * u * u + 0.01);
    }
}

static void errors_hold_on_other_distributions(void **state)
{
    (void)state;
    float x[MAX_VALUES], importance[512];
    make_importances(importance, 512);
    json_t *root = load_json("rmse_shapes.json");
    const char *name;
    json_t *entry;
    int n_checked = 0;
    json_object_foreach(json_object_get(root, "types"), name, entry) {
        enum tensor_type type;
        assert_true(tensor_type_from_name(str_of(name), &type));
        if (!tensor_type_writable(type))
            continue;
        for (size_t shape = 0; shape < ARRAY_SIZE(shapes); shape++, n_checked++) {
            const json_t *theirs = json_object_get(entry, shapes[shape]);
            make_weights(shape, x, MAX_VALUES);
            write_and_read(type, x, NULL, 8, 512);
            check_error(shapes[shape], name, rmse(x, NULL, 0, 8, 512),
                        json_real_value(json_array_get(theirs, 0)));
            if (json_array_size(theirs) < 2)
                continue;
            write_and_read(type, x, importance, 8, 512);
            check_error(shapes[shape], name, rmse(x, importance, 0, 8, 512),
                        json_real_value(json_array_get(theirs, 1)));
        }
    }
    assert_true(n_checked >= 90);
    json_decref(root);
}

#define FOR_EACH_WRITABLE(type)                            \
    for (int type = 0; type < TENSOR_TYPE_FIRST_OWN; type++) \
        if (tensor_type_writable((enum tensor_type)type))

static void zeros_stay_zeros(void **state)
{
    (void)state;
    static const float x[512];
    const float no_importance[256] = { 0 };
    FOR_EACH_WRITABLE(type) {
        if (type == TENSOR_TYPE_Q1_0)
            continue; /* has no zero but that of its scale, which is checked below */
        write_and_read((enum tensor_type)type, x, no_importance, 2, 256);
        for (int i = 0; i < 512; i++)
            assert_true(decoded[i] == 0);
    }
}

/* The scales of these blocks are f16 subnormals, or below even those. */
static void tiny_values_are_not_flushed(void **state)
{
    (void)state;
    float x[256];
    for (int i = 0; i < 256; i++)
        x[i] = (float)(i % 32 - 16) * 1e-7f;
    FOR_EACH_WRITABLE(type) {
        const struct tensor_type_info *info = tensor_type_info((enum tensor_type)type);
        bool is_ternary = info->type == TENSOR_TYPE_Q1_0 || info->type == TENSOR_TYPE_Q2_0 ||
                          info->type == TENSOR_TYPE_TQ1_0 || info->type == TENSOR_TYPE_TQ2_0 ||
                          info->type == TENSOR_TYPE_NVFP4;
        if (is_ternary)
            continue;
        write_and_read(info->type, x, NULL, 1, 256);
        double zero_error = 0;
        for (int i = 0; i < 256; i++)
            zero_error += (double)x[i] * (double)x[i];
        zero_error = sqrt(zero_error / 256);
        if (!(rmse(x, NULL, 0, 1, 256) < 0.5 * zero_error))
            fail_msg("%s flushed tiny values", info->name);
    }
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    struct error err = { 0 };
    float x[256] = { 0 };
    enum status s = quantize_rows(TENSOR_TYPE_Q8_K, x, NULL, 1, 256, written, &err);
    assert_int_equal(s, STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cannot write type Q8_K; writable types: F32, F16"));
    s = quantize_rows((enum tensor_type)4, x, NULL, 1, 256, written, &err);
    assert_int_equal(s, STATUS_UNSUPPORTED);
    s = quantize_rows(TENSOR_TYPE_Q4_K, x, NULL, 1, 128, written, &err);
    assert_int_equal(s, STATUS_INVALID);

    static const float bad[] = { NAN, INFINITY, -INFINITY, 3e38f };
    FOR_EACH_WRITABLE(type) {
        if (type == TENSOR_TYPE_F32)
            continue;
        bool is_wide = type == TENSOR_TYPE_BF16;
        for (size_t k = 0; k < ARRAY_SIZE(bad) - is_wide; k++) {
            x[200] = bad[k];
            s = quantize_rows((enum tensor_type)type, x, NULL, 1, 256, written, &err);
            assert_int_equal(s, STATUS_INVALID);
            assert_non_null(strstr(err.message, "row 0, column 200"));
        }
        x[200] = 0;
        float importance[256] = { 1 };
        importance[7] = -1;
        s = quantize_rows((enum tensor_type)type, x, importance, 1, 256, written, &err);
        assert_int_equal(s, STATUS_INVALID);
        assert_non_null(strstr(err.message, "column 7"));
    }
}

static void largest_values_survive(void **state)
{
    (void)state;
    float x[256];
    for (int i = 0; i < 256; i++)
        x[i] = i % 2 ? 60000.0f : -60000.0f;
    FOR_EACH_WRITABLE(type) {
        if (type == TENSOR_TYPE_NVFP4)
            continue; /* its largest is 2688 */
        write_and_read((enum tensor_type)type, x, NULL, 1, 256);
        for (int i = 0; i < 256; i++)
            assert_true(fabsf(decoded[i] - x[i]) < 6000.0f);
    }
}

static void f32_keeps_every_bit(void **state)
{
    (void)state;
    const uint32_t bits[4] = { 0x7FC00123u, 0x80000000u, 0x00000001u, 0xFF800000u };
    float x[4];
    struct error err;
    memcpy(x, bits, sizeof x);
    assert_int_equal(quantize_rows(TENSOR_TYPE_F32, x, NULL, 2, 2, written, &err), STATUS_OK);
    assert_memory_equal(written, bits, sizeof bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_do_not_exceed_the_recorded_ones),
        cmocka_unit_test(errors_hold_on_other_distributions),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(tiny_values_are_not_flushed),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(largest_values_survive),
        cmocka_unit_test(f32_keeps_every_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
