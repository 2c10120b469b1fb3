/* Values as Python prints them. */
#include <stdio.h>

#include "base/number.h"
#include "base/utf8.h"
#include "text/template/jinja_eval.h"
#include "text/template/jinja_unicode.h"

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
