/* Golden logits of tests/data/golden: tiny checkpoints that the reference implementation ran;
 * tests/data/golden/compact.py cut them down from the full fixtures. */
#include "unit/models/tiny_model.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

#define FOLDER "tests/data/golden/"
#define LIMIT 2e-4f

struct golden_case {
    int32_t token[TINY_TOKENS], greedy[64], row[TINY_TOKENS];
    int32_t n_tokens, n_greedy, n_rows;
    struct strbuf logits; /* [n_rows][n_vocab] f32 */
    const char *name;
};

static int32_t read_ints(const json_t *list, int32_t *out, size_t max)
{
    assert_true(json_array_size(list) <= max);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int32_t)json_array_size(list);
}

static void read_case(struct golden_case *c, const char *model, const json_t *j)
{
    char path[256];
    struct error err;
    c->name = json_string_value(json_object_get(j, "name"));
    c->n_tokens = read_ints(json_object_get(j, "tokens"), c->token, ARRAY_SIZE(c->token));
    c->n_greedy = read_ints(json_object_get(j, "greedy"), c->greedy, ARRAY_SIZE(c->greedy));
    c->n_rows = read_ints(json_object_get(j, "rows"), c->row, ARRAY_SIZE(c->row));
    snprintf(path, sizeof path, FOLDER "%s/%s", model,
             json_string_value(json_object_get(j, "logits")));
    strbuf_init(&c->logits, 1 << 24);
    if (file_read(path, 1 << 24, &c->logits, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

static void compare_rows(const struct golden_case *c, const struct tiny_model *t, const char *what)
{
    int32_t n_vocab = t->model->shape.n_vocab;
    assert_int_equal(c->logits.len, (size_t)c->n_rows * (size_t)n_vocab * sizeof(float));
    for (int32_t i = 0; i < c->n_rows; i++)
        for (int32_t v = 0; v < n_vocab; v++) {
            float expected, found = t->logits[(int64_t)c->row[i] * n_vocab + v];
            memcpy(&expected, c->logits.ptr + ((size_t)i * (size_t)n_vocab + (size_t)v) * 4, 4);
            if (!(fabsf(expected - found) <= LIMIT))
                fail_msg("%s %s: row %d, token %d: expected %g, found %g", what, c->name,
                         c->row[i], v, (double)expected, (double)found);
        }
}

static void compare_greedy(const struct golden_case *c, struct tiny_model *t, const char *what)
{
    int32_t n_vocab = t->model->shape.n_vocab;
    const float *last = t->logits + (int64_t)(c->n_tokens - 1) * n_vocab;
    for (int32_t i = 0; i < c->n_greedy; i++) {
        int32_t next = tiny_largest(last, n_vocab);
        if (next != c->greedy[i])
            fail_msg("%s %s: greedy token %d: expected %d, found %d", what, c->name, i,
                     c->greedy[i], next);
        TINY_OK(t, tiny_pass(t, &next, 1, c->n_tokens + i, false));
        last = t->logits;
    }
}

static void run_model(const char *model, const char *form, const char *isa)
{
    char path[256];
    struct error err;
    json_t *golden;
    snprintf(path, sizeof path, FOLDER "%s/golden.json", model);
    if (json_parse_file(path, 1 << 20, 0, &golden, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    snprintf(path, sizeof path, FOLDER "%s/%s", model, form);
    struct tiny_model t;
    tiny_open(&t, path, &(struct tiny_options){ .exact = true, .isa = isa, .n_threads = 2,
                                                .kv_type = TENSOR_TYPE_F32 });
    json_t *j;
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, j) {
        struct golden_case c = { 0 };
        read_case(&c, model, j);
        TINY_OK(&t, tiny_pass(&t, c.token, c.n_tokens, 0, false));
        compare_rows(&c, &t, path);
        compare_greedy(&c, &t, path);
        strbuf_release(&c.logits);
    }
    tiny_close(&t);
    json_decref(golden);
}

static const struct {
    const char *model, *form;
} list[] = {
    { "llama-base", "hf" },   { "llama-base", "model.gguf" },  { "llama-rope3", "hf" },
    { "llama-rope3", "model.gguf" }, { "qwen2-base", "hf" },   { "qwen2-yarn", "model.gguf" },
    { "qwen3-base", "hf" },   { "gemma3-base", "hf" },         { "gemma3-base", "model.gguf" },
    { "gemma3-scalar", "hf" },
};

static void test_vector_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        run_model(list[i].model, list[i].form, NULL);
}

static void test_reference_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        run_model(list[i].model, list[i].form, "reference");
}

/* A row's bits do not depend on how many rows are computed with it, nor on the threads. */
static void check_rows_alone(const char *path, const struct tiny_options *o)
{
    int32_t token[150];
    for (int32_t i = 0; i < 150; i++)
        token[i] = (i * 37 + 11) % 370;
    struct tiny_model whole, parts;
    tiny_open(&whole, path, o);
    TINY_OK(&whole, tiny_pass(&whole, token, 150, 0, false));
    struct tiny_options one = *o;
    one.n_threads = 1;
    tiny_open(&parts, path, &one);
    static const int32_t chunk[] = { 1, 7, 64, 2, 33, 1, 42 };
    size_t row = (size_t)whole.model->shape.n_vocab * sizeof(float);
    int32_t done = 0;
    for (size_t i = 0; i < ARRAY_SIZE(chunk); done += chunk[i++]) {
        TINY_OK(&parts, tiny_pass(&parts, token + done, chunk[i], done, false));
        if (memcmp(parts.logits, (const uint8_t *)whole.logits + (size_t)done * row,
                   (size_t)chunk[i] * row))
            fail_msg("%s: rows from %d on differ in a chunk of %d", path, done, chunk[i]);
    }
    assert_int_equal(done, 150);
    tiny_close(&whole);
    tiny_close(&parts);
}

static void test_rows_are_independent(void **state)
{
    (void)state;
    static const char *const model[] = { FOLDER "llama-base/hf", FOLDER "gemma3-base/hf",
                                         FOLDER "qwen3-base/hf" };
    for (size_t i = 0; i < ARRAY_SIZE(model); i++) {
        check_rows_alone(model[i], &(struct tiny_options){ .exact = true, .n_threads = 3,
                                                           .kv_type = TENSOR_TYPE_F32 });
        check_rows_alone(model[i], &(struct tiny_options){ .n_threads = 2,
                                                           .kv_type = TENSOR_TYPE_F16 });
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_kernels),
        cmocka_unit_test(test_reference_kernels),
        cmocka_unit_test(test_rows_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
