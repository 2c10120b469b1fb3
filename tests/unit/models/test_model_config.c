/* What the families read from configurations, and what they refuse, told by small config.json
 * files without weights and by the golden checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cpu/cpu_device.h"
#include "formats/model_source.h"
#include "models/blocks/rope_config.h"
#include "models/family.h"
#include "unit/cmocka_setup.h"

#define LLAMA                                                                             \
    "\"model_type\":\"llama\",\"vocab_size\":32,\"hidden_size\":64,\"intermediate_size\":96," \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"max_position_embeddings\":2048"
#define QWEN2                                                                             \
    "\"model_type\":\"qwen2\",\"vocab_size\":32,\"hidden_size\":64,\"intermediate_size\":96," \
    "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2"
#define GEMMA3 "\"model_type\":\"gemma3_text\",\"num_hidden_layers\":13,\"hidden_size\":640"

struct opened {
    char folder[64];
    struct model_source *source;
    struct model *model;
    struct error err;
    enum status status;
};

static void open_config(struct opened *o, const char *members)
{
    char path[96], text[2048];
    *o = (struct opened){ .folder = "/tmp/test_model_config_XXXXXX" };
    assert_non_null(mkdtemp(o->folder));
    snprintf(path, sizeof path, "%s/config.json", o->folder);
    int n = snprintf(text, sizeof text, "{%s}", members);
    assert_int_equal(file_write(path, text, (size_t)n, &o->err), STATUS_OK);
    assert_int_equal(model_source_open(&o->source, o->folder, &o->err), STATUS_OK);
    o->status = model_open_config(o->source, &o->model, &o->err);
}

static void close_config(struct opened *o)
{
    char path[96];
    model_free(o->model);
    model_source_free(o->source);
    snprintf(path, sizeof path, "%s/config.json", o->folder);
    unlink(path);
    rmdir(o->folder);
}

static void refused(const char *members, const char *why)
{
    struct opened o;
    open_config(&o, members);
    if (o.status == STATUS_OK)
        fail_msg("%s: expected to be refused", members);
    if (!strstr(o.err.message, why))
        fail_msg("%s: expected a message with \"%s\", found \"%s\"", members, why, o.err.message);
    close_config(&o);
}

static void test_refusals_name_the_key(void **state)
{
    (void)state;
    refused("\"model_type\":\"mamba\"", "mamba is not supported, expected one of llama, qwen2");
    refused("\"vocab_size\":1", "no model_type");
    refused(LLAMA ",\"mlp_bias\":true", "mlp_bias");
    refused(LLAMA ",\"hidden_act\":\"relu\"", "expected silu, found relu");
    refused(LLAMA ",\"num_key_value_heads\":3", "found 4 and 3");
    refused(LLAMA ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2}", "longrope");
    refused(LLAMA ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2},"
                  "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4}", "differ");
    refused(LLAMA ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":-2}", "factor -2");
    refused(LLAMA ",\"rms_norm_eps\":-1", "epsilon");
    refused(GEMMA3 ",\"use_bidirectional_attention\":true", "use_bidirectional_attention");
    refused(GEMMA3 ",\"query_pre_attn_scalar\":-4", "query_pre_attn_scalar");
    refused("\"model_type\":\"llama\",\"vocab_size\":32", "num_hidden_layers");
}

static void test_sliding_layers(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        const char *slides; /* one character for each layer: 's' or '.' */
        int32_t window;
    } cases[] = {
        { QWEN2 ",\"sliding_window\":9,\"use_sliding_window\":false", "....", 0 },
        { QWEN2 ",\"sliding_window\":9,\"use_sliding_window\":true,\"max_window_layers\":3",
          "...s", 9 },
        { QWEN2 ",\"use_sliding_window\":true,\"max_window_layers\":0", "ssss", 4096 },
        { GEMMA3, "sssss.sssss.s", 4096 },
        { GEMMA3 ",\"sliding_window\":512,\"sliding_window_pattern\":3", "ss.ss.ss.ss.s", 512 },
        { GEMMA3 ",\"sliding_window\":512,\"sliding_window_pattern\":1", ".............", 0 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct opened o;
        open_config(&o, cases[i].members);
        if (o.status != STATUS_OK)
            fail_msg("%s", o.err.message);
        assert_int_equal(o.model->state.n_pieces, (int)strlen(cases[i].slides));
        for (int32_t k = 0; k < o.model->state.n_pieces; k++) {
            const struct state_piece *p = &o.model->state.piece[k];
            bool slides = cases[i].slides[k] == 's';
            assert_int_equal(p->kind, slides ? STATE_WINDOW : STATE_PAGED);
            assert_int_equal(p->window, slides ? cases[i].window : 0);
        }
        assert_int_equal(o.model->shape.sliding_window, cases[i].window);
        close_config(&o);
    }
}

/* The rope of a llama config with `members`; frequencies live in `arena`. */
static struct rope read_rope(struct opened *o, struct arena *arena, const char *members)
{
    struct rope r;
    open_config(o, members);
    if (o->status != STATUS_OK)
        fail_msg("%s", o->err.message);
    struct rope_request request = { .hf_base = "rope_theta", .default_base = 10000,
                                    .scaled = true, .head_dim = 16, .context = 2048 };
    if (rope_config_read(&r, o->source, &request, arena, &o->err) != STATUS_OK)
        fail_msg("%s", o->err.message);
    return r;
}

#define NEAR(a, b) assert_true(fabs((double)(a) - (double)(b)) <= 1e-6 * fabs((double)(b)) + 1e-12)

static void test_rope_scalings(void **state)
{
    (void)state;
    struct arena arena;
    struct opened o;
    arena_init(&arena, 0);
    struct rope r = read_rope(&o, &arena, LLAMA ",\"rope_parameters\":{\"rope_theta\":100}");
    NEAR(r.frequency[1], pow(100, -1.0 / 8));
    NEAR(r.magnitude, 1);
    close_config(&o);
    r = read_rope(&o, &arena, LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}");
    NEAR(r.frequency[0], 0.25);
    NEAR(r.magnitude, 1);
    close_config(&o);
    r = read_rope(&o, &arena, LLAMA ",\"partial_rotary_factor\":0.5");
    assert_int_equal(r.n_rotated, 8);
    NEAR(r.frequency[1], 0.1);
    close_config(&o);
    /* YaRN: the fastest pair stays, the slowest is divided, magnitude 0.1 ln 4 + 1. */
    r = read_rope(&o, &arena, LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                                    "\"original_max_position_embeddings\":512}");
    NEAR(r.frequency[0], 1);
    NEAR(r.frequency[7], pow(10000, -7.0 / 8) / 4);
    NEAR(r.magnitude, 0.1 * log(4) + 1);
    close_config(&o);
    /* No factor: context / original = 4; both mscales: their quotient; an explicit one wins. */
    r = read_rope(&o, &arena, LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"mscale\":1,"
                                    "\"mscale_all_dim\":0.5,"
                                    "\"original_max_position_embeddings\":512}");
    NEAR(r.magnitude, (0.1 * log(4) + 1) / (0.05 * log(4) + 1));
    close_config(&o);
    r = read_rope(&o, &arena, LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                                    "\"attention_factor\":1.5,"
                                    "\"original_max_position_embeddings\":512}");
    NEAR(r.magnitude, 1.5);
    close_config(&o);
    arena_release(&arena);
}

/* A checkpoint whose tensor has another shape than its configuration says. */
static void test_wrong_shape_is_named(void **state)
{
    (void)state;
    struct model_source *source;
    struct device *dev;
    struct model *model = NULL, *again;
    struct error err;
    struct cpu_device_options options = { .n_threads = 1 };
    assert_int_equal(cpu_device_new(&options, &dev, &err), STATUS_OK);
    assert_int_equal(model_source_open(&source, "tests/data/golden/llama-base/hf", &err),
                     STATUS_OK);
    json_t *config = (json_t *)source->config.json;
    json_object_set_new(config, "intermediate_size", json_integer(161));
    assert_int_equal(model_load(source, NULL, dev, &model, NULL, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "model.layers.0.mlp.gate_proj.weight"));
    assert_non_null(strstr(err.message, "expected shape [161, 64], found [160, 64]"));
    json_object_set_new(config, "intermediate_size", json_integer(160));
    json_object_set_new(config, "num_hidden_layers", json_integer(4));
    assert_int_equal(model_load(source, NULL, dev, &model, NULL, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "model.layers.3.input_layernorm.weight is missing"));
    json_object_set_new(config, "num_hidden_layers", json_integer(2));
    assert_int_equal(model_load(source, NULL, dev, &model, NULL, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "model.layers.2."));
    json_object_set_new(config, "num_hidden_layers", json_integer(3));
    assert_int_equal(model_load(source, NULL, dev, &again, NULL, &err), STATUS_OK);
    int64_t resident, mapped;
    assert_int_equal(model_plan_bytes(source, NULL, dev, &resident, &mapped, &err), STATUS_OK);
    assert_int_equal(resident, again->weight_bytes);
    assert_true(mapped > 0); /* the embedding table is only looked up */
    model_free(again);
    model_source_free(source);
    dev->ops->release(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals_name_the_key),
        cmocka_unit_test(test_sliding_layers),
        cmocka_unit_test(test_rope_scalings),
        cmocka_unit_test(test_wrong_shape_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
