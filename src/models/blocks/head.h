/* head: the two ends of a decoder: embedding table, final norm, logits. */
#ifndef MODELS_BLOCKS_HEAD_H
#define MODELS_BLOCKS_HEAD_H

#include "models/blocks/hparams.h"
#include "models/weight_set.h"
#include "tensor/ops.h"

struct head_weights {
    const struct weight *embedding, *norm, *output; /* output may be the embedding */
};

/* A tied head is one that the configuration ties (HF) or that the file does not have (GGUF). */
MUST_CHECK enum status head_bind(struct head_weights *, struct weight_set *,
                                 const struct hparams *, unsigned norm_flags, struct error *err);

/* Logits of the batch's output rows of h; softcap 0: none. */
MUST_CHECK enum status head_block(struct step *, struct forward_result *, const struct tensor *h,
                                  const struct head_weights *, const struct hparams *,
                                  float softcap);

#endif
