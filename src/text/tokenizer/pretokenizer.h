/* pretokenizer: splits a text by the published expressions, run by PCRE2 with JIT.
 *
 * The expressions were written for Oniguruma. What PCRE2 reads differently is rewritten to the
 * same meaning or refused, see split_expression.h. Immutable after pretokenizer_init(); what a
 * split works with is in a state that belongs to one thread at a time. */
#ifndef TEXT_PRETOKENIZER_H
#define TEXT_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer_spec.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define PRETOKENIZER_MAX_STEPS 16

struct split_rule {
    pcre2_code *code; /* NULL: literal */
    char *literal;
    size_t literal_len;
    enum split_behavior behavior;
    bool jit;
};

struct pretokenizer {
    struct split_rule rules[PRETOKENIZER_MAX_STEPS];
    unsigned n;
};

struct pretokenizer_state {
    pcre2_match_data *match[PRETOKENIZER_MAX_STEPS];
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

MUST_CHECK enum status pretokenizer_init(struct pretokenizer *p, const struct tokenizer_spec *spec,
                                         struct error *err);
void pretokenizer_release(struct pretokenizer *p);
void pretokenizer_state_init(struct pretokenizer_state *s, const struct pretokenizer *p);
void pretokenizer_state_release(struct pretokenizer_state *s);

/* Receives the pieces in order; anything but OK ends the split and is returned. */
typedef enum status (*pretokenizer_piece_fn)(void *user, struct str piece, struct error *err);

/* `text` is valid UTF-8. */
MUST_CHECK enum status pretokenizer_split(const struct pretokenizer *p,
                                          struct pretokenizer_state *s, struct str text,
                                          pretokenizer_piece_fn piece, void *user,
                                          struct error *err);

#endif
