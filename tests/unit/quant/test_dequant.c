/* Every block format against blocks and values that other decoders agree on, bit for bit. */
#include "unit/quant/golden.h"

#include "quant/dequant.h"
#include "quant/k_scales.h"

static float decoded[16384];

static void check_type(const struct tensor_type_info *info)
{
    size_t block_bytes, value_bytes;
    const unsigned char *blocks = golden_read(0, &block_bytes, "blocks/%s.bin", info->name);
    const unsigned char *values = golden_read(1, &value_bytes, "blocks/%s.f32", info->name);
    size_t n_blocks = block_bytes / (size_t)info->block_bytes;
    size_t n = n_blocks * (size_t)info->block_elements;
    assert_int_equal(block_bytes % (size_t)info->block_bytes, 0);
    assert_int_equal(value_bytes, n * sizeof(float));
    assert_true(n > 0 && n <= sizeof decoded / sizeof *decoded);
    dequant_row(info->type, blocks, decoded, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&decoded[i], values + i * sizeof(float), sizeof(float)) != 0) {
            float want;
            memcpy(&want, values + i * sizeof want, sizeof want);
            fail_msg("%s value %zu: expected %a, found %a", info->name, i, (double)want,
                     (double)decoded[i]);
        }
}

static void every_file_type_decodes_bit_for_bit(void **state)
{
    (void)state;
    int n_checked = 0;
    for (int id = 0; id < TENSOR_TYPE_FIRST_OWN; id++) {
        const struct tensor_type_info *info = tensor_type_info((enum tensor_type)id);
        bool is_plain = info && (info->flags & TENSOR_TYPE_INTEGER || id == TENSOR_TYPE_F64);
        if (!info || is_plain)
            continue;
        check_type(info);
        n_checked++;
    }
    assert_int_equal(n_checked, 30);
}

static void plain_numbers_become_floats(void **state)
{
    (void)state;
    float y[4];
    dequant_row(TENSOR_TYPE_I8, (const int8_t[]){ -128, 127 }, y, 2);
    assert_true(y[0] == -128 && y[1] == 127);
    dequant_row(TENSOR_TYPE_U8, (const uint8_t[]){ 255, 128 }, y, 2);
    assert_true(y[0] == 255 && y[1] == 128);
    dequant_row(TENSOR_TYPE_I16, (const int16_t[]){ -32768 }, y, 1);
    assert_true(y[0] == -32768);
    dequant_row(TENSOR_TYPE_U32, (const uint32_t[]){ UINT32_MAX }, y, 1);
    assert_true(y[0] == 4294967296.0f);
    dequant_row(TENSOR_TYPE_I64, (const int64_t[]){ -5 }, y, 1);
    assert_true(y[0] == -5);
    dequant_row(TENSOR_TYPE_F64, (const double[]){ 0.1 }, y, 1);
    assert_true(y[0] == 0.1f);
    dequant_row(TENSOR_TYPE_F4, (const uint8_t[]){ 0x2F, 0x71 }, y, 4);
    assert_true(y[0] == -6 && y[1] == 1 && y[2] == 0.5f && y[3] == 6);
}

static void unaligned_rows_are_read(void **state)
{
    (void)state;
    unsigned char bytes[1 + 4 * 2] = { 0 };
    const uint16_t halves[4] = { 0x3C00, 0xC000, 0x0001, 0x7BFF };
    memcpy(bytes + 1, halves, sizeof halves);
    float y[4];
    dequant_row(TENSOR_TYPE_F16, bytes + 1, y, 4);
    assert_true(y[0] == 1 && y[1] == -2 && y[2] == 0x1p-24f && y[3] == 65504);
}

static void packed_scales_round_trip(void **state)
{
    (void)state;
    int8_t signed_scales[16], signed_back[16];
    uint8_t scales[8], mins[8], scales_back[8], mins_back[8];
    unsigned char packed[12];
    for (int round = 0; round < 64; round++) {
        for (int j = 0; j < 16; j++)
            signed_scales[j] = (int8_t)((round * 7 + j * 11) % 64 - 32);
        q3_k_pack_scales(signed_scales, packed);
        q3_k_scales(packed, signed_back);
        assert_memory_equal(signed_scales, signed_back, 16);
        for (int j = 0; j < 8; j++) {
            scales[j] = (uint8_t)((round * 5 + j * 13) % 64);
            mins[j] = (uint8_t)((round * 3 + j * 29) % 64);
        }
        k4_pack_scales(scales, mins, packed);
        k4_scales(packed, scales_back, mins_back);
        assert_memory_equal(scales, scales_back, 8);
        assert_memory_equal(mins, mins_back, 8);
    }
}

static void the_table_answers_names_and_sizes(void **state)
{
    (void)state;
    enum tensor_type type;
    assert_true(tensor_type_from_name(STR("q4_k"), &type) && type == TENSOR_TYPE_Q4_K);
    assert_true(tensor_type_from_name(STR("IQ2_XXS"), &type) && type == TENSOR_TYPE_IQ2_XXS);
    assert_false(tensor_type_from_name(STR("Q4_"), &type));
    assert_false(tensor_type_from_name(STR("Q4_K_M"), &type));
    assert_false(tensor_type_from_name(STR(""), &type));
    assert_null(tensor_type_info((enum tensor_type)4));
    assert_null(tensor_type_info((enum tensor_type)UINT32_MAX));
    assert_string_equal(tensor_type_removed_name((enum tensor_type)4), "Q4_2");
    assert_null(tensor_type_removed_name(TENSOR_TYPE_F32));

    size_t bytes;
    assert_true(tensor_type_row_bytes(TENSOR_TYPE_Q6_K, 512, &bytes) && bytes == 420);
    assert_true(tensor_type_row_bytes(TENSOR_TYPE_F32, 0, &bytes) && bytes == 0);
    assert_false(tensor_type_row_bytes(TENSOR_TYPE_Q6_K, 128, &bytes));
    assert_false(tensor_type_row_bytes(TENSOR_TYPE_Q8_0, -32, &bytes));
    assert_false(tensor_type_row_bytes(TENSOR_TYPE_F64, INT64_MAX, &bytes));
    assert_false(tensor_type_row_bytes((enum tensor_type)5, 32, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_type_decodes_bit_for_bit),
        cmocka_unit_test(plain_numbers_become_floats),
        cmocka_unit_test(unaligned_rows_are_read),
        cmocka_unit_test(packed_scales_round_trip),
        cmocka_unit_test(the_table_answers_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
