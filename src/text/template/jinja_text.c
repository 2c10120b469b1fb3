/* Text operations that filters and methods share. Every piece of the result keeps the origin of
 * the piece it was made from. */
#include "base/utf8.h"
#include "text/template/jinja_library.h"
#include "text/template/jinja_unicode.h"

static void put_converted(struct jbuild *b, const uint32_t *out, size_t n, bool is_value)
{
    for (size_t i = 0; i < n; i++)
        jbuild_char(b, out[i], is_value);
}

/* Whether a capital sigma at `at` ends a word, so that its small form is the final one. */
static bool is_final_sigma(const struct jstr *s, size_t at, size_t after)
{
    bool before = false;
    uint32_t c;
    for (size_t i = 0; i < at;) {
        i += utf8_decode(s->ptr + i, s->len - i, &c);
        if (!junicode_is_case_ignorable(c))
            before = junicode_is_cased(c);
    }
    if (!before)
        return false;
    while (after < s->len) {
        after += utf8_decode(s->ptr + after, s->len - after, &c);
        if (!junicode_is_case_ignorable(c))
            return !junicode_is_cased(c);
    }
    return true;
}

static void put_lower(struct jbuild *b, const struct jstr *s, size_t at, size_t n, uint32_t c,
                      bool is_value)
{
    uint32_t out[3];
    if (c == 0x3A3)
        jbuild_char(b, is_final_sigma(s, at, at + n) ? 0x3C2 : 0x3C3, is_value);
    else
        put_converted(b, out, junicode_lower(c, out), is_value);
}

static struct jv finish_like(struct jbuild *b, const struct jstr *s)
{
    struct jv v = jbuild_finish(b);
    if (!JV_IS_FAILURE(v))
        v.s->markup = s->markup;
    return v;
}

enum casing_mode { CASE_UPPER, CASE_LOWER, CASE_FOLD, CASE_SWAP, CASE_CAPITALIZE, CASE_TITLE,
                   CASE_WORDS };

static void convert_char(struct jbuild *b, enum casing_mode mode, const struct jstr *s, size_t at,
                         size_t n, uint32_t c, bool start)
{
    uint32_t out[3];
    size_t until;
    bool is_value = jstr_value_at(s, at, &until);
    bool title = start && (mode == CASE_CAPITALIZE || mode == CASE_TITLE);
    if (mode == CASE_UPPER || (mode == CASE_SWAP && junicode_is_lower(c)) ||
        (start && mode == CASE_WORDS))
        put_converted(b, out, junicode_upper(c, out), is_value);
    else if (mode == CASE_FOLD)
        put_converted(b, out, junicode_fold(c, out), is_value);
    else if (title)
        put_converted(b, out, junicode_title(c, out), is_value);
    else if (mode == CASE_SWAP && !junicode_is_upper(c))
        jbuild_char(b, c, is_value);
    else
        put_lower(b, s, at, n, c, is_value);
}

static struct jv convert(struct jinja *r, struct jstr *s, enum casing_mode mode)
{
    struct jbuild b;
    jbuild_init(&b, r, s->len);
    bool start = true;
    if (!jinja_step(r, s->len / 32))
        return (struct jv){ .kind = JV_FAILURE };
    for (size_t at = 0; at < s->len && !b.failed;) {
        uint32_t c;
        size_t n = utf8_decode(s->ptr + at, s->len - at, &c);
        convert_char(&b, mode, s, at, n, c, start);
        start = mode == CASE_TITLE && !junicode_is_cased(c);
        at += n;
    }
    return finish_like(&b, s);
}

struct jv jtext_upper(struct jinja *r, struct jstr *s)
{
    return convert(r, s, CASE_UPPER);
}

struct jv jtext_lower(struct jinja *r, struct jstr *s)
{
    return convert(r, s, CASE_LOWER);
}

struct jv jtext_fold(struct jinja *r, struct jstr *s)
{
    return convert(r, s, CASE_FOLD);
}

struct jv jtext_swap_case(struct jinja *r, struct jstr *s)
{
    return convert(r, s, CASE_SWAP);
}

struct jv jtext_capitalize(struct jinja *r, struct jstr *s)
{
    return convert(r, s, CASE_CAPITALIZE);
}

struct jv jtext_title(struct jinja *r, struct jstr *s)
{
    return convert(r, s, CASE_TITLE);
}

/* The filter title: words begin behind white space, dashes and opening brackets. */
struct jv jtext_title_words(struct jinja *r, struct jstr *s)
{
    struct jbuild b;
    bool start = true;
    jbuild_init(&b, r, s->len);
    for (size_t at = 0; at < s->len && !b.failed;) {
        uint32_t c;
        size_t n = utf8_decode(s->ptr + at, s->len - at, &c);
        convert_char(&b, CASE_WORDS, s, at, n, c, start);
        start = junicode_is_space(c) || (c < 0x80 && c && strchr("-([{<", (int)c));
        at += n;
    }
    return finish_like(&b, s);
}

bool jtext_is(struct jstr *s, const char *what)
{
    bool upper = what[0] == 'u', cased = false;
    for (size_t at = 0; at < s->len;) {
        uint32_t c;
        at += utf8_decode(s->ptr + at, s->len - at, &c);
        bool is_upper = junicode_is_upper(c), is_lower = junicode_is_lower(c);
        if (junicode_is_title(c) || (upper ? is_lower : is_upper))
            return false;
        cased = cased || is_upper || is_lower;
    }
    return cased;
}

/* --- stripping, replacing, padding ---------------------------------------------------------- */

static bool char_in(const struct jstr *set, const char *ptr, size_t n)
{
    if (!set) {
        uint32_t c;
        (void)utf8_decode(ptr, n, &c);
        return junicode_is_space(c);
    }
    for (size_t i = 0; i + n <= set->len; i++)
        if (((unsigned char)set->ptr[i] & 0xC0) != 0x80 && memcmp(set->ptr + i, ptr, n) == 0)
            return true;
    return false;
}

struct jv jtext_strip(struct jinja *r, struct jstr *s, const struct jstr *chars, bool left,
                      bool right)
{
    size_t from = 0, to = s->len;
    uint32_t c;
    while (left && from < to) {
        size_t n = utf8_decode(s->ptr + from, to - from, &c);
        if (!char_in(chars, s->ptr + from, n))
            break;
        from += n;
    }
    while (right && to > from) {
        size_t start = to - 1;
        while (start > from && ((unsigned char)s->ptr[start] & 0xC0) == 0x80)
            start--;
        if (!char_in(chars, s->ptr + start, to - start))
            break;
        to = start;
    }
    if (!jinja_step(r, (s->len - (to - from)) / 64))
        return (struct jv){ .kind = JV_FAILURE };
    return jv_slice(r, s, from, to);
}

/* `to` between all characters, and at both ends. */
static struct jv replace_nothing(struct jinja *r, struct jstr *s, const struct jstr *to,
                                 int64_t count)
{
    struct jbuild b;
    size_t at = 0;
    jbuild_init(&b, r, s->len);
    for (int64_t i = 0; !b.failed && jinja_step(r, 1); i++) {
        if (i < count)
            jbuild_str(&b, to);
        if (at >= s->len || i >= count)
            break;
        uint32_t c;
        size_t n = utf8_decode(s->ptr + at, s->len - at, &c);
        jbuild_add(&b, s, at, at + n);
        at += n;
    }
    jbuild_add(&b, s, at, s->len);
    return finish_like(&b, s);
}

struct jv jtext_replace(struct jinja *r, struct jstr *s, const struct jstr *from,
                        const struct jstr *to, int64_t count)
{
    if (count < 0)
        count = INT64_MAX;
    if (from->len == 0)
        return replace_nothing(r, s, to, count);
    size_t at = 0, found;
    if (count == 0 || (found = str_find(jstr_str(s), jstr_str(from), 0)) == STR_NONE)
        return jinja_step(r, s->len / 256) ? jv_of_str(s) : (struct jv){ .kind = JV_FAILURE };
    struct jbuild b;
    jbuild_init(&b, r, s->len);
    for (; found != STR_NONE && count > 0 && !b.failed && jinja_step(r, 1); count--) {
        jbuild_add(&b, s, at, found);
        jbuild_str(&b, to);
        at = found + from->len;
        found = str_find(jstr_str(s), jstr_str(from), at);
    }
    jbuild_add(&b, s, at, s->len);
    return finish_like(&b, s);
}

struct jv jtext_pad(struct jinja *r, struct jstr *s, size_t left, size_t right, uint32_t fill)
{
    struct jbuild b;
    if (left > JINJA_MAX_OUTPUT_BYTES || right > JINJA_MAX_OUTPUT_BYTES ||
        !jinja_step(r, (left + right) / 16))
        return jv_fail(r, JINJA_FAILURE_LIMIT, "a text is padded to more than %u MiB",
                       JINJA_MAX_OUTPUT_BYTES >> 20);
    jbuild_init(&b, r, s->len + left + right);
    for (size_t i = 0; i < left && !b.failed; i++)
        jbuild_char(&b, fill, false);
    jbuild_str(&b, s);
    for (size_t i = 0; i < right && !b.failed; i++)
        jbuild_char(&b, fill, false);
    return finish_like(&b, s);
}

/* --- splitting ------------------------------------------------------------------------------ */

static size_t line_end(const struct jstr *s, size_t at, size_t *n)
{
    for (; at < s->len; at += *n) {
        uint32_t c;
        *n = utf8_decode(s->ptr + at, s->len - at, &c);
        if (c == '\r' && at + 1 < s->len && s->ptr[at + 1] == '\n')
            *n = 2;
        if ((c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
            c == 0x2029)
            return at;
    }
    *n = 0;
    return s->len;
}

struct jv jtext_lines(struct jinja *r, struct jstr *s, bool keep_ends)
{
    struct jlist *l = jlist_new(r, 4);
    for (size_t at = 0; l && at < s->len;) {
        size_t n, end = line_end(s, at, &n);
        JV_TRY(line, jv_slice(r, s, at, keep_ends ? end + n : end));
        if (!jlist_push(r, l, line) || !jinja_step(r, 1))
            return (struct jv){ .kind = JV_FAILURE };
        at = end + n;
    }
    return l ? jv_of_list(l) : jv_no_memory(r);
}

struct jv jtext_words(struct jinja *r, struct jstr *s)
{
    struct jlist *l = jlist_new(r, 4);
    for (size_t at = 0; l && at < s->len;) {
        uint32_t c;
        size_t start = at, n = 0;
        while (at < s->len) {
            n = utf8_decode(s->ptr + at, s->len - at, &c);
            if (junicode_is_space(c))
                break;
            at += n;
        }
        if (at > start) {
            JV_TRY(word, jv_slice(r, s, start, at));
            if (!jlist_push(r, l, word) || !jinja_step(r, 1))
                return (struct jv){ .kind = JV_FAILURE };
        }
        at += at < s->len ? n : 0;
    }
    return l ? jv_of_list(l) : jv_no_memory(r);
}

/* --- HTML ----------------------------------------------------------------------------------- */

struct jv jtext_escape(struct jinja *r, struct jstr *s)
{
    struct jbuild b;
    jbuild_init(&b, r, s->len);
    size_t plain = 0;
    for (size_t i = 0; i < s->len && !b.failed; i++) {
        const char *text = s->ptr[i] == '&'    ? "&amp;"
                           : s->ptr[i] == '<'  ? "&lt;"
                           : s->ptr[i] == '>'  ? "&gt;"
                           : s->ptr[i] == '"'  ? "&#34;"
                           : s->ptr[i] == '\'' ? "&#39;"
                                               : NULL;
        size_t until;
        if (!text)
            continue;
        jbuild_add(&b, s, plain, i);
        jbuild_puts(&b, text, jstr_value_at(s, i, &until));
        plain = i + 1;
    }
    jbuild_add(&b, s, plain, s->len);
    struct jv v = jbuild_finish(&b);
    if (!JV_IS_FAILURE(v))
        v.s->markup = true;
    return v;
}
