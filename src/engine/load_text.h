/* load_text: tokenizer and chat template of a model, or the overrides of the options. What a
 * person should know (a fallback template, a guessed pre-tokenizer) goes to the log.
 * Threads: any. */
#ifndef ENGINE_LOAD_TEXT_H
#define ENGINE_LOAD_TEXT_H

#include "base/error.h"
#include "engine/engine.h"

struct model_source;

MUST_CHECK enum status load_text(const struct engine_options *options,
                                 const struct model_source *source, struct tokenizer **tokenizer,
                                 struct chat_template **chat, struct error *err);

#endif
