/* option_value: one text to one typed value, for options.c only. */
#ifndef CLI_OPTION_VALUE_H
#define CLI_OPTION_VALUE_H

#include "base/str.h"
#include "cli/options.h"

/* Stores `text` in *v by the row's kind; `who` is the spelling for messages ("--top-p" or
 * "INGOT_TOP_P"). v->source stays untouched. */
MUST_CHECK enum status option_value_read(struct option_value *v, struct str who, const char *text,
                                         struct error *err);
/* Is `text` one of the words of a "a|b|c" list? */
bool option_word_in(const char *words, struct str text);

#endif
