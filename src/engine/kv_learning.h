/* kv_learning: what the balance of narrow keys (tensor/kv_balance.h) is learned from.
 *
 * When a model is loaded it reads a fixed text once, or ids without a tokenizer, in chunks that
 * change nothing of what is learned. Models whose keys keep their values as they are read nothing.
 * Threads: the loading one. */
#ifndef ENGINE_KV_LEARNING_H
#define ENGINE_KV_LEARNING_H

#include "engine/pass.h"

struct tokenizer;

/* No sequence of the pool may be open. The tokenizer may be NULL. */
MUST_CHECK enum status kv_learn(const struct model *model, const struct tokenizer *tokenizer,
                                struct state_pool *pool, struct pass_size size,
                                size_t scratch_bytes, struct error *err);

#endif
