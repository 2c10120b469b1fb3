/* Products of every type on every instruction set of this processor against the reference
 * decoder and double precision, and against themselves: alone, batched, in any ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/matmul.h"
#include "cpu/rows16.h"
#include "quant/blocks.h"
#include "quant/dequant.h"
#include "quant/float_convert.h"

static uint64_t random_state = 1;

static uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static float random_float(void) /* about normal */
{
    float sum = 0;
    for (int i = 0; i < 6; i++)
        sum += (float)(random_u32() >> 8) * 0x1p-24f - 0.5f;
    return sum * 1.4f;
}

/* Where the binary16 scales of a block lie; a pair of types has none. */
static const struct {
    enum tensor_type type;
    int n;
    size_t offset[2];
} scale_fields[] = {
#define ONE(NAME, name) { TENSOR_TYPE_##NAME, 1, { offsetof(struct block_##name, d) } },
#define TWO(NAME, name, min) \
    { TENSOR_TYPE_##NAME, \
      2, \
      { offsetof(struct block_##name, d), offsetof(struct block_##name, min) } },
    ONE(Q4_0, q4_0) TWO(Q4_1, q4_1, m) ONE(Q5_0, q5_0) TWO(Q5_1, q5_1, m) ONE(Q8_0, q8_0)
        TWO(Q2_K, q2_k, dmin) ONE(Q3_K, q3_k) TWO(Q4_K, q4_k, dmin) TWO(Q5_K, q5_k, dmin)
            ONE(Q6_K, q6_k) ONE(IQ2_XXS, iq2_xxs) ONE(IQ2_XS, iq2_xs) ONE(IQ2_S, iq2_s)
                ONE(IQ3_XXS, iq3_xxs) ONE(IQ3_S, iq3_s) ONE(IQ1_S, iq1_s) ONE(IQ4_NL, iq4_nl)
                    ONE(IQ4_XS, iq4_xs) ONE(TQ1_0, tq1_0) ONE(TQ2_0, tq2_0) ONE(Q1_0, q1_0)
                        ONE(Q2_0, q2_0){ TENSOR_TYPE_IQ1_M, 0, { 0 } },
    { TENSOR_TYPE_MXFP4, 0, { 0 } },
    { TENSOR_TYPE_NVFP4, 0, { 0 } },
    { TENSOR_TYPE_F32, 0, { 0 } },
    { TENSOR_TYPE_F16, 0, { 0 } },
    { TENSOR_TYPE_BF16, 0, { 0 } },
    { TENSOR_TYPE_F8_E4M3, 0, { 0 } },
    { TENSOR_TYPE_F8_E5M2, 0, { 0 } },
    { TENSOR_TYPE_I8, 0, { 0 } },
#undef ONE
#undef TWO
};

static void sane_scales(enum tensor_type type, uint8_t *block)
{
    for (size_t i = 0; i < sizeof scale_fields / sizeof *scale_fields; i++)
        for (int j = 0; scale_fields[i].type == type && j < scale_fields[i].n; j++) {
            uint16_t d = f32_to_f16((1.0f + 0.5f * random_float()) * 0.01f);
            memcpy(block + scale_fields[i].offset[j], &d, 2);
        }
    if (type == TENSOR_TYPE_MXFP4)
        block[0] = (uint8_t)(118 + random_u32() % 4);
    if (type == TENSOR_TYPE_NVFP4)
        for (int g = 0; g < 4; g++)
            block[g] = (uint8_t)(random_u32() % 64);
    if (type == TENSOR_TYPE_IQ1_M) { /* d of 0x2000 + x */
        block[55] = (uint8_t)((block[55] & 0x0F) | 0x20);
    }
}

/* n_rows rows of valid random blocks. */
static uint8_t *random_weights(enum tensor_type type, int64_t n_rows, int64_t n_cols,
                               size_t *row_bytes)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    assert_true(tensor_type_row_bytes(type, n_cols, row_bytes));
    size_t n = *row_bytes * (size_t)n_rows, block = (size_t)info->block_bytes;
    uint8_t *bytes = mem_alloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(random_u32() >> 24);
    for (size_t i = 0; i < n; i += block) {
        float x = random_float() * 0.05f;
        uint16_t half = type == TENSOR_TYPE_F16 ? f32_to_f16(x) : f32_to_bf16(x);
        if (type == TENSOR_TYPE_F32)
            memcpy(bytes + i, &x, 4);
        else if (type == TENSOR_TYPE_F16 || type == TENSOR_TYPE_BF16)
            memcpy(bytes + i, &half, 2);
        else if (type == TENSOR_TYPE_F8_E4M3)
            bytes[i] = f32_to_f8_e4m3(x);
        else if (type == TENSOR_TYPE_F8_E5M2)
            bytes[i] = f32_to_f8_e5m2(x);
        else
            sane_scales(type, bytes + i);
    }
    return bytes;
}

struct problem {
    enum tensor_type type;
    int64_t n_rows, n_cols, n_tokens;
    uint8_t *file;
    size_t row_bytes;
    struct weight w;
    size_t packed_bytes;
    float *x;
};

static void problem_init(struct problem *p, enum tensor_type type, int64_t n_rows, int64_t n_cols,
                         int64_t n_tokens)
{
    *p = (struct problem){ .type = type, .n_rows = n_rows, .n_cols = n_cols, .n_tokens = n_tokens };
    p->file = random_weights(type, n_rows, n_cols, &p->row_bytes);
    p->packed_bytes = matmul_packed_bytes(type, n_rows, n_cols);
    assert_true(p->packed_bytes > 0);
    void *packed = mem_try_pages(p->packed_bytes);
    assert_non_null(packed);
    int64_t groups = matmul_row_groups(n_rows);
    matmul_pack(type, n_rows, n_cols, p->file, packed, groups / 2, groups);
    matmul_pack(type, n_rows, n_cols, p->file, packed, 0, groups / 2);
    p->w = (struct weight){ .type = type,
                            .n_experts = 1,
                            .n_rows = n_rows,
                            .n_cols = n_cols,
                            .data = packed,
                            .layout = WEIGHT_LAYOUT_ROWS16 };
    p->x = mem_array(float, (size_t)(n_tokens * n_cols));
    for (int64_t i = 0; i < n_tokens * n_cols; i++)
        p->x[i] = random_float() * (i % 97 == 0 ? 8.0f : 1.0f);
}

static void problem_release(struct problem *p)
{
    mem_release_pages((void *)p->w.data, p->packed_bytes);
    mem_free(p->file);
    mem_free(p->x);
}

/* Products of tokens [first, first + n), computed together. */
static void multiply(const struct matmul_kernels *kernels, const struct problem *p,
                     enum matmul_operand operand, int64_t first, int64_t n, float *out)
{
    size_t bytes = matmul_operand_bytes(operand, n, p->n_cols);
    void *x = mem_try_pages(bytes);
    assert_non_null(x);
    matmul_activate(kernels, operand, p->x + first * p->n_cols, p->n_cols, n, p->n_cols, x, 0,
                    matmul_token_tiles(n));
    struct matmul_args args = {
        .w = &p->w, .operand = operand, .x = x, .n_tokens = n, .out = out, .out_stride = p->n_rows
    };
    int64_t groups = matmul_row_groups(p->n_rows);
    matmul_run(kernels, &args, groups / 3, groups);
    matmul_run(kernels, &args, 0, groups / 3);
    mem_release_pages(x, bytes);
}

/* Each x[k] is off by at most half a step of its block of 32; f32 sums round. */
static double tolerance(const struct problem *p, const float *w, const float *x, bool quantized)
{
    double sum = 0, rounding = 0;
    for (int64_t k = 0; k < p->n_cols; k += 32) {
        double largest = 0, weights = 0;
        for (int64_t i = k; i < k + 32 && i < p->n_cols; i++) {
            largest = fmax(largest, fabs((double)x[i]));
            weights += fabs((double)w[i]);
            rounding += fabs((double)w[i] * (double)x[i]);
        }
        sum += largest / 254.0 * weights;
    }
    return (quantized ? sum : 0) * 1.001 + rounding * 4e-6 + 1e-12;
}

static void check_values(const struct problem *p, const float *out, bool quantized)
{
    float *w = mem_array(float, (size_t)p->n_cols), *row = mem_array(float, (size_t)p->n_cols);
    for (int64_t r = 0; r < p->n_rows; r++) {
        dequant_row(p->type, p->file + (size_t)r * p->row_bytes, w, p->n_cols);
        matmul_unpack_row(&p->w, 0, r, row);
        assert_memory_equal(row, w, (size_t)p->n_cols * sizeof *w);
        for (int64_t t = 0; t < p->n_tokens; t++) {
            const float *x = p->x + t * p->n_cols;
            double sum = 0;
            for (int64_t k = 0; k < p->n_cols; k++)
                sum += (double)w[k] * (double)x[k];
            double error = fabs(sum - (double)out[t * p->n_rows + r]);
            if (!(error <= tolerance(p, w, x, quantized)))
                fail_msg("%s row %d token %d of %d: expected %g, found %g",
                         tensor_type_name(p->type), (int)r, (int)t, (int)p->n_tokens, sum,
                         (double)out[t * p->n_rows + r]);
        }
    }
    mem_free(w);
    mem_free(row);
}

/* Tokens computed one by one and in pieces give the same bits. */
static void check_alone(const struct matmul_kernels *kernels, const struct problem *p,
                        enum matmul_operand operand, const float *together)
{
    float *out = mem_array(float, (size_t)(p->n_tokens * p->n_rows));
    for (int64_t piece = 1; piece < p->n_tokens; piece = piece * 2 + 1)
        for (int64_t t = 0; t < p->n_tokens; t += piece) {
            int64_t n = piece < p->n_tokens - t ? piece : p->n_tokens - t;
            multiply(kernels, p, operand, t, n, out);
            assert_memory_equal(out, together + t * p->n_rows,
                                (size_t)(n * p->n_rows) * sizeof *out);
        }
    mem_free(out);
}

static void check_type(const struct matmul_kernels *kernels, enum tensor_type type, int64_t n_rows,
                       int64_t n_cols, int64_t n_tokens)
{
    struct problem p;
    problem_init(&p, type, n_rows, n_cols, n_tokens);
    float *out = mem_array(float, (size_t)(n_tokens * n_rows));
    for (int exact = 0; exact < 2; exact++) {
        enum matmul_operand operand = matmul_operand_for(type, exact);
        multiply(kernels, &p, operand, 0, n_tokens, out);
        check_values(&p, out, operand == MATMUL_INT8);
        check_alone(kernels, &p, operand, out);
    }
    mem_free(out);
    problem_release(&p);
}

static void for_all(void (*check)(const struct matmul_kernels *, enum tensor_type))
{
    struct cpu_features features;
    cpu_features_read(&features);
    const struct matmul_kernels *kernels;
    for (int i = 0; (kernels = matmul_kernels_at(&features, i)) != NULL; i++)
        for (size_t t = 0; t < sizeof scale_fields / sizeof *scale_fields; t++)
            check(kernels, scale_fields[t].type);
}

static void few(const struct matmul_kernels *kernels, enum tensor_type type)
{
    int64_t block = tensor_type_info(type)->block_elements;
    int64_t cols = block < 32 ? 352 : block < 256 ? 11 * block : 768;
    check_type(kernels, type, 1, cols, 1);
    check_type(kernels, type, 35, cols, 9);
    check_type(kernels, type, 16, block < 32 ? 32 : block, 5);
}

static void many(const struct matmul_kernels *kernels, enum tensor_type type)
{
    int64_t block = tensor_type_info(type)->block_elements;
    check_type(kernels, type, 18, block < 256 ? 896 : 1024, 17);
}

static void test_few_tokens(void **state)
{
    (void)state;
    for_all(few);
}

static void test_many_tokens(void **state)
{
    (void)state;
    for_all(many);
}

/* More tokens than share one unpacked block. */
static void test_token_chunks(void **state)
{
    (void)state;
    struct cpu_features features;
    cpu_features_read(&features);
    const struct matmul_kernels *kernels = matmul_kernels_choose(&features, NULL);
    check_type(kernels, TENSOR_TYPE_Q4_K, 16, 256, 301);
    check_type(kernels, TENSOR_TYPE_F16, 16, 300, 301);
}

/* Widest codes against the widest activations: nothing saturates. */
static void extremes(const struct matmul_kernels *kernels, enum tensor_type type)
{
    int64_t block = tensor_type_info(type)->block_elements;
    if (block == 1)
        return;
    for (int fill = 0; fill < 256; fill += 85) {
        struct problem p;
        problem_init(&p, type, 16, block < 32 ? 32 : block, 9);
        memset(p.file, fill, 16 * p.row_bytes);
        for (size_t i = 0; i < 16 * p.row_bytes; i += (size_t)tensor_type_info(type)->block_bytes)
            sane_scales(type, p.file + i);
        matmul_pack(type, 16, p.n_cols, p.file, (void *)p.w.data, 0, 1);
        for (int64_t i = 0; i < 9 * p.n_cols; i++)
            p.x[i] = i / p.n_cols % 2 ? -1.0f : 1.0f;
        float out[9 * 16], single[9 * 16];
        multiply(kernels, &p, matmul_operand_for(type, false), 0, 9, out);
        check_values(&p, out, true);
        multiply(kernels, &p, matmul_operand_for(type, false), 8, 1, single);
        assert_memory_equal(single, out + 8 * 16, 16 * sizeof(float));
        problem_release(&p);
    }
}

static void test_extremes(void **state)
{
    (void)state;
    for_all(extremes);
}

/* Arbitrary bytes and numbers must not crash; a NaN in x reaches its own token only. */
static void hostile(const struct matmul_kernels *kernels, enum tensor_type type)
{
    int64_t block = tensor_type_info(type)->block_elements;
    struct problem p;
    problem_init(&p, type, 16, block < 32 ? 32 : block, 9);
    float out[9 * 16], good[9 * 16];
    multiply(kernels, &p, matmul_operand_for(type, false), 0, 9, good);
    p.x[3] = NAN;
    p.x[p.n_cols + 2] = INFINITY;
    p.x[2 * p.n_cols + 1] = 3e38f;
    multiply(kernels, &p, matmul_operand_for(type, false), 0, 9, out);
    for (int r = 0; r < 16; r++)
        assert_true(isnan(out[r]));
    assert_memory_equal(out + 3 * 16, good + 3 * 16, 6 * 16 * sizeof(float));
    for (size_t i = 0; i < 16 * p.row_bytes; i++)
        p.file[i] = (uint8_t)(random_u32() % 3 ? 0xFF : random_u32() >> 24);
    matmul_pack(type, 16, p.n_cols, p.file, (void *)p.w.data, 0, 1);
    for (int exact = 0; exact < 2; exact++)
        multiply(kernels, &p, matmul_operand_for(type, exact), 0, 9, out);
    problem_release(&p);
}

static void test_hostile(void **state)
{
    (void)state;
    for_all(hostile);
}

static void subtract(float *out, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = gate[i] - 2.0f * up[i];
}

/* Bias, sum, gate and row scale, in that order of definition. */
static void test_epilogue(void **state)
{
    (void)state;
    struct cpu_features features;
    cpu_features_read(&features);
    const struct matmul_kernels *kernels = matmul_kernels_choose(&features, NULL);
    struct problem p, q;
    problem_init(&p, TENSOR_TYPE_Q8_0, 20, 64, 3);
    problem_init(&q, TENSOR_TYPE_Q8_0, 20, 64, 3);
    float plain[3 * 20], up[3 * 20], out[3 * 25], bias[20], row_scale[20];
    mem_free(q.x);
    q.x = mem_copy(p.x, 3 * 64 * sizeof(float));
    multiply(kernels, &p, MATMUL_INT8, 0, 3, plain);
    multiply(kernels, &q, MATMUL_INT8, 0, 3, up);
    for (int i = 0; i < 20; i++)
        bias[i] = random_float(), row_scale[i] = random_float();
    for (int i = 0; i < 3 * 25; i++)
        out[i] = 7;
    q.w.scale = (struct weight_scale){ WEIGHT_SCALE_ROW, TENSOR_TYPE_F32, row_scale, 1.0f };
    _Alignas(64) uint8_t x[4096];
    assert_true(matmul_operand_bytes(MATMUL_INT8, 3, 64) <= sizeof x);
    matmul_activate(kernels, MATMUL_INT8, p.x, 64, 3, 64, x, 0, 1);
    struct matmul_args args = { .w = &p.w,
                                .up = &q.w,
                                .glu = subtract,
                                .operand = MATMUL_INT8,
                                .x = x,
                                .n_tokens = 3,
                                .out = out,
                                .out_stride = 25,
                                .bias = bias,
                                .add = true };
    matmul_run(kernels, &args, 0, 2);
    for (int t = 0; t < 3; t++)
        for (int r = 0; r < 25; r++) {
            float expected = 7;
            if (r < 20)
                expected += (plain[t * 20 + r] + bias[r]) - 2.0f * (up[t * 20 + r] * row_scale[r]);
            assert_float_equal(out[t * 25 + r], expected, 1e-5f);
        }
    problem_release(&p);
    problem_release(&q);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(matmul_packed_bytes(TENSOR_TYPE_Q4_0, 17, 64), 2 * 2 * 288);
    assert_int_equal(matmul_packed_bytes(TENSOR_TYPE_Q4_0, 17, 65), 0);
    assert_int_equal(matmul_packed_bytes(TENSOR_TYPE_Q4_K, 1, 128), 0);
    assert_int_equal(matmul_packed_bytes(TENSOR_TYPE_F32, 1, 1), 64);
    assert_int_equal(matmul_packed_bytes(TENSOR_TYPE_F32, INT64_MAX, 1 << 20), 0);
    assert_int_equal(matmul_packed_bytes(TENSOR_TYPE_F32, 1, INT64_MAX / 2), 0);
    assert_int_equal(matmul_packed_bytes((enum tensor_type)4, 16, 32), 0);
    struct cpu_features none = { .avx2 = false };
    assert_string_equal(matmul_kernels_name(matmul_kernels_choose(&none, NULL)), "reference");
    assert_null(matmul_kernels_choose(&none, "avx2"));
    assert_null(matmul_kernels_choose(&none, "sse9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_few_tokens),
        cmocka_unit_test(test_many_tokens), cmocka_unit_test(test_token_chunks),
        cmocka_unit_test(test_extremes),    cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_epilogue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
