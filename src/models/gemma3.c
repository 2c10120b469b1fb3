/* gemma3: sliding and global attention in turn with a rope each, norms before and after every
 * block, GELU. Gemma team, arXiv:2503.19786. Norm weights lie minus one in safetensors. */
#include <math.h>

#include "models/blocks/attention.h"
#include "models/blocks/ffn.h"
#include "models/blocks/head.h"
#include "models/blocks/rope_config.h"
#include "models/blocks/window.h"

struct gemma3_layer {
    struct attention_weights attention;
    struct ffn_weights ffn;
    const struct weight *post_attention_norm, *post_ffn_norm;
};

struct gemma3 {
    struct hparams shape;
    struct rope local, global;
    float attention_scale, attention_softcap, final_softcap;
    int32_t *window;
    struct head_weights head;
    struct gemma3_layer *layer;
};

/* What Gemma3TextConfig means by an absent key: published files leave many out. */
static const struct hparam_defaults gemma3_defaults = {
    .n_layers = 26, .n_embd = 2304, .n_ff = 9216, .n_heads = 8, .n_kv_heads = 4, .head_dim = 256,
    .n_vocab = 262208, .context = 131072, .eps = 1e-6f, .tied = true,
};

static enum status read_ropes(struct gemma3 *g, struct model *m, const struct model_source *source,
                              struct error *err)
{
    struct rope_request local = { .layer_type = "sliding_attention",
                                  .gguf_base = "rope.freq_base_swa",
                                  .hf_base = "rope_local_base_freq", .default_base = 10000,
                                  .head_dim = g->shape.k_dim, .context = g->shape.context };
    struct rope_request global = { .layer_type = "full_attention", .gguf_base = "rope.freq_base",
                                   .hf_base = "rope_theta", .default_base = 1000000,
                                   .scaled = true, .head_dim = g->shape.k_dim,
                                   .context = g->shape.context };
    TRY(rope_config_read(&g->local, source, &local, &m->arena, err));
    return rope_config_read(&g->global, source, &global, &m->arena, err);
}

/* query_pre_attn_scalar^-1/2. A GGUF cannot say it: it is the head's width except in the 27B. */
static enum status read_scale(struct gemma3 *g, const struct model_source *source,
                              struct error *err)
{
    const struct hparams *p = &g->shape;
    float scalar = source->kind == MODEL_SOURCE_GGUF
                       ? (float)(p->n_layers == 62 ? p->n_embd / p->n_heads : p->k_dim)
                       : 256.0f;
    TRY(config_get_f32_or(&source->config, NULL, "query_pre_attn_scalar", scalar, &scalar, err));
    if (!(scalar > 0))
        return error_set(err, STATUS_INVALID,
                         "query_pre_attn_scalar: expected a number above 0, found %g",
                         (double)scalar);
    g->attention_scale = 1.0f / sqrtf(scalar);
    return STATUS_OK;
}

static enum status read_cap(float *out, const struct model_source *source, const char *key,
                            struct error *err)
{
    TRY(config_get_f32_or(&source->config, key, key, 0, out, err));
    if (*out >= 0 && isfinite(*out))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: expected a number above 0, found %g", key,
                     (double)*out);
}

static enum status gemma3_read_config(struct model *m, const struct model_source *source,
                                      struct error *err)
{
    static const char *const no_gguf[] = { "expert_count", "nextn_predict_layers", NULL };
    static const char *const no_hf[] = { "use_bidirectional_attention",
                                         "num_experts", NULL };
    TRY(hparams_refuse(source, no_gguf, no_hf, err));
    TRY(hparams_need_activation(source, "gelu_pytorch_tanh", err));
    bool causal;
    TRY(config_get_bool_or(&source->config, "attention.causal", NULL, true, &causal, err));
    if (!causal)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: attention.causal is false: an embedding model cannot generate",
                         source->path);
    struct gemma3 *g = m->impl = arena_array(&m->arena, struct gemma3, 1);
    TRY(hparams_read(&g->shape, source, &gemma3_defaults, err));
    TRY(read_ropes(g, m, source, err));
    TRY(read_scale(g, source, err));
    TRY(read_cap(&g->attention_softcap, source, "attn_logit_softcapping", err));
    TRY(read_cap(&g->final_softcap, source, "final_logit_softcapping", err));
    g->layer = arena_array(&m->arena, struct gemma3_layer, (size_t)g->shape.n_layers);
    hparams_to_shape(&g->shape, m);
    TRY(window_read_gemma(&g->window, &g->shape, source, 4096, &m->arena, err));
    hparams_declare_kv(&g->shape, m, g->window);
    return STATUS_OK;
}

static enum status gemma3_bind(struct model *m, struct weight_set *set, struct error *err)
{
    struct gemma3 *g = m->impl;
    const struct hparams *p = &g->shape;
    TRY(head_bind(&g->head, set, p, WEIGHT_PLUS_ONE, err));
    for (int32_t i = 0; i < p->n_layers; i++) {
        struct gemma3_layer *layer = &g->layer[i];
        TRY(attention_bind(&layer->attention, set, p, i, ATTENTION_HEAD_NORMS, WEIGHT_PLUS_ONE,
                           err));
        TRY(weight_set_bind(set, &layer->post_attention_norm, "post_attention_norm.weight",
                            "post_attention_layernorm.weight", i, 1, p->n_embd, WEIGHT_PLUS_ONE,
                            err));
        TRY(ffn_bind(&layer->ffn, set, p, i, "pre_feedforward_layernorm.weight", WEIGHT_PLUS_ONE,
                     err));
        TRY(weight_set_bind(set, &layer->post_ffn_norm, "post_ffw_norm.weight",
                            "post_feedforward_layernorm.weight", i, 1, p->n_embd, WEIGHT_PLUS_ONE,
                            err));
    }
    return STATUS_OK;
}

static enum status gemma3_forward(const struct model *m, struct step *s,
                                  const struct state_view *state, struct forward_result *out)
{
    const struct gemma3 *g = m->impl;
    const struct hparams *p = &g->shape;
    struct tensor h, block;
    TRY(step_alloc(s, &h, TENSOR_TYPE_F32, s->batch->n_rows, p->n_embd));
    TRY(step_alloc(s, &block, TENSOR_TYPE_F32, s->batch->n_rows, p->n_embd));
    TRY(op_embed(s, &h, g->head.embedding, s->batch->token, sqrtf((float)p->n_embd)));
    for (int32_t i = 0; i < p->n_layers; i++) {
        const struct gemma3_layer *layer = &g->layer[i];
        const struct attention_settings attention = {
            .shape = p, .rope = g->window[i] ? &g->local : &g->global,
            .options = { .scale = g->attention_scale, .softcap = g->attention_softcap } };
        TRY(attention_block(s, &block, &h, &layer->attention, &attention, &state->kv[i], false));
        TRY(op_rms_norm(s, &block, &block, layer->post_attention_norm, p->eps));
        TRY(op_add(s, &h, &block));
        TRY(ffn_block(s, &block, &h, &layer->ffn, p, ACTIVATION_GELU_TANH, false));
        TRY(op_rms_norm(s, &block, &block, layer->post_ffn_norm, p->eps));
        TRY(op_add(s, &h, &block));
    }
    return head_block(s, out, &h, &g->head, p, g->final_softcap);
}

extern const struct model_family family_gemma3;
const struct model_family family_gemma3 = {
    .name = "gemma3",
    .architectures = (const char *const[]){ "gemma3", NULL },
    .model_types = (const char *const[]){ "gemma3_text", "gemma3", NULL },
    .read_config = gemma3_read_config,
    .bind = gemma3_bind,
    .forward = gemma3_forward,
};
