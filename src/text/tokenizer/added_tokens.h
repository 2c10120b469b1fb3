/* added_tokens: finds the spellings of added tokens (control and user-defined) in a text.
 *
 * Matching is leftmost-longest, as in the reference, in two rounds: tokens that are matched
 * before normalization, then the others. Immutable after added_tokens_init(). */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "text/template/jinja.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/tokenizer_spec.h"

struct added_rule {
    int32_t id;
    bool control, markup, strip_left, strip_right, single_word;
};

struct added_tokens {
    struct byte_trie tries[2]; /* by `normalized`; values are indexes of `rules` */
    struct added_rule *rules;
    size_t n;
    bool empty[2];
    uint64_t starts[2][65536 / 64]; /* first two bytes of every spelling */
};

/* Where added tokens may be recognized. */
struct added_query {
    struct str text;
    bool parse_control;
    bool from_template; /* spans are given: what touches one is no control and no markup token */
    const struct jinja_span *spans;
    size_t n_spans;
};

/* The next match at or behind `from` and before `to`. */
struct added_match {
    size_t from, to; /* bytes of the text, stripped white space included */
    int32_t id;
};

MUST_CHECK enum status added_tokens_init(struct added_tokens *a, const struct tokenizer_spec *spec,
                                         struct error *err);
void added_tokens_release(struct added_tokens *a);
bool added_tokens_next(const struct added_tokens *a, unsigned round, const struct added_query *q,
                       size_t from, size_t to, struct added_match *match);

/* A spelling that structures a conversation (<think>, [TOOL_CALLS], ...) rather than text; HTML
 * elements and white space are text. */
bool added_token_is_markup(struct str text);

#endif
