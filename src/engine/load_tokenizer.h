/* load_tokenizer: the tokenizer of a model: from the metadata of a GGUF (tokenizer.ggml.*) or from
 * the tokenizer.json of a folder.
 *
 * `notice` (may be NULL) receives what a person should know, one line each: an unknown
 * pre-tokenizer that was taken for another, added defaults. Nothing of the file is kept. */
#ifndef ENGINE_LOAD_TOKENIZER_H
#define ENGINE_LOAD_TOKENIZER_H

#include "base/error.h"
#include "base/strbuf.h"
#include "text/tokenizer/tokenizer.h"

struct gguf;

MUST_CHECK enum status load_tokenizer_gguf(const struct gguf *file, struct tokenizer **out,
                                           struct strbuf *notice, struct error *err);

/* PATH: tokenizer.json, a folder that holds one, or a GGUF (also one without tensors). */
MUST_CHECK enum status load_tokenizer_path(const char *path, struct tokenizer **out,
                                           struct strbuf *notice, struct error *err);

#endif
