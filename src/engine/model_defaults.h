/* model_defaults: what a model's files say about how it wants to be sampled and where it ends.
 *
 * Precedence: built-in, then GGUF general.sampling.*, then generation_config.json. A value out of
 * range is reported and not used. End tokens are the tokenizer's, those of generation_config.json
 * and config.json, and the eos, eot and eom ids of GGUF metadata. Threads: any. */
#ifndef ENGINE_MODEL_DEFAULTS_H
#define ENGINE_MODEL_DEFAULTS_H

#include <stdint.h>

#include "base/log.h"
#include "engine/sampling.h"
#include "text/tokenizer/tokenizer.h"

struct model_source;

struct model_defaults {
    struct sampling sampling;
    const char *source[SAMPLING_N_FIELDS]; /* "built-in", "gguf", "generation_config" */
    int32_t max_tokens;                    /* 0: none stated */
};
void model_defaults_read(struct model_defaults *d, const struct model_source *source,
                         const struct log_sink *log);

/* Without repetitions. `tokenizer` NULL: the vocabulary of a GGUF is searched for well-known turn
 * ends; ids outside of [0, n_vocab) are left out. */
void model_end_tokens(const struct model_source *source, const struct tokenizer *tokenizer,
                      int32_t n_vocab, struct token_list *out);

#endif
