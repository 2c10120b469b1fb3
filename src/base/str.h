/* str: borrowed bytes with a length. Never stored past the call that got it unless the
 * comment there says so; may hold NUL; usually UTF-8. Print with "%.*s", STR_ARG(s). */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })
#define STR_ARG(s) (int)(s).len, (s).ptr

static inline struct str str_of(const char *c)
{
    return (struct str){ c, c ? strlen(c) : 0 };
}
static inline struct str str_slice(struct str s, size_t from, size_t to)
{
    return (struct str){ s.ptr + from, to - from };
}
static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
static inline bool str_is(struct str a, const char *c)
{
    return str_eq(a, str_of(c));
}

bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_compare(struct str a, struct str b);            /* byte order, like memcmp */
#define STR_NONE ((size_t)-1)
size_t str_find(struct str s, struct str needle, size_t from); /* STR_NONE: absent */
struct str str_trim(struct str s);                      /* ASCII white space on both sides */
uint64_t str_hash(struct str s); /* keyed per process: safe on hostile keys */

#endif
