/* quantize_recipe: which type each tensor of a model gets when the model is quantized.
 *
 * A recipe is named by a tensor type (every matrix gets it) or by a mixture, which gives more bits
 * to the tensors whose error hurts most. The rules look at names and shapes only, so that they hold
 * for any architecture. Constant data and pure functions: any thread.
 * Source of the mixtures: llama.cpp, llama-quant.cpp, which made them by measuring perplexity. */
#ifndef ENGINE_QUANTIZE_RECIPE_H
#define ENGINE_QUANTIZE_RECIPE_H

#include "base/error.h"
#include "formats/weight_file.h"

enum quantize_mixture {
    MIXTURE_NONE,   /* one type for all matrices */
    MIXTURE_SMALL,  /* _S */
    MIXTURE_MEDIUM, /* _M */
    MIXTURE_LARGE,  /* _L */
};

struct quantize_recipe {
    enum tensor_type base;
    enum quantize_mixture mixture;
    int file_type;  /* general.file_type; -1: none is defined */
    int64_t n_layers;
    bool has_output; /* a head of its own; otherwise the embedding is the head */
};

/* Not case-sensitive. UNSUPPORTED lists the names there are. */
MUST_CHECK enum status quantize_recipe_named(struct quantize_recipe *r, struct str name,
                                             struct error *err);
/* Looks at the names of all tensors: number of layers, kind of head. */
void quantize_recipe_fit(struct quantize_recipe *r, const struct weight_file *f);

/* The type for t. *reason says why it is not r->base, as a clause ("is no matrix"); NULL if it is
 * or if the mixture asks for it. */
enum tensor_type quantize_recipe_type(const struct quantize_recipe *r,
                                      const struct weight_tensor *t, const char **reason);

#endif
