/* ffn: the gated feed-forward block. Source: Shazeer, arXiv:2002.05202. */
#ifndef MODELS_BLOCKS_FFN_H
#define MODELS_BLOCKS_FFN_H

#include "models/blocks/hparams.h"
#include "models/weight_set.h"
#include "tensor/ops.h"

struct ffn_weights {
    const struct weight *norm, *gate, *up, *down;
};

/* norm_name_hf: "post_attention_layernorm.weight" or "pre_feedforward_layernorm.weight". */
MUST_CHECK enum status ffn_bind(struct ffn_weights *, struct weight_set *, const struct hparams *,
                                int32_t layer, const char *norm_name_hf, unsigned norm_flags,
                                struct error *err);

/* out (+)= W_down(activation(W_gate y) * W_up y), y = rms(h) */
MUST_CHECK enum status ffn_block(struct step *, struct tensor *out, const struct tensor *h,
                                 const struct ffn_weights *, const struct hparams *,
                                 enum activation, bool add);

#endif
