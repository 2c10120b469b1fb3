/* strbuf: a growing byte buffer with a maximum, for every text built from outside input.
 *
 * Appending beyond `max` sets `overflow` and drops the bytes: check once at the end.
 * The contents always end with a NUL that is not counted. Threads: one at a time. */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/str.h"

struct strbuf {
    char *ptr; /* NULL only before the first append */
    size_t len, capacity, max;
    bool overflow;
};

void strbuf_init(struct strbuf *b, size_t max_bytes);
void strbuf_release(struct strbuf *b);
void strbuf_clear(struct strbuf *b); /* keeps the memory */
void strbuf_append(struct strbuf *b, const void *bytes, size_t n);
void strbuf_add(struct strbuf *b, struct str s);
void strbuf_puts(struct strbuf *b, const char *text);
void strbuf_putc(struct strbuf *b, char c);
void strbuf_put_utf8(struct strbuf *b, uint32_t code_point);
void strbuf_printf(struct strbuf *b, const char *format, ...) PRINTF_LIKE(2, 3);
struct str strbuf_str(const struct strbuf *b); /* borrowed until the next append */
char *strbuf_detach(struct strbuf *b);         /* the caller frees with mem_free */

#endif
