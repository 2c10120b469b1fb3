/* state_fingerprint: which saved states a loaded model may take over.
 *
 * One number of everything that changes the bytes of a state: the model's configuration and
 * weights (their names, types, sizes and samples of each), family and pieces of state, types of
 * the cache, device and instruction set, exactness. Not a defence against forgery.
 * Threads: the loader's. */
#ifndef ENGINE_STATE_FINGERPRINT_H
#define ENGINE_STATE_FINGERPRINT_H

#include <stdint.h>

#include "engine/engine_internal.h"

uint64_t state_fingerprint(const struct engine_model *m);

#endif
