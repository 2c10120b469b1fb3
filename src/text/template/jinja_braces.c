/* "...".format() */
#include "base/number.h"
#include "base/utf8.h"
#include "text/template/jinja_spec.h"

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
        return jspec_fault(f->r, "cannot mix automatic and manual field numbering", 0);
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

static bool parse_spec(struct str s, struct jspec *spec)
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
    struct jspec spec = { .width = -1, .precision = -1 };
    if (!parse_spec(text, &spec))
        return jv_fail(f->r, JINJA_FAILURE_VALUE, "Invalid format specifier '%.*s'", STR_ARG(text));
    if (v.kind == JV_STRING || (v.kind == JV_BOOL && text.len == 0)) {
        if ((spec.type && spec.type != 's') || spec.align == '=')
            return jspec_fault(f->r, "Unknown format code for object of type 'str'", spec.type);
        JV_TRY(string, jv_to_string(f->r, v));
        return jspec_text(b, &spec, string.s);
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
        return jspec_fault(f->r, "Unknown format code", spec.type);
    bool whole = !spec.type ? v.kind != JV_FLOAT : strchr("bdoxX", spec.type) != NULL;
    if (whole && (v.kind == JV_FLOAT || spec.precision >= 0))
        return jspec_fault(f->r, "Unknown format code for this number", spec.type);
    if (spec.type == 'n' && v.kind != JV_FLOAT) {
        spec.type = 'd';
        whole = true;
    }
    return whole ? jspec_integer(b, &spec, v) : jspec_float(b, &spec, jv_double(v));
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
            return jspec_fault(f->r, "Unknown conversion specifier", conversion);
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
        return jspec_fault(f->r, "expected ':' after conversion specifier", 0);
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
            return jspec_fault(f->r, "Single '}' encountered in format string", 0);
        if (nesting > 2)
            return jspec_fault(f->r, "Max string recursion exceeded", 0);
        size_t end = braces_end(s, at + 1);
        if (end == STR_NONE)
            return jspec_fault(f->r, "expected '}' before end of string", 0);
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
