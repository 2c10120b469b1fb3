/* number: text to numbers and back, exactly and without the locale. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/strbuf.h"

/* The whole of s must be the number; false otherwise or when it does not fit. */
bool number_parse_i64(struct str s, int64_t *out);
bool number_parse_u64(struct str s, uint64_t *out);
bool number_parse_double(struct str s, double *out); /* finite decimal only */

/* As Python's repr(float): shortest digits that read back equal; 1.0, 1e+22, 1e-07, inf, nan. */
void number_put_double(struct strbuf *out, double value);

#endif
