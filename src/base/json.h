/* json: what jansson lacks for untrusted and Python-flavoured JSON.
 *
 * json_parse() first repairs what jansson would refuse as a whole (ill-formed UTF-8 and lone
 * surrogate escapes become U+FFFD, a BOM is skipped), checks the depth (256), and takes integers
 * up to 2^64-1: one beyond 2^63-1 becomes a real, which has lost its last digits: json_get_u64()
 * finds them in the text. A larger one is an error that names its key. Errors give line and
 * column. The text may hold NUL only inside strings, as \u0000, and never in a key.
 * Ownership: the result is a jansson reference of the caller. Threads: no shared state. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#define JSON_MAX_DEPTH 256

enum json_flags {
    JSON_STRICT_UTF8 = 1,     /* ill-formed UTF-8 is an error (metadata), not repaired */
    JSON_UNIQUE_KEYS = 2,     /* a repeated key is an error; otherwise the last one wins */
    JSON_PYTHON_NUMBERS = 4,  /* NaN, Infinity and -Infinity, which Python writes, become null */
};

MUST_CHECK enum status json_parse(struct str text, unsigned flags, json_t **out, struct error *err);
MUST_CHECK enum status json_parse_file(const char *path, size_t max_bytes, unsigned flags,
                                       json_t **out, struct error *err);

/* Appends compact JSON ("," and ":" without blanks) with numbers as Python prints them. */
void json_write(struct strbuf *out, const json_t *value);
void json_write_string(struct strbuf *out, struct str s); /* with quotes; input must be UTF-8 */

/* The number under `key` of `object`, exactly, where `text` is what `object`, the outermost value,
 * was parsed from. False: absent, or no integer from 0 to 2^64-1. */
bool json_get_u64(struct str text, const json_t *object, const char *key, uint64_t *out);

struct str json_str(const json_t *string_value); /* borrowed; keeps NUL; {NULL,0} if not a string */

#endif
