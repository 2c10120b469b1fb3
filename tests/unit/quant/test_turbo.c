/* Rotation and blocks of the turbo types: vectors computed elsewhere in double precision, and the
 * properties that attention relies on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "quant/dequant.h"
#include "quant/kv_codec.h"
#include "quant/turbo.h"

static void fill(float *x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f * (i % 17 == 0 ? 8.0f : 1.0f);
    }
}

static double error_of(const float *x, const uint8_t *block, int bits)
{
    float back[32];
    double sum = 0;
    if (bits == 3)
        dequant_TURBO3(block, back, 1);
    else
        dequant_TURBO4(block, back, 1);
    for (int i = 0; i < 32; i++)
        sum += (double)(x[i] - back[i]) * (x[i] - back[i]);
    return sum;
}

/* The error of the searched scale is no larger for any block, and clearly smaller on average. */
static void searched_scale(void **state)
{
    (void)state;
    for (int bits = 3; bits <= 4; bits++) {
        double plain = 0, best = 0;
        for (int n = 0; n < 200; n++) {
            float x[32];
            uint8_t a[18], b[18];
            fill(x, 32, 100 + (uint32_t)n);
            x[n % 32] *= n % 3 ? 1 : 4;
            turbo_encode_block(x, bits, a);
            turbo_encode_best(x, bits, b);
            plain += error_of(x, a, bits);
            best += error_of(x, b, bits);
            assert_true(error_of(x, b, bits) <= error_of(x, a, bits) * 1.001);
        }
        assert_true(best < 0.95 * plain);
    }
}

/* x_i = sin(0.1 i), and 4 more at 5; 64 values, keys. */
static void known_blocks(void **state)
{
    (void)state;
    static const uint8_t turbo4[2][18] = {
        { 0x79, 0x3b, 0x63, 0x65, 0x46, 0x39, 0xb1, 0xc7, 0x4d, 0x57, 0xc8, 0x95, 0x94, 0x6e, 0xa6,
          0xc5, 0x3d, 0x6b },
        { 0xe5, 0x3a, 0x56, 0x79, 0x48, 0x5e, 0x64, 0x65, 0x98, 0x8d, 0xb9, 0xd4, 0x28, 0x49, 0xd7,
          0xa0, 0x8c, 0x58 },
    };
    static const uint8_t turbo3[2][14] = {
        { 0x02, 0x3b, 0x99, 0x36, 0x31, 0xf0, 0x7c, 0x4d, 0xb4, 0x28, 0x7e, 0xab, 0xec, 0x54 },
        { 0xad, 0x3b, 0x13, 0x47, 0x5d, 0x9a, 0x46, 0x9a, 0xac, 0xcc, 0x50, 0x33, 0x6a, 0x52 },
    };
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)(sin(0.1 * i) + (i == 5 ? 4 : 0));
    uint8_t row[36];
    turbo_rotate(x, 64, TURBO_KEYS);
    for (int b = 0; b < 2; b++) {
        turbo_encode_block(x + 32 * b, 4, row);
        assert_memory_equal(row, turbo4[b], sizeof turbo4[b]);
        turbo_encode_block(x + 32 * b, 3, row);
        assert_memory_equal(row, turbo3[b], sizeof turbo3[b]);
    }
}

static void rotation_keeps_products_and_turns_back(void **state)
{
    (void)state;
    for (int32_t dim = 32; dim <= 1024; dim *= 2)
        for (int stream = TURBO_KEYS; stream <= TURBO_VALUES; stream++) {
            float a[1024], b[1024], original[1024];
            fill(a, dim, 1);
            fill(b, dim, 2);
            memcpy(original, a, sizeof original);
            double before = 0, after = 0;
            for (int i = 0; i < dim; i++)
                before += (double)a[i] * b[i];
            turbo_rotate(a, dim, (enum turbo_stream)stream);
            turbo_rotate(b, dim, (enum turbo_stream)stream);
            for (int i = 0; i < dim; i++)
                after += (double)a[i] * b[i];
            assert_float_equal(before, after, 1e-3);
            turbo_unrotate(a, dim, (enum turbo_stream)stream);
            for (int i = 0; i < dim; i++)
                assert_float_equal(a[i], original[i], 1e-5);
        }
}

/* Bit i set: element i changes its sign. Read off the rotation of unit vectors. */
static void signs_are_the_published_ones(void **state)
{
    (void)state;
    static const uint64_t expected[2][2] = { { 0x3a1ce41071dd0d3cu, 0x2ace3c3149be28d7u },
                                             { 0x492620d55eb5e9a1u, 0x7fc76441f1c2158au } };
    for (int stream = 0; stream < 2; stream++)
        for (int i = 0; i < 128; i++) {
            float x[128] = { 0 };
            x[i] = 1;
            turbo_rotate(x, 128, (enum turbo_stream)stream);
            assert_int_equal(x[0] < 0, expected[stream][i / 64] >> i % 64 & 1);
        }
}

static void zeros_and_bad_numbers(void **state)
{
    (void)state;
    float zero[32] = { 0 }, bad[32] = { 0 }, out[32];
    uint8_t block[18];
    turbo_encode_block(zero, 4, block);
    assert_int_equal(block[0] | block[1], 0);
    for (int i = 2; i < 18; i++)
        assert_int_equal(block[i], 0x77);
    turbo_encode_block(zero, 3, block);
    assert_int_equal(block[2] & 7, 3);
    bad[7] = NAN;
    turbo_encode_block(bad, 4, block);
    kv_codec_of(TENSOR_TYPE_TURBO4)->decode(block, out);
    assert_true(isnan(out[0]));
    for (int i = 0; i < 32; i++)
        bad[i] = i % 2 ? 2e6f : 1e6f;
    turbo_encode_block(bad, 4, block);
    assert_int_equal(block[0] | block[1] << 8, 0x7BFF); /* the largest binary16 */
    assert_false(turbo_dim_supported(80) || turbo_dim_supported(16) || turbo_dim_supported(2048));
}

/* Relative error of a row with outliers, by type: what each codec promises. */
static void rows_come_back(void **state)
{
    (void)state;
    static const struct {
        enum tensor_type type;
        double limit; /* rms of the error / rms of the row */
    } promise[] = {
        { TENSOR_TYPE_F32, 0 },        { TENSOR_TYPE_F16, 3e-4 },   { TENSOR_TYPE_BF16, 2.5e-3 },
        { TENSOR_TYPE_F8_E4M3, 0.04 }, { TENSOR_TYPE_Q8_0, 0.01 },  { TENSOR_TYPE_Q4_0, 0.16 },
        { TENSOR_TYPE_NVFP4, 0.12 },   { TENSOR_TYPE_TURBO3, 0.2 }, { TENSOR_TYPE_TURBO4, 0.1 },
    };
    for (size_t i = 0; i < sizeof promise / sizeof promise[0]; i++) {
        const struct kv_codec *c = kv_codec_of(promise[i].type);
        float x[256], y[256];
        uint8_t row[256 * 4];
        fill(x, 256, 3);
        kv_encode_row(c, x, 256, TURBO_VALUES, row);
        kv_decode_row(c, row, y, 256);
        if (c->rotated)
            turbo_unrotate(y, 256, TURBO_VALUES);
        double error = 0, power = 0;
        for (int d = 0; d < 256; d++) {
            error += (double)(x[d] - y[d]) * (x[d] - y[d]);
            power += (double)x[d] * x[d];
        }
        if (sqrt(error / power) > promise[i].limit)
            fail_msg("%s: expected %g, found %g", c->name, promise[i].limit, sqrt(error / power));
        enum tensor_type found;
        assert_true(kv_type_from_name(str_of(c->name), &found));
        assert_int_equal(found, c->type);
    }
}

static void rows_that_fit(void **state)
{
    (void)state;
    static const struct {
        enum tensor_type type;
        int32_t dim, bytes;
    } row[] = {
        { TENSOR_TYPE_F16, 80, 160 },    { TENSOR_TYPE_F8_E4M3, 80, 80 },
        { TENSOR_TYPE_Q8_0, 80, 0 },     { TENSOR_TYPE_Q8_0, 96, 102 },
        { TENSOR_TYPE_Q4_0, 96, 54 },    { TENSOR_TYPE_NVFP4, 80, 45 },
        { TENSOR_TYPE_NVFP4, 72, 0 },    { TENSOR_TYPE_TURBO3, 128, 56 },
        { TENSOR_TYPE_TURBO4, 128, 72 }, { TENSOR_TYPE_TURBO4, 256, 144 },
        { TENSOR_TYPE_TURBO4, 96, 0 },   { TENSOR_TYPE_Q4_K, 256, 0 },
        { TENSOR_TYPE_F32, 2048, 0 },    { TENSOR_TYPE_F32, 0, 0 },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_int_equal(kv_row_bytes(row[i].type, row[i].dim), row[i].bytes);
    assert_string_equal(kv_dim_expected(TENSOR_TYPE_TURBO4), "a power of two from 32 to 1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_blocks),
        cmocka_unit_test(searched_scale),
        cmocka_unit_test(rotation_keeps_products_and_turns_back),
        cmocka_unit_test(signs_are_the_published_ones),
        cmocka_unit_test(zeros_and_bad_numbers),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(rows_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
