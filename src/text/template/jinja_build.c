/* Text under construction, with the spans that came from values. */
#include "base/utf8.h"
#include "text/template/jinja_value.h"

void jbuild_init(struct jbuild *b, struct jinja *r, size_t expected)
{
    *b = (struct jbuild){ .r = r };
    if (expected) {
        b->ptr = jinja_alloc(r, expected, 1);
        b->capacity = b->ptr ? expected : 0;
        b->failed = !b->ptr;
    }
}

static bool build_reserve(struct jbuild *b, size_t n)
{
    if (b->failed)
        return false;
    if (n > JINJA_MAX_OUTPUT_BYTES - b->len) {
        (void)jv_fail(b->r, JINJA_FAILURE_LIMIT, "a text is longer than %u MiB",
                      JINJA_MAX_OUTPUT_BYTES >> 20);
        b->failed = true;
        return false;
    }
    if (b->len + n <= b->capacity)
        return true;
    size_t capacity = MAX(b->len + n, 2 * b->capacity);
    char *grown = jinja_alloc(b->r, MAX(capacity, 64), 1);
    if (!grown) {
        b->failed = true;
        return false;
    }
    if (b->len)
        memcpy(grown, b->ptr, b->len);
    b->ptr = grown;
    b->capacity = MAX(capacity, 64);
    return true;
}

static void build_span(struct jbuild *b, size_t from, size_t to)
{
    if (b->failed || from == to)
        return;
    if (b->n_spans && b->spans[b->n_spans - 1].to == from) {
        b->spans[b->n_spans - 1].to = to;
        return;
    }
    if (b->n_spans == b->span_capacity) {
        size_t capacity = b->span_capacity ? 2 * b->span_capacity : 4;
        struct jinja_span *grown = jinja_alloc(b->r, capacity, sizeof *grown);
        if (!grown) {
            b->failed = true;
            return;
        }
        if (b->n_spans)
            memcpy(grown, b->spans, b->n_spans * sizeof *grown);
        b->spans = grown;
        b->span_capacity = capacity;
    }
    b->spans[b->n_spans++] = (struct jinja_span){ from, to };
}

void jbuild_bytes(struct jbuild *b, const char *ptr, size_t n, bool is_value)
{
    if (n == 0 || !build_reserve(b, n))
        return;
    memcpy(b->ptr + b->len, ptr, n);
    if (is_value)
        build_span(b, b->len, b->len + n);
    b->len += n;
}

void jbuild_puts(struct jbuild *b, const char *text, bool is_value)
{
    jbuild_bytes(b, text, strlen(text), is_value);
}

void jbuild_add(struct jbuild *b, const struct jstr *s, size_t from, size_t to)
{
    while (from < to) {
        size_t until;
        bool is_value = jstr_value_at(s, from, &until);
        until = MIN(until, to);
        jbuild_bytes(b, s->ptr + from, until - from, is_value);
        from = until;
    }
}

void jbuild_str(struct jbuild *b, const struct jstr *s)
{
    if (s->source == JSTR_MIXED)
        jbuild_add(b, s, 0, s->len);
    else
        jbuild_bytes(b, s->ptr, s->len, s->source == JSTR_VALUE);
}

void jbuild_char(struct jbuild *b, uint32_t code_point, bool is_value)
{
    char bytes[4];
    size_t n = utf8_encode_one(code_point, bytes);
    if (n == 0)
        n = utf8_encode_one(0xFFFD, bytes);
    jbuild_bytes(b, bytes, n, is_value);
}

struct jv jbuild_finish(struct jbuild *b)
{
    if (b->failed || !jinja_step(b->r, b->len / 256))
        return (struct jv){ .kind = JV_FAILURE };
    struct jstr *s = jinja_alloc(b->r, 1, sizeof *s);
    if (!s)
        return jv_no_memory(b->r);
    bool whole = b->n_spans == 1 && b->spans[0].from == 0 && b->spans[0].to == b->len;
    *s = (struct jstr){ .ptr = b->ptr ? b->ptr : "", .len = b->len, .n_chars = JSTR_UNCOUNTED,
                        .spans = b->spans, .n_spans = b->n_spans,
                        .source = b->n_spans == 0 ? JSTR_OWN : whole ? JSTR_VALUE : JSTR_MIXED };
    return jv_of_str(s);
}

/* --- concatenation --------------------------------------------------------------------------
 * A text that grows piece by piece (ns.out = ns.out ~ piece) must not cost the square of its
 * length: the first growth moves it to a buffer with room behind it, and the next piece goes
 * into that room when the text still ends where the buffer does. Older, shorter strings keep
 * pointing at the same bytes, which never change. */

static bool spans_append(struct jinja *r, struct jbuffer *buffer, size_t from, size_t to)
{
    if (buffer->n_spans && buffer->spans[buffer->n_spans - 1].to == from) {
        buffer->spans[buffer->n_spans - 1].to = to;
        return true;
    }
    if (buffer->n_spans == buffer->span_capacity) {
        size_t capacity = buffer->span_capacity ? 2 * buffer->span_capacity : 8;
        struct jinja_span *grown = jinja_alloc(r, capacity, sizeof *grown);
        if (!grown)
            return false;
        if (buffer->n_spans)
            memcpy(grown, buffer->spans, buffer->n_spans * sizeof *grown);
        buffer->spans = grown;
        buffer->span_capacity = capacity;
    }
    buffer->spans[buffer->n_spans++] = (struct jinja_span){ from, to };
    return true;
}

static bool spans_of(struct jinja *r, struct jbuffer *buffer, const struct jstr *s, size_t base)
{
    if (s->source == JSTR_VALUE)
        return s->len == 0 || spans_append(r, buffer, base, base + s->len);
    for (size_t i = 0; s->source == JSTR_MIXED && i < s->n_spans; i++)
        if (!spans_append(r, buffer, base + s->spans[i].from,
                          base + MIN(s->spans[i].to, s->len)))
            return false;
    return true;
}

/* Moves `a` to a new buffer with room for `needed` bytes, and for more if it grew before. */
static struct jbuffer *buffer_new(struct jinja *r, const struct jstr *a, size_t needed, char **ptr)
{
    struct jbuffer *buffer = jinja_alloc(r, 1, sizeof *buffer);
    size_t capacity = a->buffer ? 2 * needed : needed;
    *ptr = buffer ? jinja_alloc(r, capacity, 1) : NULL;
    if (!*ptr)
        return NULL;
    *buffer = (struct jbuffer){ .used = a->len, .capacity = capacity };
    if (a->len)
        memcpy(*ptr, a->ptr, a->len);
    return spans_of(r, buffer, a, 0) ? buffer : NULL;
}

static struct jv buffer_string(struct jinja *r, struct jbuffer *buffer, const char *ptr)
{
    struct jstr *s = jinja_alloc(r, 1, sizeof *s);
    if (!s)
        return jv_no_memory(r);
    size_t len = buffer->used;
    bool whole = buffer->n_spans == 1 && buffer->spans[0].from == 0 && buffer->spans[0].to == len;
    *s = (struct jstr){ .ptr = ptr, .len = len, .n_chars = JSTR_UNCOUNTED, .buffer = buffer,
                        .spans = buffer->spans, .n_spans = buffer->n_spans,
                        .source = buffer->n_spans == 0 ? JSTR_OWN
                                  : whole              ? JSTR_VALUE
                                                       : JSTR_MIXED };
    return jv_of_str(s);
}

struct jv jv_concat(struct jinja *r, struct jstr *const *parts, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += parts[i]->len; /* at most the output limit each, and few */
    while (n > 1 && parts[0]->len == 0) {
        parts++;
        n--;
    }
    struct jstr *a = parts[0];
    if (len == a->len)
        return jv_of_str(a);
    if (len > JINJA_MAX_OUTPUT_BYTES)
        return jv_fail(r, JINJA_FAILURE_LIMIT, "a text is longer than %u MiB",
                       JINJA_MAX_OUTPUT_BYTES >> 20);
    struct jbuffer *buffer = a->buffer;
    char *ptr = (char *)(uintptr_t)a->ptr; /* a buffer of this render: ours to extend */
    if (!buffer || buffer->used != a->len || buffer->capacity < len) {
        if (!jinja_step(r, len / 256))
            return (struct jv){ .kind = JV_FAILURE };
        buffer = buffer_new(r, a, len, &ptr);
    }
    for (size_t i = 1; buffer && i < n; i++) {
        memcpy(ptr + buffer->used, parts[i]->ptr, parts[i]->len);
        if (!spans_of(r, buffer, parts[i], buffer->used))
            return jv_no_memory(r);
        buffer->used += parts[i]->len;
    }
    return buffer ? buffer_string(r, buffer, ptr) : jv_no_memory(r);
}
