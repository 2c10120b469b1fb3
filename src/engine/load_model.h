/* load_model: from a path to a model that can run: source, weights, text, sizes, state.
 *
 * A plan is the same load on a plan_device: nothing is read but headers, nothing is taken.
 * Threads: the caller holds the engine's device_lock. */
#ifndef ENGINE_LOAD_MODEL_H
#define ENGINE_LOAD_MODEL_H

#include "base/error.h"
#include "engine/engine_internal.h"

/* `dev` is the engine's device, or with progress NULL a plan_device. */
MUST_CHECK enum status load_model(struct engine *e, struct device *dev, const char *path,
                                  const struct model_progress *progress,
                                  struct engine_model **out, struct error *err);
void load_model_free(struct engine_model *m); /* NULL is allowed */

#endif
