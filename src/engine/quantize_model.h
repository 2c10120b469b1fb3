/* quantize_model: writes a GGUF again with its matrices in another type.
 *
 * Takes any well-formed GGUF, split or whole, whatever its architecture; metadata is copied. The
 * output appears under its name only when it is complete. Memory: a few rows per thread and one
 * piece of a tensor. The result does not depend on the number of threads. */
#ifndef ENGINE_QUANTIZE_MODEL_H
#define ENGINE_QUANTIZE_MODEL_H

#include "base/error.h"
#include "base/str.h"

struct quantize_model_options {
    struct str type; /* "Q4_K", "Q4_K_M", "F32"; see engine/quantize_recipe.h */
    int n_threads;   /* at least 1 */

    /* Importances of a tensor: [n_matrices][n_columns], or [n_columns] for all of its matrices;
     * NULL: none for this one. Called from one thread. The member may be NULL. */
    const float *(*importance)(void *context, struct str name, size_t *n_values);
    /* A fact to tell: a tensor that is kept or gets another type, and why. May be NULL. */
    void (*note)(void *context, const char *text);
    /* After each tensor; true cancels. May be NULL. */
    bool (*progress)(void *context, struct str name, size_t n_done, size_t n_tensors);
    void *context;
};

struct quantize_model_result {
    size_t n_tensors, n_changed;
    uint64_t bytes_before, bytes_after; /* of tensors */
    size_t n_without_importance;        /* quantized without, though there were importances */
};

MUST_CHECK enum status quantize_model(const char *in_path, const char *out_path,
                                      const struct quantize_model_options *options,
                                      struct quantize_model_result *result, struct error *err);

#endif
