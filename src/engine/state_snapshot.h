/* state_snapshot: the bytes of a sequence's state, piece after piece in the order of the layout.
 *
 *   page   piece 0: keys, values | piece 1: keys, values | ...   (pieces of one kind only)
 *   slot   piece 0 | piece 1 | ...                               (fixed pieces)
 *
 * Written once over the layout, so no family can forget a piece. The bytes are those of the
 * device: they mean something only to a pool of the same model, types and device.
 * Threads: the engine thread. */
#ifndef ENGINE_STATE_SNAPSHOT_H
#define ENGINE_STATE_SNAPSHOT_H

#include <stdint.h>

#include "base/error.h"
#include "engine/state_pool.h"

/* Bytes of one page of that kind (PAGED, WINDOW) or of one slot (FIXED). */
int64_t state_snapshot_bytes(const struct state_pool *p, enum state_kind kind);
MUST_CHECK enum status state_snapshot_save(const struct state_pool *p, enum state_kind kind,
                                           int32_t index, uint8_t *out, struct error *err);
MUST_CHECK enum status state_snapshot_load(struct state_pool *p, enum state_kind kind,
                                           int32_t index, const uint8_t *bytes, struct error *err);

#endif
