/* openai_common: what the OpenAI dialects share: field errors, logprobs, message templates. */
#ifndef SERVER_OPENAI_COMMON_H
#define SERVER_OPENAI_COMMON_H

#include "server/generation.h"

/* Reads the shared fields; on failure the exchange has a 400 that names the field. */
bool openai_read_fields(struct exchange *, struct generation *);
/* One entry of choices[].logprobs.content: {token, logprob, bytes, top_logprobs}. */
json_t *openai_logprob(const struct exchange *, const struct event *);
json_t *openai_text(struct str utf8); /* JSON string; keeps NUL */
/* The text of a token as it stands, with U+FFFD for parts of characters. */
json_t *openai_token_text(const struct exchange *, int32_t token);

#endif
