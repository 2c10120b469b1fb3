#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"

void strbuf_init(struct strbuf *b, size_t max_bytes)
{
    *b = (struct strbuf){ .max = MIN(max_bytes, SIZE_MAX / 4) };
}

void strbuf_release(struct strbuf *b)
{
    mem_free(b->ptr);
    *b = (struct strbuf){ .max = b->max };
}

void strbuf_clear(struct strbuf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->ptr)
        b->ptr[0] = 0;
}

/* Makes room for n more bytes and the NUL; false (and overflow) beyond the maximum. */
static bool reserve(struct strbuf *b, size_t n)
{
    if (n > b->max || b->len > b->max - n) {
        b->overflow = true;
        n = 0;
    }
    size_t needed = b->len + n + 1;
    if (needed > b->capacity) {
        size_t grown = MAX(b->capacity * 2, (size_t)64);
        b->capacity = MAX(MIN(grown, b->max + 1), needed);
        b->ptr = mem_resize(b->ptr, b->capacity, 1);
        b->ptr[b->len] = 0;
    }
    return !b->overflow;
}

void strbuf_append(struct strbuf *b, const void *bytes, size_t n)
{
    if (b->overflow || !reserve(b, n))
        return;
    if (n)
        memcpy(b->ptr + b->len, bytes, n);
    b->len += n;
    b->ptr[b->len] = 0;
}

void strbuf_add(struct strbuf *b, struct str s)
{
    strbuf_append(b, s.ptr, s.len);
}

void strbuf_puts(struct strbuf *b, const char *text)
{
    strbuf_append(b, text, strlen(text));
}

void strbuf_putc(struct strbuf *b, char c)
{
    if (b->len + 1 < b->capacity && b->len < b->max && !b->overflow) {
        b->ptr[b->len++] = c;
        b->ptr[b->len] = 0;
    } else {
        strbuf_append(b, &c, 1);
    }
}

void strbuf_put_utf8(struct strbuf *b, uint32_t code_point)
{
    char bytes[4];
    size_t n = utf8_encode_one(code_point, bytes);
    if (n == 0)
        n = utf8_encode_one(0xFFFD, bytes);
    strbuf_append(b, bytes, n);
}

void strbuf_printf(struct strbuf *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0 || b->overflow || !reserve(b, (size_t)n))
        return;
    va_start(arguments, format);
    vsnprintf(b->ptr + b->len, (size_t)n + 1, format, arguments);
    va_end(arguments);
    b->len += (size_t)n;
}

struct str strbuf_str(const struct strbuf *b)
{
    return (struct str){ b->ptr ? b->ptr : "", b->len };
}

char *strbuf_detach(struct strbuf *b)
{
    char *text = b->ptr ? b->ptr : mem_string("", 0);
    *b = (struct strbuf){ .max = b->max };
    return text;
}
