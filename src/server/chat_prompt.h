/* chat_prompt: a conversation in OpenAI's form to prompt ids, through the model's template. */
#ifndef SERVER_CHAT_PROMPT_H
#define SERVER_CHAT_PROMPT_H

#include <jansson.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

struct exchange;

/* The exchange holds its model. `body` is the request; *param names the field that an error is
 * about, or stays NULL. */
MUST_CHECK enum status chat_prompt_tokens(const struct exchange *, const json_t *body,
                                          struct token_list *out, const char **param,
                                          struct error *err);

#endif
