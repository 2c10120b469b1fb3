/* Block-scaled checkpoints against the values another implementation gives, bit for bit. */
#include "unit/quant/golden.h"

#include <jansson.h>

#include "quant/scaled.h"

/* A tensor of a safetensors file: 8 bytes of header length, JSON, data. */
static const unsigned char *tensor_bytes(const unsigned char *file, const char *name, size_t *n)
{
    uint64_t header_bytes;
    memcpy(&header_bytes, file, sizeof header_bytes);
    json_t *header = json_loadb((const char *)file + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    const json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    assert_non_null(offsets);
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    *n = (size_t)json_integer_value(json_array_get(offsets, 1)) - begin;
    json_decref(header);
    return file + 8 + header_bytes + begin;
}

static void check_case(const char *name, const char *codes, const char *scales, const char *factor,
                       struct scaled_matrix m)
{
    size_t file_bytes, value_bytes, n_codes, n_scales, want_codes, want_scales;
    const unsigned char *file = golden_read(0, &file_bytes, "scaled/%s.safetensors", name);
    const unsigned char *values = golden_read(1, &value_bytes, "scaled/%s.f32", name);
    m.codes = tensor_bytes(file, codes, &n_codes);
    m.scales = tensor_bytes(file, scales, &n_scales);
    m.factor = 1;
    if (factor) {
        size_t four;
        memcpy(&m.factor, tensor_bytes(file, factor, &four), sizeof m.factor);
        assert_int_equal(four, 4);
    }
    struct error err = { 0 };
    assert_int_equal(scaled_matrix_sizes(&m, &want_codes, &want_scales, &err), STATUS_OK);
    assert_int_equal(n_codes, want_codes);
    assert_int_equal(n_scales, want_scales);
    assert_int_equal(value_bytes, (size_t)(m.n_rows * m.n_cols) * sizeof(float));
    for (int64_t i = 0; i < m.n_rows; i++) {
        float row[160];
        scaled_matrix_row(&m, i, row);
        size_t bytes = (size_t)m.n_cols * sizeof(float);
        if (memcmp(row, values + (size_t)i * bytes, bytes) != 0)
            fail_msg("%s: row %lld differs", name, (long long)i);
    }
}

static struct scaled_matrix fp8(enum tensor_type scale_type, int64_t tile_rows, int64_t tile_cols)
{
    return (struct scaled_matrix){ .type = TENSOR_TYPE_F8_E4M3, .scale_type = scale_type,
                                   .n_rows = 72, .n_cols = 160,
                                   .tile_rows = tile_rows, .tile_cols = tile_cols };
}

static struct scaled_matrix fp4(enum tensor_type scale_type, int64_t group, bool divides)
{
    return (struct scaled_matrix){ .type = TENSOR_TYPE_F4, .scale_type = scale_type,
                                   .n_rows = 24, .n_cols = 128, .tile_rows = 1, .tile_cols = group,
                                   .factor_divides = divides };
}

static void fp8_tiles_rows_and_tensors(void **state)
{
    (void)state;
    const char *w = "w.weight", *s = "w.weight_scale_inv";
    check_case("fp8_block_f32", w, s, NULL, fp8(TENSOR_TYPE_F32, 32, 64));
    check_case("fp8_block_ue8m0", w, s, NULL, fp8(TENSOR_TYPE_F8_E8M0, 32, 64));
    check_case("fp8_rowwise_bf16", w, s, NULL, fp8(TENSOR_TYPE_BF16, 1, 160));
    check_case("fp8_tensor_f32", w, s, NULL, fp8(TENSOR_TYPE_F32, 72, 160));
}

static void fp4_in_every_convention(void **state)
{
    (void)state;
    check_case("nvfp4_scale2", "w.weight", "w.weight_scale", "w.weight_scale_2",
               fp4(TENSOR_TYPE_F8_E4M3, 16, false));
    check_case("nvfp4_global_inverse", "w.weight_packed", "w.weight_scale", "w.weight_global_scale",
               fp4(TENSOR_TYPE_F8_E4M3, 16, true));
    check_case("mxfp4_blocks", "w_blocks", "w_scales", NULL, fp4(TENSOR_TYPE_F8_E8M0, 32, false));
}

static void senseless_shapes_are_refused(void **state)
{
    (void)state;
    size_t a, b;
    struct error err;
    struct scaled_matrix m = fp4(TENSOR_TYPE_F8_E4M3, 0, false);
    assert_int_equal(scaled_matrix_sizes(&m, &a, &b, &err), STATUS_INVALID);
    m = fp4(TENSOR_TYPE_Q4_0, 16, false);
    assert_int_equal(scaled_matrix_sizes(&m, &a, &b, &err), STATUS_INVALID);
    m = fp4(TENSOR_TYPE_F32, 16, false);
    m.n_cols = 127;
    assert_int_equal(scaled_matrix_sizes(&m, &a, &b, &err), STATUS_INVALID);
    m.n_rows = INT64_MAX;
    m.n_cols = 128;
    assert_int_equal(scaled_matrix_sizes(&m, &a, &b, &err), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_tiles_rows_and_tensors),
        cmocka_unit_test(fp4_in_every_convention),
        cmocka_unit_test(senseless_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
