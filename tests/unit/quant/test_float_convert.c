/* The small float formats: decode tables and encode cases of another implementation, and the
 * properties that hold for every code. */
#include "unit/quant/golden.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "quant/float_convert.h"

static float decode_f8_e4m3(unsigned code) { return f8_e4m3_to_f32((uint8_t)code); }
static float decode_f8_e5m2(unsigned code) { return f8_e5m2_to_f32((uint8_t)code); }
static float decode_f8_e8m0(unsigned code) { return f8_e8m0_to_f32((uint8_t)code); }
static float decode_f4_e2m1(unsigned code) { return f4_e2m1_to_f32((uint8_t)code); }
static float decode_f16(unsigned code) { return f16_to_f32((uint16_t)code); }
static float decode_bf16(unsigned code) { return bf16_to_f32((uint16_t)code); }
static unsigned encode_f8_e4m3(float value) { return f32_to_f8_e4m3(value); }
static unsigned encode_f8_e5m2(float value) { return f32_to_f8_e5m2(value); }
static unsigned encode_f4_e2m1(float value) { return f32_to_f4_e2m1(value); }
static unsigned encode_f16(float value) { return f32_to_f16(value); }
static unsigned encode_bf16(float value) { return f32_to_bf16(value); }

static const struct {
    const char *name;
    unsigned n_codes;
    float (*decode)(unsigned code);
    unsigned (*encode)(float value); /* NULL: not needed */
} formats[] = {
    { "f8_e4m3fn", 256, decode_f8_e4m3, encode_f8_e4m3 },
    { "f8_e5m2", 256, decode_f8_e5m2, encode_f8_e5m2 },
    { "f8_e8m0fnu", 256, decode_f8_e8m0, NULL },
    { "f4_e2m1", 16, decode_f4_e2m1, encode_f4_e2m1 },
    { "f16", 65536, decode_f16, encode_f16 },
    { "bf16", 65536, decode_bf16, encode_bf16 },
};

static json_t *tables(void)
{
    size_t bytes;
    const unsigned char *text = golden_read(0, &bytes, "float_tables.json");
    json_t *root = json_loadb((const char *)text, bytes, 0, NULL);
    assert_non_null(root);
    return root;
}

static uint32_t hex_bits(const json_t *value)
{
    return (uint32_t)strtoul(json_string_value(value), NULL, 16);
}

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7FFFFFFFu) > 0x7F800000u;
}

static void decoding_follows_the_tables(void **state)
{
    (void)state;
    json_t *root = tables();
    for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
        const json_t *row = json_object_get(json_object_get(root, "decode"), formats[f].name);
        if (formats[f].n_codes > 256)
            continue;
        assert_int_equal(json_array_size(row), formats[f].n_codes);
        for (unsigned code = 0; code < formats[f].n_codes; code++) {
            uint32_t want = hex_bits(json_array_get(row, code));
            uint32_t found = float_bits(formats[f].decode(code));
            if (is_nan(want) ? !is_nan(found) : want != found)
                fail_msg("%s code %u: expected %08x, found %08x", formats[f].name, code, want,
                         found);
        }
    }
    json_decref(root);
}

static void encoding_follows_the_cases(void **state)
{
    (void)state;
    json_t *root = tables();
    int n_checked = 0;
    for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
        const json_t *cases = json_object_get(json_object_get(root, "encode"), formats[f].name);
        for (size_t i = 0; i < json_array_size(cases); i++, n_checked++) {
            const json_t *pair = json_array_get(cases, i);
            uint32_t bits = hex_bits(json_array_get(pair, 0));
            const json_t *code = json_array_get(pair, 1); /* a number, or hexadecimal text */
            unsigned want = json_is_string(code) ? hex_bits(code)
                                                 : (unsigned)json_integer_value(code);
            unsigned found = formats[f].encode(float_from_bits(bits));
            bool both_nan = is_nan(bits) && is_nan(float_bits(formats[f].decode(found)));
            if (found != want && !both_nan)
                fail_msg("%s of %08x: expected %x, found %x", formats[f].name, bits, want, found);
        }
    }
    assert_true(n_checked > 300);
    json_decref(root);
}

/* Every finite code survives decode and encode; half way between two neighbours goes to the even
 * one, anything beside it to the nearer. */
static void encoding_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
        if (!formats[f].encode)
            continue;
        unsigned half = formats[f].n_codes / 2;
        for (unsigned code = 0; code + 1 < half; code++) {
            float low = formats[f].decode(code), high = formats[f].decode(code + 1);
            if (is_nan(float_bits(low)) || is_nan(float_bits(high)) || high > 3.3e38f)
                break;
            assert_int_equal(formats[f].encode(low), code);
            assert_int_equal(formats[f].encode(-low), code + half);
            if (float_bits(high) == 0x7F800000u)
                break;
            float middle = low + (high - low) * 0.5f;
            assert_int_equal(formats[f].encode(middle), code + (code & 1));
            assert_int_equal(formats[f].encode(float_from_bits(float_bits(middle) - 1)), code);
            assert_int_equal(formats[f].encode(float_from_bits(float_bits(middle) + 1)), code + 1);
        }
    }
}

static void infinity_and_nan_stay(void **state)
{
    (void)state;
    float infinity = float_from_bits(0x7F800000u);
    assert_int_equal(f32_to_f16(65519.99f), 0x7BFF);
    assert_int_equal(f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(f32_to_f16(-infinity), 0xFC00);
    assert_int_equal(f32_to_bf16(infinity), 0x7F80);
    assert_int_equal(f32_to_bf16(3.4e38f), 0x7F80);
    assert_true(is_nan(float_bits(bf16_to_f32(f32_to_bf16(float_from_bits(0x7F800001u))))));
    assert_true(is_nan(float_bits(f16_to_f32(f32_to_f16(float_from_bits(0x7F800001u))))));
    for (unsigned code = 0x7C01; code < 0x8000; code++)
        assert_true(is_nan(float_bits(f16_to_f32((uint16_t)code))));
    assert_int_equal(f32_to_f8_e4m3(1e9f), 0x7E);
    assert_int_equal(f32_to_f4_e2m1(1e9f), 7);
    assert_int_equal(f32_to_f4_e2m1(5.0f), 6);
    assert_int_equal(f32_to_f4_e2m1(-5.001f), 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_follows_the_tables),
        cmocka_unit_test(encoding_follows_the_cases),
        cmocka_unit_test(encoding_rounds_to_nearest_even),
        cmocka_unit_test(infinity_and_nan_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
