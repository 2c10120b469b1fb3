/* memory_lock: keeps a loaded model in RAM (--mlock), or says which limit forbids it. */
#ifndef ENGINE_MEMORY_LOCK_H
#define ENGINE_MEMORY_LOCK_H

#include "base/error.h"
#include "engine/engine_internal.h"

MUST_CHECK enum status memory_lock_model(const struct engine_model *m, struct error *err);

#endif
