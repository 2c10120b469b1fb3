/* quantize_model: a small GGUF of an unknown architecture is written in several types and read
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/quantize_model.h"
#include "engine/quantize_recipe.h"
#include "formats/gguf.h"
#include "formats/gguf_write.h"
#include "quant/dequant.h"
#include "quant/float_convert.h"
#include "quant/quantize.h"

#define ROWS 40
#define COLUMNS 256

static char in_path[64], out_path[64];
static uint16_t halves[3 * ROWS * COLUMNS];
static float values[3 * ROWS * COLUMNS];

struct sample {
    const char *name;
    enum tensor_type type;
    int n_dims;
    int64_t dim[3];
};
static const struct sample samples[] = {
    { "token_embd.weight", TENSOR_TYPE_F16, 2, { ROWS, COLUMNS } },
    { "blk.0.attn_v.weight", TENSOR_TYPE_F16, 2, { ROWS, COLUMNS } },
    { "blk.0.attn_norm.weight", TENSOR_TYPE_F16, 1, { COLUMNS } },
    { "blk.0.ffn_gate_inp.weight", TENSOR_TYPE_F16, 2, { 2, COLUMNS } },
    { "blk.0.ffn_down_exps.weight", TENSOR_TYPE_F16, 3, { 3, ROWS, COLUMNS } },
    { "blk.0.odd.weight", TENSOR_TYPE_F16, 2, { 2, 160 } },
    { "blk.0.odder.weight", TENSOR_TYPE_F16, 2, { 2, 7 } },
};

static size_t elements(const struct sample *s)
{
    size_t n = 1;
    for (int i = 0; i < s->n_dims; i++)
        n *= (size_t)s->dim[i];
    return n;
}

static int write_input(void **state)
{
    (void)state;
    struct error err;
    struct gguf_writer *w;
    uint32_t seed = 1;
    snprintf(in_path, sizeof in_path, "/tmp/test_quantize_%ld_in.gguf", (long)getpid());
    snprintf(out_path, sizeof out_path, "/tmp/test_quantize_%ld_out.gguf", (long)getpid());
    for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
        seed = seed * 1664525u + 1013904223u;
        halves[i] = f32_to_f16((float)(int32_t)seed * 0x1p-31f);
        values[i] = f16_to_f32(halves[i]);
    }
    assert_int_equal(gguf_writer_open(&w, in_path, 0, &err), STATUS_OK);
    assert_int_equal(gguf_writer_put_str(w, "general.architecture", STR("nobody-knows"), &err),
                     STATUS_OK);
    assert_int_equal(gguf_writer_put_u32(w, "general.file_type", 1, &err), STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        assert_int_equal(gguf_writer_declare(w, str_of(samples[i].name), samples[i].type,
                                             samples[i].n_dims, samples[i].dim, &err),
                         STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        assert_int_equal(gguf_writer_write(w, halves, elements(&samples[i]) * 2, &err), STATUS_OK);
    assert_int_equal(gguf_writer_finish(w, &err), STATUS_OK);
    gguf_writer_free(w);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(in_path);
    unlink(out_path);
    return 0;
}

static int n_notes;

static void count_note(void *context, const char *text)
{
    (void)context;
    assert_true(strlen(text) > 10);
    n_notes++;
}

static struct quantize_model_result convert(const char *type, int n_threads, struct gguf *g)
{
    struct error err = { 0 };
    struct quantize_model_result result;
    struct quantize_model_options options = { .type = str_of(type), .n_threads = n_threads,
                                              .note = count_note };
    n_notes = 0;
    if (quantize_model(in_path, out_path, &options, &result, &err) != STATUS_OK)
        fail_msg("%s: %s", type, err.message);
    if (gguf_open(g, out_path, &err) != STATUS_OK)
        fail_msg("%s: %s", type, err.message);
    assert_int_equal(g->weights.n_tensors, ARRAY_SIZE(samples));
    struct str architecture;
    assert_int_equal(gguf_get_str(g, "general.architecture", &architecture, &err), STATUS_OK);
    assert_true(str_is(architecture, "nobody-knows"));
    return result;
}

static enum tensor_type type_of(const struct gguf *g, const char *name)
{
    const struct weight_tensor *t = weight_file_find(&g->weights, str_of(name));
    assert_non_null(t);
    return t->type;
}

static void f32_is_the_dequantizer(void **state)
{
    (void)state;
    struct gguf g;
    struct error err;
    uint64_t file_type;
    convert("F32", 2, &g);
    assert_int_equal(n_notes, 0);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        const struct weight_tensor *t = &g.weights.tensors[i];
        assert_int_equal(t->type, TENSOR_TYPE_F32);
        assert_int_equal(t->n_bytes, elements(&samples[i]) * 4);
        assert_memory_equal(t->bytes, values, t->n_bytes);
    }
    assert_int_equal(gguf_get_u64(&g, "general.file_type", &file_type, &err), STATUS_OK);
    assert_int_equal(file_type, 0);
    gguf_close(&g);
}

static void matrices_become_what_quantize_rows_gives(void **state)
{
    (void)state;
    struct gguf g;
    static unsigned char want[3 * ROWS * 144];
    struct quantize_model_result result = convert("q4_k", 3, &g);
    assert_int_equal(result.n_changed, 4);
    assert_true(result.bytes_after < result.bytes_before);
    assert_int_equal(n_notes, 4);
    assert_int_equal(quantize_rows(TENSOR_TYPE_Q4_K, values, NULL, 3 * ROWS, COLUMNS, want, NULL),
                     STATUS_OK);
    static const char *const same[] = { "token_embd.weight", "blk.0.attn_v.weight",
                                        "blk.0.ffn_down_exps.weight" };
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        const struct weight_tensor *t = weight_file_find(&g.weights, str_of(same[i]));
        assert_int_equal(t->type, TENSOR_TYPE_Q4_K);
        assert_memory_equal(t->bytes, want, t->n_bytes);
    }
    assert_int_equal(type_of(&g, "blk.0.attn_norm.weight"), TENSOR_TYPE_F16);
    assert_int_equal(type_of(&g, "blk.0.ffn_gate_inp.weight"), TENSOR_TYPE_F16);
    assert_int_equal(type_of(&g, "blk.0.odd.weight"), TENSOR_TYPE_Q5_0);
    assert_int_equal(type_of(&g, "blk.0.odder.weight"), TENSOR_TYPE_F16);
    gguf_close(&g);
}

static void mixtures_spend_bits_where_it_matters(void **state)
{
    (void)state;
    struct gguf g;
    convert("Q4_K_M", 1, &g);
    assert_int_equal(type_of(&g, "token_embd.weight"), TENSOR_TYPE_Q6_K); /* it is the head */
    assert_int_equal(type_of(&g, "blk.0.attn_v.weight"), TENSOR_TYPE_Q6_K);
    gguf_close(&g);
}

/* Importances of the expert tensor: [3][COLUMNS], each matrix with its own. */
static const float *expert_importance(void *context, struct str name, size_t *n_values)
{
    *n_values = *(const size_t *)context;
    return str_is(name, "blk.0.ffn_down_exps.weight") ? values + COLUMNS : NULL;
}

static void every_expert_has_its_own_importances(void **state)
{
    (void)state;
    float importance[3 * COLUMNS];
    static unsigned char want[ROWS * 84];
    struct error err = { 0 };
    struct quantize_model_result result;
    struct gguf g;
    for (size_t i = 0; i < ARRAY_SIZE(importance); i++) { /* not negative */
        values[COLUMNS + i] = values[COLUMNS + i] * values[COLUMNS + i];
        importance[i] = values[COLUMNS + i];
    }
    size_t n_values = 3 * COLUMNS;
    struct quantize_model_options options = { .type = STR("Q2_K"), .n_threads = 2,
                                              .importance = expert_importance,
                                              .context = &n_values };
    assert_int_equal(quantize_model(in_path, out_path, &options, &result, &err), STATUS_OK);
    assert_int_equal(result.n_without_importance, 3);
    assert_int_equal(gguf_open(&g, out_path, &err), STATUS_OK);
    const struct weight_tensor *t = weight_file_find(&g.weights, STR("blk.0.ffn_down_exps.weight"));
    for (int e = 0; e < 3; e++) {
        float x[ROWS * COLUMNS];
        dequant_row(TENSOR_TYPE_F16, halves + e * ROWS * COLUMNS, x, ROWS * COLUMNS);
        assert_int_equal(quantize_rows(TENSOR_TYPE_Q2_K, x, importance + e * COLUMNS, ROWS, COLUMNS,
                                       want, &err),
                         STATUS_OK);
        assert_memory_equal(t->bytes + (size_t)e * sizeof want, want, sizeof want);
    }
    gguf_close(&g);
    n_values = COLUMNS + 1;
    assert_int_equal(quantize_model(in_path, out_path, &options, &result, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "blk.0.ffn_down_exps.weight"));
}

static bool cancel(void *context, struct str name, size_t n_done, size_t n_tensors)
{
    (void)context;
    (void)name;
    return n_done == n_tensors / 2;
}

static void failures_leave_no_file(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct quantize_model_result result;
    struct quantize_model_options options = { .type = STR("Q9_Z"), .n_threads = 1 };
    unlink(out_path);
    assert_int_equal(quantize_model(in_path, out_path, &options, &result, &err),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Q9_Z; writable types: F32"));
    options.type = STR("Q8_0");
    options.progress = cancel;
    assert_int_equal(quantize_model(in_path, out_path, &options, &result, &err), STATUS_CANCELLED);
    assert_int_not_equal(access(out_path, F_OK), 0);
    assert_int_equal(quantize_model("/nonexistent.gguf", out_path, &options, &result, &err),
                     STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_is_the_dequantizer),
        cmocka_unit_test(matrices_become_what_quantize_rows_gives),
        cmocka_unit_test(mixtures_spend_bits_where_it_matters),
        cmocka_unit_test(every_expert_has_its_own_importances),
        cmocka_unit_test(failures_leave_no_file),
    };
    return cmocka_run_group_tests(tests, write_input, remove_files);
}
