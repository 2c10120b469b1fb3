/* tokenizer_json: reads a Hugging Face tokenizer.json.
 *
 * What is there and not understood (a normalizer, a pre-tokenizer, an expression that PCRE2 would
 * read differently) is refused by name: ids that are silently wrong are worse than none.
 * `config` is the text of tokenizer_config.json (names of bos, eos, pad; add_bos_token), or
 * empty. Both may be ill-formed or hostile. */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include "base/error.h"
#include "base/str.h"
#include "text/tokenizer/tokenizer.h"

MUST_CHECK enum status tokenizer_from_json(struct str text, struct str config,
                                           struct tokenizer **out, struct error *err);

#endif
