/* The is...() methods of strings. */
#include "base/utf8.h"
#include "text/template/jinja_methods.h"
#include "text/template/jinja_unicode.h"

static bool all_chars(const struct jstr *s, bool (*test)(uint32_t), bool empty)
{
    for (size_t at = 0; at < s->len;) {
        uint32_t c;
        at += utf8_decode(s->ptr + at, s->len - at, &c);
        if (!test(c))
            return false;
    }
    return s->len ? true : empty;
}

static bool is_alnum(uint32_t c)
{
    return junicode_is_alpha(c) || junicode_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

#define CLASS_METHOD(name, condition)                                      \
    struct jv name(struct jinja *r, struct jv self, struct jv *arg) \
    {                                                                      \
        (void)r;                                                           \
        (void)arg;                                                         \
        return jv_bool(condition);                                         \
    }

CLASS_METHOD(method_is_alpha, all_chars(self.s, junicode_is_alpha, false))
CLASS_METHOD(method_is_digit, all_chars(self.s, junicode_is_digit, false))
CLASS_METHOD(method_is_decimal, all_chars(self.s, junicode_is_decimal, false))
CLASS_METHOD(method_is_numeric, all_chars(self.s, junicode_is_numeric, false))
CLASS_METHOD(method_is_alnum, all_chars(self.s, is_alnum, false))
CLASS_METHOD(method_is_space, all_chars(self.s, junicode_is_space, false))
CLASS_METHOD(method_is_printable, all_chars(self.s, junicode_is_printable, true))
CLASS_METHOD(method_is_ascii, all_chars(self.s, is_ascii, true))
CLASS_METHOD(method_is_upper, jtext_is(self.s, "upper"))
CLASS_METHOD(method_is_lower, jtext_is(self.s, "lower"))

struct jv method_is_title(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    bool cased_before = false, any = false;
    for (size_t at = 0; at < self.s->len;) {
        uint32_t c;
        at += utf8_decode(self.s->ptr + at, self.s->len - at, &c);
        bool start = junicode_is_upper(c) || junicode_is_title(c), small = junicode_is_lower(c);
        if ((start && cased_before) || (small && !cased_before))
            return jv_bool(false);
        cased_before = start || small;
        any = any || cased_before;
    }
    return jv_bool(any);
}

struct jv method_is_identifier(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    for (size_t at = 0; at < self.s->len;) {
        uint32_t c;
        bool first = at == 0;
        at += utf8_decode(self.s->ptr + at, self.s->len - at, &c);
        if (c != '_' && !(first ? junicode_is_alpha(c) : junicode_is_word(c)))
            return jv_bool(false);
    }
    return jv_bool(self.s->len > 0);
}
