/* serve_models: which models `ingot serve` offers, and what the API calls them.
 *
 * From the arguments, --models-dir, and --model-name "name,alias,alias" (of the first). The others
 * have the name that is in their file. Everything lives in the arena. */
#ifndef CLI_SERVE_MODELS_H
#define CLI_SERVE_MODELS_H

#include "base/arena.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "server/server.h"

/* Reads headers, no weights; a file that cannot be served is an error. */
MUST_CHECK enum status serve_models_read(struct arena *a, const struct options *o,
                                         const struct engine_options *engine,
                                         struct server_model **out, size_t *n, struct error *err);

#endif
