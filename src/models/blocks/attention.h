/* attention: the softmax attention block: norm, projections, rope, cache, output projection. */
#ifndef MODELS_BLOCKS_ATTENTION_H
#define MODELS_BLOCKS_ATTENTION_H

#include "models/blocks/hparams.h"
#include "models/weight_set.h"
#include "tensor/ops.h"

struct attention_weights {
    const struct weight *norm, *q, *k, *v, *o;
    const struct weight *q_bias, *k_bias, *v_bias, *o_bias; /* NULL: none */
    const struct weight *q_norm, *k_norm;                   /* over each head; NULL: none */
};

enum attention_parts { ATTENTION_HEAD_NORMS = 1, ATTENTION_BIASES = 2 };

/* q, k, v, o and what `parts` names, biases where the file has them. norm_flags: WEIGHT_PLUS_ONE
 * for all norms. */
MUST_CHECK enum status attention_bind(struct attention_weights *, struct weight_set *,
                                      const struct hparams *, int32_t layer, unsigned parts,
                                      unsigned norm_flags, struct error *err);

struct attention_settings {
    const struct hparams *shape;
    const struct rope *rope;
    struct attention_options options;
};

/* out (+)= W_o attention(rms(h)); add: out is h itself or another residual stream. */
MUST_CHECK enum status attention_block(struct step *, struct tensor *out, const struct tensor *h,
                                       const struct attention_weights *,
                                       const struct attention_settings *,
                                       const struct kv_layer *, bool add);

#endif
