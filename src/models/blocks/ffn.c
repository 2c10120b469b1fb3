#include "models/blocks/ffn.h"

enum status ffn_bind(struct ffn_weights *w, struct weight_set *set, const struct hparams *h,
                     int32_t layer, const char *norm_name_hf, unsigned norm_flags,
                     struct error *err)
{
    TRY(weight_set_bind(set, &w->norm, "ffn_norm.weight", norm_name_hf, layer, 1, h->n_embd,
                        norm_flags, err));
    TRY(weight_set_bind(set, &w->gate, "ffn_gate.weight", "mlp.gate_proj.weight", layer, h->n_ff,
                        h->n_embd, 0, err));
    TRY(weight_set_bind(set, &w->up, "ffn_up.weight", "mlp.up_proj.weight", layer, h->n_ff,
                        h->n_embd, 0, err));
    return weight_set_bind(set, &w->down, "ffn_down.weight", "mlp.down_proj.weight", layer,
                           h->n_embd, h->n_ff, 0, err);
}

enum status ffn_block(struct step *s, struct tensor *out, const struct tensor *h,
                      const struct ffn_weights *w, const struct hparams *p,
                      enum activation activation, bool add)
{
    size_t mark = step_mark(s);
    struct tensor wide;
    TRY(step_alloc(s, &wide, TENSOR_TYPE_F32, h->dim[0], p->n_ff));
    TRY(op_linear_glu(s, &wide, h, w->gate, w->up, activation,
                      &(struct norm_before){ w->norm, p->eps }));
    TRY(op_linear(s, out, &wide, w->down, &(struct linear_options){ .add = add }));
    step_release(s, mark);
    return STATUS_OK;
}
