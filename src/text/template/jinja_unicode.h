/* jinja_unicode: characters as Python's str methods class and convert them. Pure functions. */
#ifndef TEXT_JINJA_UNICODE_H
#define TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

bool junicode_is_space(uint32_t c);
bool junicode_is_alpha(uint32_t c);
bool junicode_is_decimal(uint32_t c);
bool junicode_is_digit(uint32_t c);
bool junicode_is_numeric(uint32_t c);
bool junicode_is_upper(uint32_t c);
bool junicode_is_lower(uint32_t c);
bool junicode_is_title(uint32_t c); /* a digraph such as U+01C5 */
bool junicode_is_cased(uint32_t c);
bool junicode_is_case_ignorable(uint32_t c);
bool junicode_is_printable(uint32_t c);
bool junicode_is_word(uint32_t c); /* letters, digits, marks: part of a name */

/* Full conversions: one character becomes up to three; the count is returned. */
size_t junicode_upper(uint32_t c, uint32_t out[3]);
size_t junicode_lower(uint32_t c, uint32_t out[3]);
size_t junicode_title(uint32_t c, uint32_t out[3]);
size_t junicode_fold(uint32_t c, uint32_t out[3]);

struct str junicode_strip(struct str s, bool left, bool right); /* white space */

#endif
