/* NFC and NFKC over utf8proc's tables. utf8proc's own reordering of marks is quadratic in the
 * length of a run of marks, so a run is ordered here by counting. */
#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/normalizer.h"

/* Characters that no normalization step touches and that combine with nothing before them:
 * everything below the combining marks, Kana without voice marks, Han, Hangul syllables. */
static bool is_plain(uint32_t c)
{
    if (c < 0x300)
        return true;
    if (c >= 0x3400 && c <= 0xD7A3)
        return c <= 0x9FFF || c >= 0xAC00;
    if (c >= 0x1100 && c <= 0x11FF)
        return false; /* conjoining Jamo */
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    return p->combining_class == 0 && p->decomp_seqindex == UINT16_MAX &&
           p->category != UTF8PROC_CATEGORY_MN && p->category != UTF8PROC_CATEGORY_MC &&
           p->category != UTF8PROC_CATEGORY_ME;
}

bool unicode_is_composed(struct str text)
{
    for (size_t i = 0; i < text.len;) {
        if ((uint8_t)text.ptr[i] < 0xCC) { /* below U+0300 */
            i++;
            continue;
        }
        uint32_t c;
        i += utf8_decode(text.ptr + i, text.len - i, &c);
        if (!is_plain(c))
            return false;
    }
    return true;
}

struct code_points {
    utf8proc_int32_t *items;
    size_t n, capacity;
};

static void decompose(struct str text, bool compatibility, struct code_points *out)
{
    int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    if (compatibility)
        options |= UTF8PROC_COMPAT;
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        i += utf8_decode(text.ptr + i, text.len - i, &c);
        enum { LONGEST = 32 }; /* U+FDFA becomes 18 characters */
        mem_reserve((void **)&out->items, &out->capacity, out->n + LONGEST, sizeof *out->items);
        int boundary = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, out->items + out->n,
                                                     LONGEST, (utf8proc_option_t)options,
                                                     &boundary);
        if (n <= 0 || n > LONGEST) {
            out->items[out->n] = (utf8proc_int32_t)c;
            n = 1;
        }
        out->n += (size_t)n;
    }
}

static uint8_t class_of(utf8proc_int32_t c)
{
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* Orders the marks [from, to) by their class, stably. */
static void order_run(struct code_points *p, size_t from, size_t to, struct code_points *work)
{
    size_t counts[257] = { 0 };
    bool ordered = true;
    uint8_t before = 0;
    for (size_t i = from; i < to; i++) {
        uint8_t class = class_of(p->items[i]);
        ordered &= class >= before;
        before = class;
        counts[class + 1]++;
    }
    if (ordered)
        return;
    for (size_t i = 1; i < 257; i++)
        counts[i] += counts[i - 1];
    mem_reserve((void **)&work->items, &work->capacity, to - from, sizeof *work->items);
    for (size_t i = from; i < to; i++)
        work->items[counts[class_of(p->items[i])]++] = p->items[i];
    memcpy(p->items + from, work->items, (to - from) * sizeof *work->items);
}

static void order_marks(struct code_points *p, struct code_points *work)
{
    for (size_t i = 0; i < p->n;) {
        if (p->items[i] < 0x300 || class_of(p->items[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < p->n && class_of(p->items[end]) != 0)
            end++;
        if (end - i > 1)
            order_run(p, i, end, work);
        i = end;
    }
}

static void put_stretch(struct str text, bool compatibility, struct code_points work[2],
                        struct text_buffer *out)
{
    work[0].n = 0;
    decompose(text, compatibility, &work[0]);
    order_marks(&work[0], &work[1]);
    utf8proc_ssize_t n =
        utf8proc_normalize_utf32(work[0].items, (utf8proc_ssize_t)work[0].n,
                                 (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char bytes[4];
        text_buffer_add(out, bytes, utf8_encode_one((uint32_t)work[0].items[i], bytes));
    }
}

/* Plain characters are copied; from one plain character before another kind up to the next
 * plain one goes through the tables. */
void unicode_compose(struct str text, bool compatibility, struct text_buffer *out)
{
    struct code_points work[2] = { 0 };
    if (compatibility) {
        put_stretch(text, true, work, out);
    } else {
        size_t copied = 0, last_plain = 0;
        for (size_t i = 0; i < text.len;) {
            uint32_t c;
            size_t n = utf8_decode(text.ptr + i, text.len - i, &c);
            if (is_plain(c)) {
                last_plain = i;
                i += n;
                continue;
            }
            size_t from = MAX(last_plain, copied);
            text_buffer_add(out, text.ptr + copied, from - copied);
            size_t end = i;
            do {
                end += n;
                if (end == text.len)
                    break;
                n = utf8_decode(text.ptr + end, text.len - end, &c);
            } while (!is_plain(c));
            put_stretch(str_slice(text, from, end), false, work, out);
            copied = last_plain = i = end;
        }
        text_buffer_add(out, text.ptr + copied, text.len - copied);
    }
    mem_free(work[0].items);
    mem_free(work[1].items);
}
