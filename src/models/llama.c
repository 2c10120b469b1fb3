/* llama: RMS norm, rotary attention with grouped keys, SwiGLU. Touvron et al., arXiv:2302.13971
 * and 2307.09288; frequency bands: arXiv:2407.21783. GGUF files keep query and key rows in the
 * order of neighbouring pairs, safetensors in halves. */
#include <math.h>

#include "models/blocks/attention.h"
#include "models/blocks/ffn.h"
#include "models/blocks/head.h"
#include "models/blocks/rope_config.h"

struct llama_layer {
    struct attention_weights attention;
    struct ffn_weights ffn;
};

struct llama {
    struct hparams shape;
    struct rope rope;
    struct head_weights head;
    struct llama_layer *layer;
};

static enum status llama_read_config(struct model *m, const struct model_source *source,
                                     struct error *err)
{
    static const char *const no_gguf[] = {
        "expert_count", "nextn_predict_layers", "attention.sliding_window",
        "attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv",
        "attention.temperature_scale", "rope.scaling.yarn_log_multiplier", "logit_scale",
        "residual_scale", "embedding_scale", NULL };
    static const char *const no_hf[] = { "mlp_bias", "sliding_window",
                                         "num_local_experts", "num_experts",
                                         "attn_logit_softcapping", "final_logit_softcapping",
                                         NULL };
    TRY(hparams_refuse(source, no_gguf, no_hf, err));
    TRY(hparams_need_activation(source, "silu", err));
    struct llama *l = m->impl = arena_array(&m->arena, struct llama, 1);
    TRY(hparams_read(&l->shape, source, &(struct hparam_defaults){ .context = 2048, .eps = 1e-6f },
                     err));
    TRY(rope_config_read(&l->rope, source,
                         &(struct rope_request){ .gguf_base = "rope.freq_base",
                                                 .hf_base = "rope_theta", .default_base = 10000,
                                                 .scaled = true, .head_dim = l->shape.k_dim,
                                                 .context = l->shape.context },
                         &m->arena, err));
    l->rope.style = l->shape.gguf ? ROPE_NEIGHBOURS : ROPE_HALVES;
    l->layer = arena_array(&m->arena, struct llama_layer, (size_t)l->shape.n_layers);
    hparams_to_shape(&l->shape, m);
    hparams_declare_kv(&l->shape, m, NULL);
    return STATUS_OK;
}

static enum status llama_bind(struct model *m, struct weight_set *set, struct error *err)
{
    struct llama *l = m->impl;
    TRY(head_bind(&l->head, set, &l->shape, 0, err));
    int32_t n_pairs = l->rope.n_rotated / 2;
    float *divisor = arena_array(&m->arena, float, (size_t)n_pairs);
    bool banded;
    TRY(weight_set_numbers(set, "rope_freqs.weight", NULL, -1, divisor, n_pairs, &banded, err));
    if (banded)
        TRY(rope_divide(&l->rope, divisor, err));
    for (int32_t i = 0; i < l->shape.n_layers; i++) {
        TRY(attention_bind(&l->layer[i].attention, set, &l->shape, i, ATTENTION_BIASES, 0, err));
        TRY(ffn_bind(&l->layer[i].ffn, set, &l->shape, i, "post_attention_layernorm.weight", 0,
                     err));
    }
    return STATUS_OK;
}

static enum status llama_forward(const struct model *m, struct step *s,
                                 const struct state_view *state, struct forward_result *out)
{
    const struct llama *l = m->impl;
    const struct attention_settings attention = {
        .shape = &l->shape, .rope = &l->rope,
        .options = { .scale = 1.0f / sqrtf((float)l->shape.k_dim) } };
    struct tensor h;
    TRY(step_alloc(s, &h, TENSOR_TYPE_F32, s->batch->n_rows, l->shape.n_embd));
    TRY(op_embed(s, &h, l->head.embedding, s->batch->token, 1));
    for (int32_t i = 0; i < l->shape.n_layers; i++) {
        const struct llama_layer *layer = &l->layer[i];
        TRY(attention_block(s, &h, &h, &layer->attention, &attention, &state->kv[i], true));
        TRY(ffn_block(s, &h, &h, &layer->ffn, &l->shape, ACTIVATION_SILU, true));
    }
    return head_block(s, out, &h, &l->head, &l->shape, 0);
}

extern const struct model_family family_llama;
const struct model_family family_llama = {
    .name = "llama",
    .architectures = (const char *const[]){ "llama", NULL },
    .model_types = (const char *const[]){ "llama", NULL },
    .read_config = llama_read_config,
    .bind = llama_bind,
    .forward = llama_forward,
};
