#include "models/blocks/attention.h"

enum status attention_bind(struct attention_weights *w, struct weight_set *set,
                           const struct hparams *h, int32_t layer, unsigned parts,
                           unsigned norm_flags, struct error *err)
{
    int64_t n_q = (int64_t)h->n_heads * h->k_dim, n_k = (int64_t)h->n_kv_heads * h->k_dim;
    int64_t n_v = (int64_t)h->n_kv_heads * h->v_dim, n_o = (int64_t)h->n_heads * h->v_dim;
    const struct {
        const struct weight **out;
        const char *gguf, *hf;
        int64_t rows, cols;
        unsigned flags, part; /* part 0: always */
    } list[] = {
        { &w->norm, "attn_norm.weight", "input_layernorm.weight", 1, h->n_embd, norm_flags, 0 },
        { &w->q, "attn_q.weight", "self_attn.q_proj.weight", n_q, h->n_embd, 0, 0 },
        { &w->k, "attn_k.weight", "self_attn.k_proj.weight", n_k, h->n_embd, 0, 0 },
        { &w->v, "attn_v.weight", "self_attn.v_proj.weight", n_v, h->n_embd, 0, 0 },
        { &w->o, "attn_output.weight", "self_attn.o_proj.weight", h->n_embd, n_o, 0, 0 },
        { &w->q_bias, "attn_q.bias", "self_attn.q_proj.bias", 1, n_q, WEIGHT_OPTIONAL,
          ATTENTION_BIASES },
        { &w->k_bias, "attn_k.bias", "self_attn.k_proj.bias", 1, n_k, WEIGHT_OPTIONAL,
          ATTENTION_BIASES },
        { &w->v_bias, "attn_v.bias", "self_attn.v_proj.bias", 1, n_v, WEIGHT_OPTIONAL,
          ATTENTION_BIASES },
        { &w->o_bias, "attn_output.bias", "self_attn.o_proj.bias", 1, h->n_embd, WEIGHT_OPTIONAL,
          ATTENTION_BIASES },
        { &w->q_norm, "attn_q_norm.weight", "self_attn.q_norm.weight", 1, h->k_dim, norm_flags,
          ATTENTION_HEAD_NORMS },
        { &w->k_norm, "attn_k_norm.weight", "self_attn.k_norm.weight", 1, h->k_dim, norm_flags,
          ATTENTION_HEAD_NORMS },
    };
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        if (!list[i].part || parts & list[i].part)
            TRY(weight_set_bind(set, list[i].out, list[i].gguf, list[i].hf, layer, list[i].rows,
                                list[i].cols, list[i].flags, err));
    return STATUS_OK;
}

enum status attention_block(struct step *s, struct tensor *out, const struct tensor *h,
                            const struct attention_weights *w, const struct attention_settings *a,
                            const struct kv_layer *kv, bool add)
{
    const struct hparams *p = a->shape;
    int64_t n = h->dim[0];
    size_t mark = step_mark(s);
    struct tensor q, k, v, mixed;
    TRY(step_alloc(s, &q, TENSOR_TYPE_F32, n, (int64_t)p->n_heads * p->k_dim));
    TRY(step_alloc(s, &k, TENSOR_TYPE_F32, n, (int64_t)p->n_kv_heads * p->k_dim));
    TRY(step_alloc(s, &v, TENSOR_TYPE_F32, n, (int64_t)p->n_kv_heads * p->v_dim));
    TRY(step_alloc(s, &mixed, TENSOR_TYPE_F32, n, (int64_t)p->n_heads * p->v_dim));
    const struct linear_item items[3] = { { q, w->q, w->q_bias },
                                          { k, w->k, w->k_bias },
                                          { v, w->v, w->v_bias } };
    TRY(op_linear_group(s, h, 3, items, &(struct norm_before){ w->norm, p->eps }));

    struct tensor q_heads = tensor_split(&q, p->n_heads, p->k_dim);
    struct tensor k_heads = tensor_split(&k, p->n_kv_heads, p->k_dim);
    struct tensor v_heads = tensor_split(&v, p->n_kv_heads, p->v_dim);
    struct tensor mixed_heads = tensor_split(&mixed, p->n_heads, p->v_dim);
    if (w->q_norm) {
        TRY(op_rms_norm(s, &q_heads, &q_heads, w->q_norm, p->eps));
        TRY(op_rms_norm(s, &k_heads, &k_heads, w->k_norm, p->eps));
    }
    TRY(op_rope(s, &q_heads, a->rope));
    TRY(op_rope(s, &k_heads, a->rope));
    TRY(op_kv_append(s, kv, &k_heads, &v_heads));
    TRY(op_attention(s, &mixed_heads, &q_heads, kv, &a->options));
    TRY(op_linear(s, out, &mixed, w->o, &(struct linear_options){ .bias = w->o_bias, .add = add }));
    step_release(s, mark);
    return STATUS_OK;
}
