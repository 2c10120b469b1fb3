/* rope_config: rotary frequencies of a model, with every scaling of the plain families:
 * linear, YaRN, llama-3 bands (configuration or the rope_freqs tensor). */
#ifndef MODELS_BLOCKS_ROPE_CONFIG_H
#define MODELS_BLOCKS_ROPE_CONFIG_H

#include "base/arena.h"
#include "formats/model_source.h"
#include "tensor/ops.h"

struct rope_request {
    const char *layer_type;       /* HF: member of rope_parameters for these layers; NULL: none */
    const char *gguf_base, *hf_base; /* keys of the base; hf may list alternatives */
    float default_base;
    bool scaled;                  /* false: this rope ignores the model's scaling */
    int32_t head_dim;
    int32_t context;              /* the model's, for what derives from it */
};

/* Frequencies are arena memory. UNSUPPORTED names a scaling that is not known. */
MUST_CHECK enum status rope_config_read(struct rope *out, const struct model_source *,
                                        const struct rope_request *, struct arena *,
                                        struct error *err);
/* frequency[i] /= divisor[i] (GGUF rope_freqs). */
MUST_CHECK enum status rope_divide(struct rope *, const float *divisor, struct error *err);

#endif
