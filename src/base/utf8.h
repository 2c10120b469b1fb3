/* utf8: decoding that never trusts its input.
 * Source: Unicode 15.0, section 3.9, tables 3-7 and 3-8 (maximal ill-formed subparts). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/strbuf.h"

/* Decodes the first character of a non-empty text. Returns its length in bytes (1 to 4) and sets
 * *code_point; an ill-formed start returns the length of the maximal ill-formed part and sets
 * *code_point to UTF8_BAD. */
#define UTF8_BAD 0xFFFFFFFFu
size_t utf8_decode(const char *bytes, size_t n, uint32_t *code_point);

size_t utf8_encode_one(uint32_t code_point, char out[4]); /* bytes written, 0: no scalar value */
bool utf8_valid(struct str s);
size_t utf8_count(struct str s); /* characters of a valid text */

/* Length of the longest prefix that does not end inside a character that more bytes could
 * complete: what a stream may send now. */
size_t utf8_complete(struct str s);

/* Appends s with U+FFFD for each maximal ill-formed part. */
void utf8_repair(struct strbuf *out, struct str s);

#endif
