/* Values as Python prints them, and its two ways of formatting text. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"
#include "text/template/jinja_eval.h"
#include "text/template/jinja_unicode.h"

/* --- str() and repr() ----------------------------------------------------------------------- */

void jformat_integer(struct jbuild *b, __int128 i, bool is_value)
{
    char digits[48];
    size_t at = sizeof digits;
    unsigned __int128 rest = i < 0 ? -(unsigned __int128)i : (unsigned __int128)i;
    do {
        digits[--at] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest);
    if (i < 0)
        digits[--at] = '-';
    jbuild_bytes(b, digits + at, sizeof digits - at, is_value);
}

static void put_double(struct jbuild *b, double f, bool is_value)
{
    struct strbuf text;
    strbuf_init(&text, 64);
    number_put_double(&text, f);
    jbuild_bytes(b, text.ptr, text.len, is_value);
    strbuf_release(&text);
}

static void put_escaped_char(struct jbuild *b, uint32_t c, bool is_value)
{
    char text[16];
    int n = snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x"
                                                                            : "\\U%08x", c);
    jbuild_bytes(b, text, (size_t)n, is_value);
}

static void repr_string(struct jbuild *b, struct jstr *s, bool bytes)
{
    struct str text = jstr_str(s);
    bool single = text.len && memchr(text.ptr, '\'', text.len);
    char quote = single && !memchr(text.ptr, '"', text.len) ? '"' : '\'';
    bool is_value = s->source != JSTR_OWN;
    if (bytes)
        jbuild_puts(b, "b", is_value);
    jbuild_bytes(b, &quote, 1, is_value);
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        size_t n = 1, until;
        if (bytes)
            c = (unsigned char)text.ptr[i];
        else
            n = utf8_decode(text.ptr + i, text.len - i, &c);
        bool here = jstr_value_at(s, i, &until);
        char escape[2] = { '\\', c == '\n'   ? 'n'
                                 : c == '\r' ? 'r'
                                 : c == '\t' ? 't'
                                             : (char)c };
        if (c == '\n' || c == '\r' || c == '\t' || c == '\\' || c == (uint32_t)quote) {
            jbuild_bytes(b, escape, 2, here);
        } else if (bytes ? c < 0x20 || c >= 0x7F : !junicode_is_printable(c)) {
            put_escaped_char(b, c, here);
        } else {
            jbuild_bytes(b, text.ptr + i, n, here);
        }
        i += n;
    }
    jbuild_bytes(b, &quote, 1, is_value);
}

static void repr_list(struct jbuild *b, const struct jlist *l, const char *open, const char *close,
                      bool tuple, bool is_value)
{
    is_value = is_value || l->from_value;
    jbuild_puts(b, open, is_value);
    for (size_t i = 0; i < l->n && !b->failed && jinja_step(b->r, 1); i++) {
        if (i)
            jbuild_puts(b, ", ", is_value);
        jformat_repr(b, l->items[i], is_value);
    }
    if (tuple && l->n == 1)
        jbuild_puts(b, ",", is_value);
    jbuild_puts(b, close, is_value);
}

static void repr_dict(struct jbuild *b, const struct jdict *d, unsigned kind, bool is_value)
{
    is_value = is_value || d->from_value;
    static const char *const open[] = { "{", "dict_keys([", "dict_values([", "dict_items([" };
    unsigned which = kind == JV_NAMESPACE ? 0 : kind - JV_DICT;
    jbuild_puts(b, open[which], is_value);
    for (size_t i = 0; i < d->n && !b->failed && jinja_step(b->r, 1); i++) {
        if (i)
            jbuild_puts(b, ", ", is_value);
        if (kind == JV_ITEMS)
            jbuild_puts(b, "(", is_value);
        if (kind != JV_VALUES)
            jformat_repr(b, d->entries[i].key, is_value);
        if (which == 0 || kind == JV_ITEMS)
            jbuild_puts(b, kind == JV_ITEMS ? ", " : ": ", is_value);
        if (kind != JV_KEYS)
            jformat_repr(b, d->entries[i].value, is_value);
        if (kind == JV_ITEMS)
            jbuild_puts(b, ")", is_value);
    }
    jbuild_puts(b, which == 0 ? "}" : "])", is_value);
}

static void repr_range(struct jbuild *b, const struct jrange *range)
{
    char text[96];
    int n = range->step == 1
                ? snprintf(text, sizeof text, "range(%lld, %lld)", (long long)range->start,
                           (long long)range->stop)
                : snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)range->start,
                           (long long)range->stop, (long long)range->step);
    jbuild_bytes(b, text, (size_t)n, false);
}

static void repr_other(struct jbuild *b, struct jv v)
{
    struct str name = STR("");
    switch (v.kind) {
    case JV_UNDEFINED:
        jbuild_puts(b, "Undefined", false);
        return;
    case JV_MACRO:
        jbuild_puts(b, "<Macro ", false);
        jformat_repr(b, jv_of_str(b->r->t->symbols[v.macro->node->symbol]), false);
        jbuild_puts(b, ">", false);
        return;
    case JV_FUNCTION:
    case JV_METHOD:
        name = str_of(v.kind == JV_METHOD ? v.method->method->name : v.function->name);
        jbuild_puts(b, v.kind == JV_METHOD ? "<built-in method " : "<function ", false);
        break;
    default:
        jbuild_puts(b, "<", false);
        name = str_of(jv_type_name(v));
    }
    jbuild_bytes(b, name.ptr, name.len, false);
    jbuild_puts(b, v.kind == JV_GENERATOR ? " object>" : ">", false);
}

static void repr_nested(struct jbuild *b, struct jv v, bool is_value)
{
    switch (v.kind) {
    case JV_LIST:
        repr_list(b, v.list, "[", "]", false, is_value);
        break;
    case JV_TUPLE:
        repr_list(b, v.list, "(", ")", true, is_value);
        break;
    case JV_NAMESPACE:
        jbuild_puts(b, "<Namespace ", is_value);
        repr_dict(b, v.dict, v.kind, is_value);
        jbuild_puts(b, ">", is_value);
        break;
    default:
        repr_dict(b, v.dict, v.kind, is_value);
    }
}

void jformat_repr(struct jbuild *b, struct jv v, bool is_value)
{
    switch (v.kind) {
    case JV_NONE:
        jbuild_puts(b, "None", is_value);
        break;
    case JV_BOOL:
        jbuild_puts(b, v.b ? "True" : "False", is_value);
        break;
    case JV_INT:
    case JV_WIDE:
        jformat_integer(b, jv_integer(v), is_value);
        break;
    case JV_FLOAT:
        put_double(b, v.f, is_value);
        break;
    case JV_STRING:
    case JV_BYTES:
        repr_string(b, v.s, v.kind == JV_BYTES);
        break;
    case JV_RANGE:
        repr_range(b, v.range);
        break;
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
    case JV_NAMESPACE:
        if (b->r->depth > 4 * JINJA_MAX_DEPTH) {
            b->failed = true;
            (void)jv_fail(b->r, JINJA_FAILURE_LIMIT, "a value is nested too deep to print");
            break;
        }
        b->r->depth++;
        repr_nested(b, v, is_value);
        b->r->depth--;
        break;
    default:
        repr_other(b, v);
    }
}

void jformat_str(struct jbuild *b, struct jv v)
{
    if (v.kind == JV_STRING)
        jbuild_str(b, v.s);
    else if (v.kind != JV_UNDEFINED)
        jformat_repr(b, v, false);
}

struct jv jv_to_string(struct jinja *r, struct jv v)
{
    if (v.kind == JV_STRING)
        return v;
    struct jbuild b;
    jbuild_init(&b, r, 0);
    jformat_str(&b, v);
    return jbuild_finish(&b);
}

/* --- format specifications ------------------------------------------------------------------ */

struct spec {
    uint32_t fill; /* 0: not given */
    char align, sign, grouping, type;
    bool alternate, zero;
    int width, precision; /* -1: not given */
};

static struct jv format_fault(struct jinja *r, const char *why, char type)
{
    return type ? jv_fail(r, JINJA_FAILURE_VALUE, "%s: '%c'", why, type)
                : jv_fail(r, JINJA_FAILURE_VALUE, "%s", why);
}

static void put_padded(struct jbuild *b, const struct spec *spec, const struct jstr *text,
                       size_t n_chars, char default_align)
{
    size_t width = spec->width > 0 ? (size_t)spec->width : 0;
    size_t missing = width > n_chars ? width - n_chars : 0;
    char align = spec->align ? spec->align : default_align;
    size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    uint32_t fill = spec->fill ? spec->fill : ' ';
    for (size_t i = 0; i < left && !b->failed; i++)
        jbuild_char(b, fill, false);
    jbuild_str(b, text);
    for (size_t i = left; i < missing && !b->failed; i++)
        jbuild_char(b, fill, false);
}

/* digits of a non-negative integer in a base, into the end of the buffer; returns the start. */
static size_t base_digits(unsigned __int128 value, unsigned base, bool upper, char *out, size_t end)
{
    const char *set = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    do {
        out[--end] = set[(unsigned)(value % base)];
        value /= base;
    } while (value);
    return end;
}

#define NUMBER_BYTES 640

static size_t float_digits(double f, const struct spec *spec, char *out, size_t size)
{
    char type = spec->type ? spec->type : 'g';
    int precision = spec->precision < 0 ? 6 : MIN(spec->precision, 300);
    char format[16];
    bool percent = type == '%';
    (void)snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "",
                   percent ? 'f' : type == 'n' ? 'g' : type);
    int n = snprintf(out, size, format, precision, fabs(percent ? f * 100 : f));
    size_t len = n > 0 ? MIN((size_t)n, size - 2) : 0;
    if (percent)
        out[len++] = '%';
    return len;
}

/* Sign and prefix, zeros up to the width, digits with their grouping. */
static void put_number(struct jbuild *b, const struct spec *spec, bool negative, const char *prefix,
                       const char *digits, size_t n)
{
    struct jbuild text;
    jbuild_init(&text, b->r, 0);
    char sign[2] = { negative ? '-' : spec->sign == '-' ? 0 : spec->sign, 0 };
    jbuild_puts(&text, sign, false);
    jbuild_puts(&text, prefix, false);
    size_t whole = 0;
    while (whole < n && digits[whole] != '.' && digits[whole] != 'e' && digits[whole] != 'E' &&
           digits[whole] != '%')
        whole++;
    unsigned group = spec->type == 'x' || spec->type == 'X' || spec->type == 'b' ||
                             spec->type == 'o'
                         ? 4
                         : 3;
    size_t width = spec->width > 0 ? (size_t)spec->width : 0;
    bool zeros = spec->zero && (!spec->align || spec->align == '=');
    size_t used = text.len + n, pad = zeros && width > used ? width - used : 0;
    if (spec->grouping) {
        pad = 0;
        while (zeros && used + pad + (whole + pad - 1) / group < width)
            pad++;
    }
    for (size_t i = 0; i < pad + whole && !text.failed; i++) {
        if (spec->grouping && i && (pad + whole - i) % group == 0)
            jbuild_bytes(&text, &spec->grouping, 1, false);
        jbuild_bytes(&text, i < pad ? "0" : digits + i - pad, 1, false);
    }
    jbuild_bytes(&text, digits + whole, n - whole, false);
    struct jv v = jbuild_finish(&text);
    if (JV_IS_FAILURE(v)) {
        b->failed = true;
        return;
    }
    struct spec outer = *spec;
    if (outer.align == '=')
        outer.align = '>';
    put_padded(b, &outer, v.s, v.s->len, '>');
}

static struct jv put_integer(struct jbuild *b, const struct spec *spec, struct jv v)
{
    char digits[140];
    __int128 i = jv_integer(v);
    unsigned __int128 size = i < 0 ? -(unsigned __int128)i : (unsigned __int128)i;
    unsigned base = spec->type == 'x' || spec->type == 'X' ? 16
                    : spec->type == 'o'                    ? 8
                    : spec->type == 'b'                    ? 2
                                                           : 10;
    size_t start = base_digits(size, base, spec->type == 'X', digits, sizeof digits);
    char prefix[3] = { '0', spec->type, 0 };
    put_number(b, spec, i < 0, spec->alternate && base != 10 ? prefix : "", digits + start,
               sizeof digits - start);
    return jv_none();
}

static struct jv put_float(struct jbuild *b, const struct spec *spec, double f)
{
    char digits[NUMBER_BYTES];
    size_t n;
    if (!spec->type && spec->precision < 0) {
        struct strbuf text;
        strbuf_init(&text, 64);
        number_put_double(&text, fabs(f));
        n = MIN(text.len, sizeof digits);
        memcpy(digits, text.ptr, n);
        strbuf_release(&text);
    } else {
        n = float_digits(f, spec, digits, sizeof digits);
        /* Without a type the shortest form keeps one digit behind the point. */
        if (!spec->type && !memchr(digits, '.', n) && !memchr(digits, 'e', n) && isfinite(f)) {
            digits[n++] = '.';
            digits[n++] = '0';
        }
    }
    put_number(b, spec, signbit(f) && !isnan(f), "", digits, n);
    return jv_none();
}

static struct jv put_text(struct jbuild *b, const struct spec *spec, struct jstr *s)
{
    size_t n_chars = jstr_chars(s);
    if (spec->precision >= 0 && (size_t)spec->precision < n_chars) {
        n_chars = (size_t)spec->precision;
        JV_TRY(cut, jv_slice(b->r, s, 0, jstr_offset(s, n_chars)));
        s = cut.s;
    }
    put_padded(b, spec, s, n_chars, '<');
    return jv_none();
}

/* --- "%..." % values ------------------------------------------------------------------------ */

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
            return format_fault(p->r, "not enough arguments for format string", 0);
        return p->values.list->items[p->used++];
    }
    if (p->used++)
        return format_fault(p->r, "not enough arguments for format string", 0);
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
        return format_fault(p->r, "incomplete format key", 0);
    if (p->values.kind != JV_DICT)
        return format_fault(p->r, "format requires a mapping", 0);
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
            return format_fault(p->r, "* wants int", 0);
        *out = (int)jv_integer(v);
        return jv_none();
    }
    int n = 0;
    for (; p->at < f->len && f->ptr[p->at] >= '0' && f->ptr[p->at] <= '9'; p->at++) {
        n = n * 10 + (f->ptr[p->at] - '0');
        if (n > 1000000)
            return format_fault(p->r, "width or precision is too large", 0);
    }
    *out = n;
    return jv_none();
}

static struct jv percent_spec(struct percent *p, struct spec *spec)
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

static struct jv percent_text(struct percent *p, struct jbuild *b, struct spec *spec, struct jv v)
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
    return put_text(b, spec, text.s);
}

static struct jv percent_put(struct percent *p, struct jbuild *b, struct spec *spec, struct jv v)
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
            return format_fault(p->r, "%c requires int or char", 0);
        spec->precision = -1;
        spec->align = spec->align ? spec->align : '>';
        return put_text(b, spec, text.s);
    }
    if (!jv_is_number(v))
        return jv_fail(p->r, JINJA_FAILURE_VALUE, "%%%c format: a real number is required, not %s",
                       type, jv_type_name(v));
    if (strchr("eEfFgG", type))
        return put_float(b, spec, jv_double(v));
    if (!strchr("diuoxX", type))
        return format_fault(p->r, "unsupported format character", type);
    if (v.kind == JV_FLOAT) {
        if (strchr("oxX", type) || !(fabs(v.f) < 1e38))
            return jv_fail(p->r, JINJA_FAILURE_VALUE,
                           "%%%c format: an integer is required, not float", type);
        v = jv_wide(p->r, (__int128)v.f);
    }
    spec->type = type == 'i' || type == 'u' ? 'd' : type;
    return JV_IS_FAILURE(v) ? v : put_integer(b, spec, v);
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
        struct spec spec = { .width = -1, .precision = -1 };
        struct jv v = { 0 };
        bool named = ++p.at < format->len && format->ptr[p.at] == '(';
        if (named) {
            v = percent_named(&p);
            if (JV_IS_FAILURE(v))
                return v;
        }
        JV_TRY(parsed, percent_spec(&p, &spec));
        if (p.at >= format->len)
            return format_fault(r, "incomplete format", 0);
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
        return format_fault(r, "not all arguments converted during string formatting", 0);
    return jbuild_finish(&b);
}

/* --- "...".format() ------------------------------------------------------------------------- */

struct braces {
    struct jinja *r;
    const struct jargs *args;
    size_t next;
    bool automatic, manual;
};

static struct jv braces_named(struct braces *f, struct str name)
{
    for (size_t i = 0; i < f->args->n_named; i++)
        if (str_eq(jstr_str(f->args->names[i]), name))
            return f->args->named[i];
    return jv_fail(f->r, JINJA_FAILURE_VALUE, "'%.*s'", STR_ARG(name));
}

static struct jv braces_first(struct braces *f, struct str name)
{
    uint64_t index = 0;
    bool number = number_parse_u64(name, &index);
    if (name.len && !number)
        return braces_named(f, name);
    if (name.len == 0) {
        index = f->next++;
        f->automatic = true;
    } else {
        f->manual = true;
    }
    if (f->automatic && f->manual)
        return format_fault(f->r, "cannot mix automatic and manual field numbering", 0);
    if (index >= f->args->n)
        return jv_fail(f->r, JINJA_FAILURE_VALUE,
                       "Replacement index %llu out of range for positional args tuple",
                       (unsigned long long)index);
    return f->args->positional[index];
}

/* name, name.attribute, name[key] */
static struct jv braces_value(struct braces *f, struct str field)
{
    size_t at = 0;
    while (at < field.len && field.ptr[at] != '.' && field.ptr[at] != '[')
        at++;
    struct jv v = braces_first(f, str_slice(field, 0, at));
    while (!JV_IS_FAILURE(v) && at < field.len) {
        bool bracket = field.ptr[at++] == '[';
        size_t start = at;
        while (at < field.len && (bracket ? field.ptr[at] != ']'
                                          : field.ptr[at] != '.' && field.ptr[at] != '['))
            at++;
        struct str key = str_slice(field, start, at);
        at += bracket && at < field.len;
        uint64_t index;
        JV_TRY(name, jv_text(f->r, key.ptr, key.len, JSTR_OWN));
        if (bracket && number_parse_u64(key, &index))
            v = jinja_subscript(f->r, v, jv_int((int64_t)index));
        else
            v = bracket ? jinja_subscript(f->r, v, name) : jinja_attribute(f->r, v, name.s);
    }
    return v;
}

static bool parse_spec_number(struct str s, size_t *at, int *out)
{
    if (*at >= s.len || s.ptr[*at] < '0' || s.ptr[*at] > '9')
        return true;
    *out = 0;
    for (; *at < s.len && s.ptr[*at] >= '0' && s.ptr[*at] <= '9'; (*at)++) {
        *out = *out * 10 + (s.ptr[*at] - '0');
        if (*out > 1000000)
            return false;
    }
    return true;
}

static bool parse_spec(struct str s, struct spec *spec)
{
    size_t at = 0;
    uint32_t c = 0;
    size_t n = s.len ? utf8_decode(s.ptr, s.len, &c) : 0;
    if (n && n < s.len && s.ptr[n] && strchr("<>=^", s.ptr[n])) {
        spec->fill = c;
        spec->align = s.ptr[n];
        at = n + 1;
    } else if (s.len && s.ptr[0] && strchr("<>=^", s.ptr[0])) {
        spec->align = s.ptr[at++];
    }
    if (at < s.len && (s.ptr[at] == '+' || s.ptr[at] == '-' || s.ptr[at] == ' '))
        spec->sign = s.ptr[at++];
    if (at < s.len && s.ptr[at] == '#') {
        spec->alternate = true;
        at++;
    }
    if (at < s.len && s.ptr[at] == '0') {
        spec->zero = !spec->align;
        spec->fill = spec->fill ? spec->fill : '0';
        at++;
    }
    if (!parse_spec_number(s, &at, &spec->width))
        return false;
    if (at < s.len && (s.ptr[at] == ',' || s.ptr[at] == '_'))
        spec->grouping = s.ptr[at++];
    if (at < s.len && s.ptr[at] == '.') {
        at++;
        spec->precision = -2;
        if (!parse_spec_number(s, &at, &spec->precision) || spec->precision == -2)
            return false;
    }
    if (at < s.len)
        spec->type = s.ptr[at++];
    return at == s.len;
}

static struct jv braces_put(struct braces *f, struct jbuild *b, struct jv v, struct str text)
{
    struct spec spec = { .width = -1, .precision = -1 };
    if (!parse_spec(text, &spec))
        return jv_fail(f->r, JINJA_FAILURE_VALUE, "Invalid format specifier '%.*s'", STR_ARG(text));
    if (v.kind == JV_STRING || (v.kind == JV_BOOL && text.len == 0)) {
        if ((spec.type && spec.type != 's') || spec.align == '=')
            return format_fault(f->r, "Unknown format code for object of type 'str'", spec.type);
        JV_TRY(string, jv_to_string(f->r, v));
        return put_text(b, &spec, string.s);
    }
    if (!jv_is_number(v)) {
        if (text.len)
            return jv_fail(f->r, JINJA_FAILURE_VALUE,
                           "unsupported format string passed to %s.__format__", jv_type_name(v));
        jformat_str(b, v);
        return jv_none();
    }
    if (spec.type == 'c') {
        jbuild_char(b, (uint32_t)jv_integer(v), false);
        return jv_none();
    }
    if (spec.type && !strchr("bdoxXneEfFgG%", spec.type))
        return format_fault(f->r, "Unknown format code", spec.type);
    bool whole = !spec.type ? v.kind != JV_FLOAT : strchr("bdoxX", spec.type) != NULL;
    if (whole && (v.kind == JV_FLOAT || spec.precision >= 0))
        return format_fault(f->r, "Unknown format code for this number", spec.type);
    if (spec.type == 'n' && v.kind != JV_FLOAT) {
        spec.type = 'd';
        whole = true;
    }
    return whole ? put_integer(b, &spec, v) : put_float(b, &spec, jv_double(v));
}

/* The end of a replacement field that starts behind `at`, nested fields included. */
static size_t braces_end(struct str s, size_t at)
{
    size_t level = 1;
    bool bracket = false;
    for (; at < s.len; at++) {
        char c = s.ptr[at];
        if (c == '[' && level == 1)
            bracket = true;
        else if (c == ']')
            bracket = false;
        if (bracket)
            continue;
        level += c == '{';
        level -= c == '}';
        if (level == 0)
            return at;
    }
    return STR_NONE;
}

static struct jv braces_all(struct braces *f, struct jstr *format, struct jbuild *b, int nesting);

static struct jv braces_field(struct braces *f, struct jbuild *b, struct str field, int nesting)
{
    size_t name = 0;
    bool bracket = false;
    while (name < field.len && (bracket || (field.ptr[name] != '!' && field.ptr[name] != ':'))) {
        bracket = field.ptr[name] == '[' || (bracket && field.ptr[name] != ']');
        name++;
    }
    JV_TRY(v, braces_value(f, str_slice(field, 0, name)));
    size_t at = name;
    if (at < field.len && field.ptr[at] == '!') {
        char conversion = at + 1 < field.len ? field.ptr[at + 1] : 0;
        at = MIN(at + 2, field.len);
        if (conversion != 'r' && conversion != 's' && conversion != 'a')
            return format_fault(f->r, "Unknown conversion specifier", conversion);
        struct jbuild text;
        jbuild_init(&text, f->r, 0);
        if (conversion == 's')
            jformat_str(&text, v);
        else
            jformat_repr(&text, v, false);
        v = jbuild_finish(&text);
        if (JV_IS_FAILURE(v))
            return v;
    }
    if (at < field.len && field.ptr[at] != ':')
        return format_fault(f->r, "expected ':' after conversion specifier", 0);
    struct jbuild spec;
    JV_TRY(inner, jv_text(f->r, field.ptr + MIN(at + 1, field.len),
                          field.len - MIN(at + 1, field.len), JSTR_OWN));
    jbuild_init(&spec, f->r, 0);
    JV_TRY(filled, braces_all(f, inner.s, &spec, nesting + 1));
    return braces_put(f, b, v, (struct str){ spec.ptr, spec.len });
}

static struct jv braces_all(struct braces *f, struct jstr *format, struct jbuild *b, int nesting)
{
    struct str s = jstr_str(format);
    for (size_t at = 0; at < s.len && !b->failed;) {
        size_t plain = at;
        while (at < s.len && s.ptr[at] != '{' && s.ptr[at] != '}')
            at++;
        jbuild_add(b, format, plain, at);
        if (at >= s.len)
            break;
        if (at + 1 < s.len && s.ptr[at + 1] == s.ptr[at] && nesting == 1) {
            jbuild_add(b, format, at, at + 1);
            at += 2;
            continue;
        }
        if (s.ptr[at] == '}')
            return format_fault(f->r, "Single '}' encountered in format string", 0);
        if (nesting > 2)
            return format_fault(f->r, "Max string recursion exceeded", 0);
        size_t end = braces_end(s, at + 1);
        if (end == STR_NONE)
            return format_fault(f->r, "expected '}' before end of string", 0);
        JV_TRY(put, braces_field(f, b, str_slice(s, at + 1, end), nesting));
        at = end + 1;
    }
    return jv_none();
}

struct jv jformat_method(struct jinja *r, struct jstr *format, const struct jargs *args)
{
    struct braces f = { .r = r, .args = args };
    struct jbuild b;
    jbuild_init(&b, r, format->len);
    JV_TRY(done, braces_all(&f, format, &b, 1));
    return jbuild_finish(&b);
}
