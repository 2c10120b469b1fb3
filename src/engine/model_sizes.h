/* model_sizes: how long a context, how many sequences, how large a pass, against the memory that
 * is there. A default may shrink, and says so; what was asked for is honoured or refused.
 * Threads: any. */
#ifndef ENGINE_MODEL_SIZES_H
#define ENGINE_MODEL_SIZES_H

#include <stdint.h>

#include "base/error.h"
#include "engine/engine_internal.h"

#define CONTEXT_DEFAULT_MAX 32768
#define SEQUENCES_DEFAULT 16

/* Sets state and pass of *sizes; the model is loaded. `promised`: bytes that seem free but belong
 * to other models. */
MUST_CHECK enum status model_sizes_choose(const struct engine_options *o, const struct model *model,
                                          const struct device *dev, int64_t promised,
                                          struct model_sizes *sizes, struct error *err);
/* NO_MEMORY with both numbers when that much cannot be kept beside what runs. */
MUST_CHECK enum status model_sizes_check_weights(int64_t bytes, int64_t promised,
                                                 struct error *err);

#endif
