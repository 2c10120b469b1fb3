/* answer: from a row of logits to the events of a request: draw, stop rules, text.
 * Threads: the engine thread. */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include <stdbool.h>

#include "engine/request.h"
#include "engine/sampling.h"

/* Draws the next token of r from its logits and publishes the event (the ring must have room).
 * True: the request is over, *finish says how; FINISH_ERROR fills *err. */
bool answer_token(struct request *r, const float *logits, struct sampler_scratch *scratch,
                  enum finish_reason *finish, struct error *err);

/* A row of the prompt was read: the caller's logits sink, and the echo of token `index + 1` (of
 * token 0 too when index is 0). Two ring entries must be free with echo_logprobs. False: the row
 * holds no finite logit; *err is filled. */
bool answer_prompt_row(struct request *r, int32_t index, const float *logits,
                       struct sampler_scratch *scratch, struct error *err);

#endif
