/* "..." % values */
#include <math.h>

#include "text/template/jinja_spec.h"

struct percent {
    struct jinja *r;
    struct jstr *format;
    size_t at;
    struct jv values;
    size_t used;
    bool named;
};

static struct jv percent_value(struct percent *p)
{
    if (p->values.kind == JV_TUPLE) {
        if (p->used >= p->values.list->n)
            return jspec_fault(p->r, "not enough arguments for format string", 0);
        return p->values.list->items[p->used++];
    }
    if (p->used++)
        return jspec_fault(p->r, "not enough arguments for format string", 0);
    return p->values;
}

static struct jv percent_named(struct percent *p)
{
    const char *ptr = p->format->ptr;
    size_t start = ++p->at, level = 1;
    for (; p->at < p->format->len; p->at++) {
        level += ptr[p->at] == '(';
        level -= ptr[p->at] == ')';
        if (level == 0)
            break;
    }
    if (level)
        return jspec_fault(p->r, "incomplete format key", 0);
    if (p->values.kind != JV_DICT)
        return jspec_fault(p->r, "format requires a mapping", 0);
    struct jv v;
    struct str key = { ptr + start, p->at - start };
    p->at++;
    p->named = true;
    if (!jdict_get_str(p->r, p->values.dict, key, &v))
        return jv_fail(p->r, JINJA_FAILURE_VALUE, "'%.*s'", STR_ARG(key));
    return v;
}

static struct jv percent_number(struct percent *p, int *out)
{
    const struct jstr *f = p->format;
    if (p->at < f->len && f->ptr[p->at] == '*') {
        p->at++;
        JV_TRY(v, percent_value(p));
        if (!jv_is_integer(v) || jv_double(v) > 1e6 || jv_double(v) < -1e6)
            return jspec_fault(p->r, "* wants int", 0);
        *out = (int)jv_integer(v);
        return jv_none();
    }
    int n = 0;
    for (; p->at < f->len && f->ptr[p->at] >= '0' && f->ptr[p->at] <= '9'; p->at++) {
        n = n * 10 + (f->ptr[p->at] - '0');
        if (n > 1000000)
            return jspec_fault(p->r, "width or precision is too large", 0);
    }
    *out = n;
    return jv_none();
}

static struct jv percent_spec(struct percent *p, struct jspec *spec)
{
    const struct jstr *f = p->format;
    for (; p->at < f->len && f->ptr[p->at] && strchr("-+ #0", f->ptr[p->at]); p->at++) {
        char c = f->ptr[p->at];
        if (c == '-')
            spec->align = '<';
        else if (c == '#')
            spec->alternate = true;
        else if (c == '0')
            spec->zero = true;
        else if (spec->sign != '+')
            spec->sign = c;
    }
    JV_TRY(width, percent_number(p, &spec->width));
    if (spec->width < 0) {
        spec->align = '<';
        spec->width = -spec->width;
    }
    if (p->at < f->len && f->ptr[p->at] == '.') {
        p->at++;
        JV_TRY(precision, percent_number(p, &spec->precision));
        spec->precision = MAX(spec->precision, 0);
    }
    while (p->at < f->len && f->ptr[p->at] && strchr("hlL", f->ptr[p->at]))
        p->at++;
    return jv_none();
}

static struct jv percent_text(struct percent *p, struct jbuild *b, struct jspec *spec, struct jv v)
{
    struct jv text = v;
    if (spec->type == 's') {
        text = jv_to_string(p->r, v);
    } else {
        struct jbuild repr;
        jbuild_init(&repr, p->r, 0);
        jformat_repr(&repr, v, false);
        text = jbuild_finish(&repr);
    }
    if (JV_IS_FAILURE(text))
        return text;
    if (!spec->align)
        spec->align = '>';
    return jspec_text(b, spec, text.s);
}

static struct jv percent_put(struct percent *p, struct jbuild *b, struct jspec *spec, struct jv v)
{
    char type = spec->type;
    if (v.kind == JV_UNDEFINED && type != 's' && type != 'r' && type != 'a')
        return jv_undefined_error(p->r, v);
    if (type == 's' || type == 'r' || type == 'a')
        return percent_text(p, b, spec, v);
    if (type == 'c') {
        struct jv text = v;
        if (jv_is_integer(v)) {
            struct jbuild one;
            jbuild_init(&one, p->r, 0);
            jbuild_char(&one, (uint32_t)jv_integer(v), false);
            text = jbuild_finish(&one);
        }
        if (text.kind != JV_STRING || jstr_chars(text.s) != 1)
            return jspec_fault(p->r, "%c requires int or char", 0);
        spec->precision = -1;
        spec->align = spec->align ? spec->align : '>';
        return jspec_text(b, spec, text.s);
    }
    if (!jv_is_number(v))
        return jv_fail(p->r, JINJA_FAILURE_VALUE, "%%%c format: a real number is required, not %s",
                       type, jv_type_name(v));
    if (strchr("eEfFgG", type))
        return jspec_float(b, spec, jv_double(v));
    if (!strchr("diuoxX", type))
        return jspec_fault(p->r, "unsupported format character", type);
    if (v.kind == JV_FLOAT) {
        if (strchr("oxX", type) || !(fabs(v.f) < 1e38))
            return jv_fail(p->r, JINJA_FAILURE_VALUE,
                           "%%%c format: an integer is required, not float", type);
        v = jv_wide(p->r, (__int128)v.f);
    }
    spec->type = type == 'i' || type == 'u' ? 'd' : type;
    return JV_IS_FAILURE(v) ? v : jspec_integer(b, spec, v);
}

struct jv jformat_percent(struct jinja *r, struct jstr *format, struct jv values)
{
    struct percent p = { .r = r, .format = format, .values = values };
    struct jbuild b;
    jbuild_init(&b, r, format->len);
    while (p.at < format->len && !b.failed) {
        const char *mark = memchr(format->ptr + p.at, '%', format->len - p.at);
        size_t end = mark ? (size_t)(mark - format->ptr) : format->len;
        jbuild_add(&b, format, p.at, end);
        p.at = end;
        if (!mark)
            break;
        struct jspec spec = { .width = -1, .precision = -1 };
        struct jv v = { 0 };
        bool named = ++p.at < format->len && format->ptr[p.at] == '(';
        if (named) {
            v = percent_named(&p);
            if (JV_IS_FAILURE(v))
                return v;
        }
        JV_TRY(parsed, percent_spec(&p, &spec));
        if (p.at >= format->len)
            return jspec_fault(r, "incomplete format", 0);
        spec.type = format->ptr[p.at++];
        if (spec.type == '%') {
            jbuild_puts(&b, "%", false);
            continue;
        }
        if (!named)
            v = percent_value(&p);
        if (JV_IS_FAILURE(v))
            return v;
        JV_TRY(put, percent_put(&p, &b, &spec, v));
    }
    bool unused = values.kind == JV_TUPLE ? p.used < values.list->n
                                          : !p.used && values.kind != JV_DICT && !p.named;
    if (unused && values.kind != JV_LIST && values.kind != JV_UNDEFINED)
        return jspec_fault(r, "not all arguments converted during string formatting", 0);
    return jbuild_finish(&b);
}
