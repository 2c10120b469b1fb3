#include "models/blocks/head.h"

enum status head_bind(struct head_weights *w, struct weight_set *set, const struct hparams *h,
                      unsigned norm_flags, struct error *err)
{
    bool tied = h->gguf ? !weight_set_has(set, "output.weight", NULL, -1) : h->tied;
    TRY(weight_set_bind(set, &w->embedding, "token_embd.weight", "embed_tokens.weight", -1,
                        h->n_vocab, h->n_embd, tied ? 0 : WEIGHT_LOOKUP, err));
    TRY(weight_set_bind(set, &w->norm, "output_norm.weight", "norm.weight", -1, 1, h->n_embd,
                        norm_flags, err));
    w->output = w->embedding;
    if (tied)
        return STATUS_OK;
    return weight_set_bind(set, &w->output, "output.weight", "=lm_head.weight", -1, h->n_vocab,
                           h->n_embd, 0, err);
}

enum status head_block(struct step *s, struct forward_result *out, const struct tensor *h,
                       const struct head_weights *w, const struct hparams *p, float softcap)
{
    const struct batch *b = s->batch;
    TRY(step_alloc(s, &out->logits, TENSOR_TYPE_F32, b->n_outputs, p->n_vocab));
    if (out->want_hidden) {
        TRY(step_alloc(s, &out->hidden, TENSOR_TYPE_F32, h->dim[0], p->n_embd));
        TRY(op_rms_norm(s, &out->hidden, h, w->norm, p->eps));
    }
    if (b->n_outputs == 0)
        return STATUS_OK;
    size_t mark = step_mark(s);
    struct tensor rows = *h;
    if (b->n_outputs < h->dim[0] || s->measure) {
        TRY(step_alloc(s, &rows, TENSOR_TYPE_F32, b->n_outputs, p->n_embd));
        TRY(op_select_rows(s, &rows, h, b->output_row, b->n_outputs));
    }
    TRY(op_linear(s, &out->logits, &rows, w->output,
                  &(struct linear_options){ .norm = { w->norm, p->eps } }));
    step_release(s, mark);
    return softcap > 0 ? op_softcap(s, &out->logits, softcap) : STATUS_OK;
}
