#include "engine/stop_matcher.h"

#include "base/compiler.h"
#include "base/mem.h"

/* Held text is shorter than a stop string, and one token adds little; hostile vocabularies end
 * here. */
#define HELD_MAX_BYTES (16u << 20)

void stop_matcher_init(struct stop_matcher *m, const struct str *stop, int32_t n)
{
    *m = (struct stop_matcher){ 0 };
    strbuf_init(&m->held, HELD_MAX_BYTES);
    if (n <= 0)
        return;
    m->stop = mem_array(struct str, (size_t)n);
    m->given_index = mem_array(int32_t, (size_t)n);
    for (int32_t i = 0; i < n; i++)
        if (stop[i].len > 0) {
            m->stop[m->n] = (struct str){ mem_string(stop[i].ptr, stop[i].len), stop[i].len };
            m->given_index[m->n++] = i;
        }
}

void stop_matcher_release(struct stop_matcher *m)
{
    for (int32_t i = 0; i < m->n; i++)
        mem_free((void *)(uintptr_t)m->stop[i].ptr);
    mem_free(m->stop);
    mem_free(m->given_index);
    strbuf_release(&m->held);
    *m = (struct stop_matcher){ 0 };
}

static int32_t find_stop(const struct stop_matcher *m, struct str text, size_t *begin)
{
    int32_t found = -1;
    size_t found_end = 0;
    for (int32_t i = 0; i < m->n; i++) {
        size_t at = str_find(text, m->stop[i], 0);
        if (at == STR_NONE)
            continue;
        size_t end = at + m->stop[i].len;
        if (found < 0 || end < found_end || (end == found_end && at < *begin)) {
            found = i;
            found_end = end;
            *begin = at;
        }
    }
    return found;
}

/* Length of the longest end of `text` that a stop string begins with. */
static size_t possible_start(const struct stop_matcher *m, struct str text)
{
    size_t longest = 0;
    for (int32_t i = 0; i < m->n; i++) {
        size_t n = MIN(m->stop[i].len - 1, text.len);
        for (; n > longest; n--)
            if (memcmp(text.ptr + text.len - n, m->stop[i].ptr, n) == 0) {
                longest = n;
                break;
            }
    }
    return longest;
}

int32_t stop_matcher_push(struct stop_matcher *m, struct str text, struct strbuf *out)
{
    if (m->n == 0) {
        strbuf_add(out, text);
        return -1;
    }
    if (text.len == 0)
        return -1;
    strbuf_add(&m->held, text);
    struct str held = strbuf_str(&m->held);
    size_t begin = 0;
    int32_t found = find_stop(m, held, &begin);
    if (found >= 0) {
        strbuf_append(out, held.ptr, begin);
        strbuf_clear(&m->held);
        return m->given_index[found];
    }
    size_t keep = possible_start(m, held), free_bytes = held.len - keep;
    strbuf_append(out, held.ptr, free_bytes);
    memmove(m->held.ptr, held.ptr + free_bytes, keep);
    m->held.len = keep;
    if (m->held.ptr)
        m->held.ptr[keep] = '\0';
    return -1;
}

void stop_matcher_flush(struct stop_matcher *m, struct strbuf *out)
{
    strbuf_add(out, strbuf_str(&m->held));
    strbuf_clear(&m->held);
}
