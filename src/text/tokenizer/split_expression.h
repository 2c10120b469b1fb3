/* split_expression: Oniguruma's syntax to PCRE2's, where the two differ.
 *
 *   [A&&[B]], [A&&[^B]]   class intersection: (?:(?=[B])[A]), PCRE2 would read two '&'
 *   \p{Han}               the script; PCRE2 (10.40 and later) would take script extensions
 *   \w, \W                with marks and all connectors; PCRE2 has letters, digits and '_'
 * Nested classes of another form, \h, \R, \X, \K, subroutine calls and the inline flags m, s, x
 * are refused: they mean something else in PCRE2 or nothing that was tried. */
#ifndef TEXT_SPLIT_EXPRESSION_H
#define TEXT_SPLIT_EXPRESSION_H

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#define SPLIT_EXPRESSION_MAX ((size_t)64 << 10)

MUST_CHECK enum status split_expression_rewrite(struct str pattern, struct strbuf *out,
                                                struct error *err);

#endif
