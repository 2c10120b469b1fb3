#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"

void text_buffer_release(struct text_buffer *b)
{
    mem_free(b->ptr);
    *b = (struct text_buffer){ 0 };
}

void text_buffer_add(struct text_buffer *b, const char *bytes, size_t n)
{
    mem_reserve((void **)&b->ptr, &b->capacity, b->len + n, 1);
    if (n)
        memcpy(b->ptr + b->len, bytes, n);
    b->len += n;
}

enum status normalizer_init(struct normalizer *z, const struct tokenizer_spec *spec,
                            struct error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < spec->n_normalizer_steps; i++) {
        const struct normalizer_step *step = &spec->normalizer_steps[i];
        if (step->kind == NORMALIZE_REPLACE && step->from.len == 0)
            return error_set(err, STATUS_INVALID,
                             "tokenizer: normalizer step %zu replaces an empty text", i);
        total += step->from.len + step->to.len;
    }
    z->n = spec->n_normalizer_steps;
    z->steps = mem_copy(spec->normalizer_steps, z->n * sizeof *z->steps);
    char *at = z->texts = mem_alloc(total);
    for (size_t i = 0; i < z->n; i++) {
        struct str *texts[] = { &z->steps[i].from, &z->steps[i].to };
        for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
            if (texts[k]->len)
                memcpy(at, texts[k]->ptr, texts[k]->len);
            texts[k]->ptr = at;
            at += texts[k]->len;
        }
    }
    return STATUS_OK;
}

void normalizer_release(struct normalizer *z)
{
    mem_free(z->steps);
    mem_free(z->texts);
    *z = (struct normalizer){ 0 };
}

static void replace(struct str text, struct str from, struct str to, struct text_buffer *out)
{
    for (size_t i = 0; i < text.len;) {
        const char *hit = memmem(text.ptr + i, text.len - i, from.ptr, from.len);
        size_t end = hit ? (size_t)(hit - text.ptr) : text.len;
        text_buffer_add(out, text.ptr + i, end - i);
        if (hit)
            text_buffer_add(out, to.ptr, to.len);
        i = hit ? end + from.len : end;
    }
}

/* The usual case, a space that becomes U+2581, byte by byte. */
static void replace_byte(struct str text, char from, struct str to, struct text_buffer *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == from;
    mem_reserve((void **)&out->ptr, &out->capacity, out->len + text.len + n * to.len, 1);
    char *p = out->ptr + out->len;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == from) {
            memcpy(p, to.ptr, to.len);
            p += to.len;
        } else {
            *p++ = text.ptr[i];
        }
    }
    out->len = (size_t)(p - out->ptr);
}

static void lowercase(struct str text, struct text_buffer *out)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        i += utf8_decode(text.ptr + i, text.len - i, &c);
        char bytes[4];
        size_t n = utf8_encode_one((uint32_t)utf8proc_tolower((utf8proc_int32_t)c), bytes);
        text_buffer_add(out, bytes, n);
    }
}

/* True if the step changes the text, which is then in `out`. */
static bool run_step(const struct normalizer_step *step, struct str text, bool first, bool no_nfc,
                     struct text_buffer *out)
{
    switch (step->kind) {
    case NORMALIZE_NFC:
        if (no_nfc || unicode_is_composed(text))
            return false;
        unicode_compose(text, false, out);
        return true;
    case NORMALIZE_NFKC:
        if (no_nfc)
            return false;
        unicode_compose(text, true, out);
        return true;
    case NORMALIZE_LOWERCASE:
        lowercase(text, out);
        return true;
    case NORMALIZE_REPLACE:
        if (step->from.len == 1)
            replace_byte(text, step->from.ptr[0], step->to, out);
        else
            replace(text, step->from, step->to, out);
        return true;
    case NORMALIZE_PREPEND_FIRST:
        if (!first)
            return false;
        __attribute__((fallthrough));
    case NORMALIZE_PREPEND_UNLESS:
        if (str_starts(text, step->to))
            return false;
        __attribute__((fallthrough));
    case NORMALIZE_PREPEND:
        text_buffer_add(out, step->to.ptr, step->to.len);
        text_buffer_add(out, text.ptr, text.len);
        return true;
    }
    return false;
}

struct str normalizer_run(const struct normalizer *z, struct str text, bool first, bool no_nfc,
                          struct text_buffer buffers[2])
{
    unsigned target = 0;
    for (size_t i = 0; i < z->n && text.len; i++) {
        struct text_buffer *out = &buffers[target];
        out->len = 0;
        if (run_step(&z->steps[i], text, first, no_nfc, out)) {
            text = (struct str){ out->ptr, out->len };
            target ^= 1;
        }
    }
    return text;
}
