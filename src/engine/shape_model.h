/* shape_model: a GGUF of a well-known geometry with random weights, to measure speed without the
 * model.
 *
 * NAME[-Lk]:QUANT, for example "qwen3-8b-L4:Q4_K_M": the first k layers only; QUANT as quantize
 * knows it. Weights are valid (finite, of the size that training leaves) but repeat after some
 * thousand blocks; there is no tokenizer. Threads: any. */
#ifndef ENGINE_SHAPE_MODEL_H
#define ENGINE_SHAPE_MODEL_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

/* INVALID: no such form; UNSUPPORTED names the shape or type and what there is. `progress` (may
 * be NULL) is called for each tensor; true ends the writing with CANCELLED. */
MUST_CHECK enum status shape_model_write(struct str spec, const char *path,
                                         bool (*progress)(void *user, size_t done, size_t all),
                                         void *user, struct error *err);
/* Checks the spelling alone. */
MUST_CHECK enum status shape_model_check(struct str spec, struct error *err);

#endif
