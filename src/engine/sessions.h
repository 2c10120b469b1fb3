/* sessions: what engine.h offers about named sessions.
 *
 * Threads: any. Changes hold the device lock, since files and pages are the engine thread's. */
#ifndef ENGINE_SESSIONS_H
#define ENGINE_SESSIONS_H

#include "engine/engine_internal.h"

/* UNSUPPORTED: there is no folder to keep them in. */
MUST_CHECK enum status sessions_available(const struct engine *e, struct error *err);
/* DIVERGED: the prompt's text does not begin with that of the session which it has claimed. */
MUST_CHECK enum status sessions_check_extended(const struct engine *e, const struct request *r,
                                               struct error *err);

#endif
