/* render_prompt: a conversation to prompt ids through a model's own template and vocabulary.
 * Threads: any; the model's text parts are immutable. */
#ifndef ENGINE_RENDER_PROMPT_H
#define ENGINE_RENDER_PROMPT_H

#include <jansson.h>

#include "base/error.h"
#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

/* `request` is what chat_template_render() takes: messages, and variables of the template. Text
 * that came from values forms no control token unless parse_special. Appends to *out. */
MUST_CHECK enum status render_prompt(const struct engine_model_info *info, const json_t *request,
                                     bool parse_special, struct token_list *out,
                                     struct error *err);

#endif
