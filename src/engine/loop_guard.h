/* loop_guard: whether an answer has begun to repeat itself without end.
 *
 * It has when its last tokens are one passage of at most 256 tokens, at least four times over and
 * for at least 256 tokens. Whether to look at all is a setting: a list of a thousand equal rows is
 * no fault. A pure function of the tokens, so batching and drafting change nothing. */
#ifndef ENGINE_LOOP_GUARD_H
#define ENGINE_LOOP_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define LOOP_GUARD_PERIOD 256
#define LOOP_GUARD_REPEATS 4
#define LOOP_GUARD_SPAN 256

bool loop_guard_sees(const int32_t *tokens, int32_t n);

#endif
