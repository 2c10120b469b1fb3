/* qwen3: the llama block with a norm over each query and key head before the rotation.
 * Qwen team, arXiv:2505.09388. */
#include <math.h>

#include "models/blocks/attention.h"
#include "models/blocks/ffn.h"
#include "models/blocks/head.h"
#include "models/blocks/rope_config.h"
#include "models/blocks/window.h"

struct qwen3_layer {
    struct attention_weights attention;
    struct ffn_weights ffn;
};

struct qwen3 {
    struct hparams shape;
    struct rope rope;
    struct head_weights head;
    struct qwen3_layer *layer;
};

static enum status qwen3_read_config(struct model *m, const struct model_source *source,
                                     struct error *err)
{
    static const char *const no_gguf[] = { "expert_count", "nextn_predict_layers",
                                           "attention.sliding_window", NULL };
    static const char *const no_hf[] = { "num_experts", NULL };
    TRY(hparams_refuse(source, no_gguf, no_hf, err));
    TRY(hparams_need_activation(source, "silu", err));
    struct qwen3 *q = m->impl = arena_array(&m->arena, struct qwen3, 1);
    TRY(hparams_read(&q->shape, source,
                     &(struct hparam_defaults){ .context = 32768, .eps = 1e-6f, .head_dim = 128 },
                     err));
    TRY(rope_config_read(&q->rope, source,
                         &(struct rope_request){ .gguf_base = "rope.freq_base",
                                                 .hf_base = "rope_theta", .default_base = 10000,
                                                 .scaled = true, .head_dim = q->shape.k_dim,
                                                 .context = q->shape.context },
                         &m->arena, err));
    q->layer = arena_array(&m->arena, struct qwen3_layer, (size_t)q->shape.n_layers);
    hparams_to_shape(&q->shape, m);
    int32_t *window;
    TRY(window_read_qwen(&window, &q->shape, source, &m->arena, err));
    hparams_declare_kv(&q->shape, m, window);
    return STATUS_OK;
}

static enum status qwen3_bind(struct model *m, struct weight_set *set, struct error *err)
{
    struct qwen3 *q = m->impl;
    TRY(head_bind(&q->head, set, &q->shape, 0, err));
    for (int32_t i = 0; i < q->shape.n_layers; i++) {
        TRY(attention_bind(&q->layer[i].attention, set, &q->shape, i,
                           ATTENTION_HEAD_NORMS | ATTENTION_BIASES, 0, err));
        TRY(ffn_bind(&q->layer[i].ffn, set, &q->shape, i, "post_attention_layernorm.weight", 0,
                     err));
    }
    return STATUS_OK;
}

static enum status qwen3_forward(const struct model *m, struct step *s,
                                 const struct state_view *state, struct forward_result *out)
{
    const struct qwen3 *q = m->impl;
    const struct attention_settings attention = {
        .shape = &q->shape, .rope = &q->rope,
        .options = { .scale = 1.0f / sqrtf((float)q->shape.k_dim) } };
    struct tensor h;
    TRY(step_alloc(s, &h, TENSOR_TYPE_F32, s->batch->n_rows, q->shape.n_embd));
    TRY(op_embed(s, &h, q->head.embedding, s->batch->token, 1));
    for (int32_t i = 0; i < q->shape.n_layers; i++) {
        const struct qwen3_layer *layer = &q->layer[i];
        TRY(attention_block(s, &h, &h, &layer->attention, &attention, &state->kv[i], true));
        TRY(ffn_block(s, &h, &h, &layer->ffn, &q->shape, ACTIVATION_SILU, true));
    }
    return head_block(s, out, &h, &q->head, &q->shape, 0);
}

extern const struct model_family family_qwen3;
const struct model_family family_qwen3 = {
    .name = "qwen3",
    .architectures = (const char *const[]){ "qwen3", NULL },
    .model_types = (const char *const[]){ "qwen3", NULL },
    .read_config = qwen3_read_config,
    .bind = qwen3_bind,
    .forward = qwen3_forward,
};
