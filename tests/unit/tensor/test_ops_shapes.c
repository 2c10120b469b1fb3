/* Views, scratch, and what ops refuse. */
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "tensor/ops.h"
#include "unit/cmocka_setup.h"

static void test_views(void **state)
{
    (void)state;
    float data[24];
    for (int i = 0; i < 24; i++)
        data[i] = (float)i;
    struct tensor t = tensor_2d(data, TENSOR_TYPE_F32, 4, 6);
    assert_int_equal(tensor_count(&t), 24);
    assert_true(tensor_is_contiguous(&t));
    struct tensor rows = tensor_rows(&t, 1, 2);
    assert_ptr_equal(rows.data, data + 6);
    assert_int_equal(rows.dim[0], 2);
    struct tensor columns = tensor_columns(&t, 2, 3);
    assert_ptr_equal(columns.data, data + 2);
    assert_false(tensor_is_contiguous(&columns));
    struct tensor heads = tensor_split(&t, 2, 3);
    assert_int_equal(heads.n_dims, 3);
    assert_int_equal(heads.stride_bytes[1], 12);
    assert_true(tensor_is_contiguous(&heads));
}

static void test_scratch_is_a_stack(void **state)
{
    (void)state;
    struct error err = { 0 };
    uint8_t *scratch = mem_try_pages(4096);
    struct step s = { .scratch = scratch, .scratch_bytes = 4096, .err = &err };
    struct tensor a, b;
    assert_int_equal(step_alloc(&s, &a, TENSOR_TYPE_F32, 3, 5), STATUS_OK);
    size_t mark = step_mark(&s);
    assert_int_equal(mark, 64);
    assert_int_equal(step_alloc(&s, &b, TENSOR_TYPE_F32, 8, 64), STATUS_OK);
    assert_int_equal((uintptr_t)b.data % 64, 0);
    step_release(&s, mark);
    assert_int_equal(s.scratch_used, 64);
    assert_int_equal(s.scratch_peak, 64 + 2048);
    assert_int_equal(step_alloc(&s, &b, TENSOR_TYPE_F32, 64, 64), STATUS_NO_MEMORY);
    assert_string_equal(err.message, "scratch: planned 4096 bytes, needed 16448");
    assert_int_equal(step_alloc(&s, &b, TENSOR_TYPE_F32, INT64_MAX, 64), STATUS_NO_MEMORY);
    mem_release_pages(scratch, 4096);
}

struct fixture {
    struct device *dev;
    struct error err;
    struct step step;
    struct batch batch;
    uint8_t *scratch;
};

static void open_fixture(struct fixture *f)
{
    *f = (struct fixture){ 0 };
    struct cpu_device_options o = { .n_threads = 1 };
    if (cpu_device_new(&o, &f->dev, &f->err) != STATUS_OK)
        fail_msg("%s", f->err.message);
    f->scratch = mem_try_pages(65536);
    f->batch = (struct batch){ .n_rows = 2 };
    f->step = (struct step){ .dev = f->dev, .batch = &f->batch, .scratch = f->scratch,
                             .scratch_bytes = 65536, .err = &f->err };
}

static void close_fixture(struct fixture *f)
{
    f->dev->ops->release(f->dev);
    mem_release_pages(f->scratch, 65536);
}

static struct weight load(struct fixture *f, const char *name, const float *data, int64_t rows,
                          int64_t cols)
{
    struct weight w = { .name = str_of(name), .type = TENSOR_TYPE_F32, .n_experts = 1,
                        .n_rows = rows, .n_cols = cols };
    const struct weight_bytes from = { .data = data, .n = (size_t)(rows * cols) * 4 };
    if (f->dev->ops->weight_load(f->dev, &w, &from, &f->err))
        fail_msg("%s", f->err.message);
    return w;
}

static void test_shapes_are_named(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    float x[32] = { 0 }, y[64], m[128] = { 0 };
    struct weight w = load(&f, "blk.0.attn_q.weight", m, 8, 16);
    struct tensor in = tensor_2d(x, TENSOR_TYPE_F32, 2, 16);
    struct tensor narrow = tensor_2d(x, TENSOR_TYPE_F32, 2, 12);
    struct tensor out = tensor_2d(y, TENSOR_TYPE_F32, 2, 8);
    assert_int_equal(op_linear(&f.step, &out, &in, &w, NULL), STATUS_OK);
    assert_int_equal(op_linear(&f.step, &out, &narrow, &w, NULL), STATUS_INTERNAL);
    assert_string_equal(f.err.message,
                        "linear: blk.0.attn_q.weight: expected [8, 12], found [8, 16]");
    struct tensor wide = tensor_2d(y, TENSOR_TYPE_F32, 2, 9);
    assert_int_equal(op_linear(&f.step, &wide, &in, &w, NULL), STATUS_INTERNAL);
    assert_string_equal(f.err.message, "linear: out: expected F32 [2, 8], found F32 [2, 9]");
    assert_int_equal(op_add(&f.step, &out, &in), STATUS_INTERNAL);
    int32_t token[2] = { 3, 8 };
    assert_int_equal(op_embed(&f.step, &in, &w, token, 1), STATUS_INVALID);
    assert_string_equal(f.err.message,
                        "blk.0.attn_q.weight: expected a token below 8, found 8");
    f.dev->ops->weight_release(f.dev, &w);
    close_fixture(&f);
}

static bool yes(void *user)
{
    (*(int *)user)++;
    return true;
}

static void test_cancelled_between_ops(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    int asked = 0;
    float x[32] = { 0 };
    struct tensor t = tensor_2d(x, TENSOR_TYPE_F32, 2, 16);
    f.step.cancelled = yes;
    f.step.cancel_user = &asked;
    assert_int_equal(op_scale(&f.step, &t, 2), STATUS_CANCELLED);
    assert_int_equal(asked, 1);
    close_fixture(&f);
}

static void test_bad_weights_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    float data[64] = { 0 };
    struct weight w = { .name = STR("w"), .type = TENSOR_TYPE_Q4_K, .n_experts = 1, .n_rows = 2,
                        .n_cols = 100 };
    const struct weight_bytes from = { .data = data, .n = 64 };
    assert_int_equal(f.dev->ops->weight_load(f.dev, &w, &from, &f.err), STATUS_INVALID);
    assert_string_equal(f.err.message, "w: Q4_K [2, 100] is no matrix of whole blocks");
    w.type = TENSOR_TYPE_F32;
    w.n_cols = 16;
    assert_int_equal(f.dev->ops->weight_load(f.dev, &w, &from, &f.err), STATUS_INVALID);
    assert_string_equal(f.err.message, "w: expected 128 bytes, found 64");
    assert_int_equal(f.dev->ops->kv_page_bytes(f.dev, TENSOR_TYPE_Q4_K, 2, 64, 16), 0);
    assert_int_equal(f.dev->ops->kv_page_bytes(f.dev, TENSOR_TYPE_Q8_0, 2, 40, 16), 0);
    assert_int_equal(f.dev->ops->kv_page_bytes(f.dev, TENSOR_TYPE_Q8_0, 2, 64, 16), 2 * 16 * 68);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_scratch_is_a_stack),
        cmocka_unit_test(test_shapes_are_named),
        cmocka_unit_test(test_cancelled_between_ops),
        cmocka_unit_test(test_bad_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
