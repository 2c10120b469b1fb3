/* hparams: the numbers that every decoder family reads from its configuration. */
#ifndef MODELS_BLOCKS_HPARAMS_H
#define MODELS_BLOCKS_HPARAMS_H

#include "formats/model_source.h"
#include "models/family.h"

struct hparams {
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, k_dim, v_dim, n_vocab, context;
    float eps;
    bool tied; /* the configuration says that the head is the embedding table */
    bool gguf; /* which conventions the file follows */
};

/* What an absent key means in this family; 0: the key is required. */
struct hparam_defaults {
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, context;
    float eps;
    bool tied;
};

MUST_CHECK enum status hparams_read(struct hparams *, const struct model_source *,
                                    const struct hparam_defaults *, struct error *err);
/* Copies them to model->shape. */
void hparams_to_shape(const struct hparams *, struct model *);

/* UNSUPPORTED, by name, when one of the listed keys is set to anything but null, false, 0, "",
 * or an empty list. Lists are NULL-terminated and may be NULL. */
MUST_CHECK enum status hparams_refuse(const struct model_source *, const char *const *gguf,
                                      const char *const *hf, struct error *err);

/* The activation key: HF "hidden_act" or "hidden_activation" must be `expected`. */
MUST_CHECK enum status hparams_need_activation(const struct model_source *, const char *expected,
                                               struct error *err);

/* One paged piece for each layer; window[i] > 0: a sliding one. window NULL: none slides. */
void hparams_declare_kv(const struct hparams *, struct model *, const int32_t *window);

#endif
