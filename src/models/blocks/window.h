/* window: which layers slide, from the configuration. */
#ifndef MODELS_BLOCKS_WINDOW_H
#define MODELS_BLOCKS_WINDOW_H

#include "models/blocks/hparams.h"

/* [n_layers] window sizes, 0: full; arena memory. Qwen: `use_sliding_window` rules all; then
 * `layer_types`, else layers from `max_window_layers` on slide. */
MUST_CHECK enum status window_read_qwen(int32_t **out, const struct hparams *,
                                        const struct model_source *, struct arena *,
                                        struct error *err);
/* Gemma: `layer_types` (HF) or a pattern: a period P, every P-th layer full, or an array that says
 * which layers slide. P = 1: none. */
MUST_CHECK enum status window_read_gemma(int32_t **out, const struct hparams *,
                                         const struct model_source *, int32_t default_window,
                                         struct arena *, struct error *err);

#endif
