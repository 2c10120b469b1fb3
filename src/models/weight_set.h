/* weight_set: names to resident weights, with shapes checked, while a model loads.
 *
 * A family asks for each weight by both of its names; the set finds it in the file, checks type
 * and shape, makes it resident and gives the file's pages back. In a planning set nothing becomes
 * resident: bytes are only added up.
 *
 *   layer >= 0   GGUF "blk.N." + name      HF "model.layers.N." + name
 *   layer -1     GGUF name                 HF "model." + name; "=lm_head.weight": without "model."
 * In multimodal layouts "model." becomes "model.language_model." or "language_model.model.".
 *
 * weight_set_finish refuses a file whose layers hold tensors that nobody asked for: they would
 * have changed the result. Ownership: weights belong to the model. Threads: the loader's only. */
#ifndef MODELS_WEIGHT_SET_H
#define MODELS_WEIGHT_SET_H

#include "formats/model_source.h"
#include "models/family.h"

enum weight_flags {
    WEIGHT_OPTIONAL = 1, /* absent: *out = NULL */
    WEIGHT_PLUS_ONE = 2, /* a norm that safetensors store minus one */
    WEIGHT_LOOKUP = 4,   /* an embedding table that is no head */
};

struct weight_set {
    const struct model_source *source;
    const struct weight_file *file;
    struct model *model;
    struct device *dev;
    bool plan;
    char prefix[32], root[32]; /* HF: "model." and "" */
    bool *used;                /* [file->n_tensors] */
    int32_t capacity;          /* of model->weights */
    int64_t bytes_done, bytes_all;
    int64_t planned_bytes, mapped_bytes;
    const struct model_progress *progress;
};

MUST_CHECK enum status weight_set_init(struct weight_set *, const struct model_source *,
                                       struct model *, struct device *, struct error *err);
void weight_set_release(struct weight_set *); /* the weights stay */
MUST_CHECK enum status weight_set_finish(struct weight_set *, struct error *err);

/* [n_rows][n_cols]; n_rows 1: a vector. */
MUST_CHECK enum status weight_set_bind(struct weight_set *, const struct weight **out,
                                       const char *gguf, const char *hf, int layer,
                                       int64_t n_rows, int64_t n_cols, unsigned flags,
                                       struct error *err);
bool weight_set_has(const struct weight_set *, const char *gguf, const char *hf, int layer);
/* n plain numbers, as f32 (rope_freqs); false in *found when absent. */
MUST_CHECK enum status weight_set_numbers(struct weight_set *, const char *gguf, const char *hf,
                                          int layer, float *out, int64_t n, bool *found,
                                          struct error *err);

#endif
