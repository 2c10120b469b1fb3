/* tojson as transformers defines it, and its inverse. */
#include <math.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"
#include "text/template/jinja_library.h"

struct writer {
    struct jinja *r;
    struct jbuild *b;
    bool ascii, pretty, sort_keys;
    struct str indent, item_separator, key_separator;
    unsigned level;
};

static void put_unit(struct writer *w, uint32_t unit, bool is_value)
{
    char text[8] = "\\u";
    for (int i = 0; i < 4; i++)
        text[2 + i] = "0123456789abcdef"[(unit >> (12 - 4 * i)) & 15];
    jbuild_bytes(w->b, text, 6, is_value);
}

static bool put_special(struct writer *w, uint32_t c, bool is_value)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (found) {
        char escape[2] = { '\\', to[found - from] };
        jbuild_bytes(w->b, escape, 2, is_value);
    } else if (c < 0x20 || (w->ascii && c >= 0x7F && c < 0x10000)) {
        put_unit(w, c, is_value);
    } else if (w->ascii && c >= 0x10000) {
        put_unit(w, 0xD800 + ((c - 0x10000) >> 10), is_value);
        put_unit(w, 0xDC00 + ((c - 0x10000) & 0x3FF), is_value);
    } else {
        return false;
    }
    return true;
}

static void put_string(struct writer *w, struct jstr *s, bool is_value)
{
    is_value = is_value || s->source == JSTR_VALUE;
    jbuild_puts(w->b, "\"", is_value);
    for (size_t at = 0; at < s->len && !w->b->failed;) {
        size_t until, plain = at;
        bool here = jstr_value_at(s, at, &until) || is_value;
        while (at < until) {
            uint32_t c;
            size_t n = utf8_decode(s->ptr + at, s->len - at, &c);
            if (c >= 0x20 && c != '"' && c != '\\' && !(w->ascii && c >= 0x7F)) {
                at += n;
                continue;
            }
            jbuild_bytes(w->b, s->ptr + plain, at - plain, here);
            if (!put_special(w, c, here))
                jbuild_bytes(w->b, s->ptr + at, n, here);
            at += n;
            plain = at;
        }
        jbuild_bytes(w->b, s->ptr + plain, at - plain, here);
    }
    jbuild_puts(w->b, "\"", is_value);
}

static void put_number(struct writer *w, struct jv v, bool is_value)
{
    if (v.kind == JV_FLOAT && !isfinite(v.f))
        jbuild_puts(w->b, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity", is_value);
    else
        jformat_repr(w->b, v, is_value);
}

static void put_break(struct writer *w, bool is_value)
{
    if (!w->pretty)
        return;
    jbuild_puts(w->b, "\n", is_value);
    for (unsigned i = 0; i < w->level && !w->b->failed; i++)
        jbuild_bytes(w->b, w->indent.ptr, w->indent.len, is_value);
}

static struct jv put_value(struct writer *w, struct jv v, bool is_value);

static struct jv put_list(struct writer *w, const struct jlist *l, bool is_value)
{
    jbuild_puts(w->b, "[", is_value);
    w->level++;
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            jbuild_bytes(w->b, w->item_separator.ptr, w->item_separator.len, is_value);
        put_break(w, is_value);
        JV_TRY(put, put_value(w, l->items[i], is_value));
    }
    w->level--;
    if (l->n)
        put_break(w, is_value);
    jbuild_puts(w->b, "]", is_value);
    return jv_none();
}

static struct jv put_key(struct writer *w, struct jv key, bool is_value)
{
    switch (key.kind) {
    case JV_STRING:
        put_string(w, key.s, is_value);
        return jv_none();
    case JV_NONE:
        jbuild_puts(w->b, "\"null\"", is_value);
        return jv_none();
    case JV_BOOL:
        jbuild_puts(w->b, key.b ? "\"true\"" : "\"false\"", is_value);
        return jv_none();
    case JV_INT:
    case JV_WIDE:
    case JV_FLOAT:
        jbuild_puts(w->b, "\"", is_value);
        put_number(w, key, is_value);
        jbuild_puts(w->b, "\"", is_value);
        return jv_none();
    default:
        return jv_fail(w->r, JINJA_FAILURE_VALUE,
                       "keys must be str, int, float, bool or None, not %s", jv_type_name(key));
    }
}

/* The entries in the order in which they are written. */
static struct jv sorted_entries(struct writer *w, const struct jdict *d, struct jentry **out)
{
    struct jentry *e = jinja_alloc(w->r, d->n, sizeof *e);
    if (!e || !jinja_step(w->r, d->n))
        return (struct jv){ .kind = JV_FAILURE };
    *out = e;
    for (size_t i = 0; i < d->n; i++) {
        size_t at = i;
        for (; at > 0; at--) {
            JV_TRY(less, jv_less(w->r, d->entries[i].key, e[at - 1].key, "<", false));
            if (!less.b)
                break;
            if (!jinja_step(w->r, 1))
                return (struct jv){ .kind = JV_FAILURE };
            e[at] = e[at - 1];
        }
        e[at] = d->entries[i];
    }
    return jv_none();
}

static struct jv put_dict(struct writer *w, const struct jdict *d, bool is_value)
{
    struct jentry *entries = d->entries;
    if (w->sort_keys) {
        JV_TRY(sorted, sorted_entries(w, d, &entries));
    }
    jbuild_puts(w->b, "{", is_value);
    w->level++;
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            jbuild_bytes(w->b, w->item_separator.ptr, w->item_separator.len, is_value);
        put_break(w, is_value);
        JV_TRY(key, put_key(w, entries[i].key, is_value));
        jbuild_bytes(w->b, w->key_separator.ptr, w->key_separator.len, is_value);
        JV_TRY(value, put_value(w, entries[i].value, is_value));
    }
    w->level--;
    if (d->n)
        put_break(w, is_value);
    jbuild_puts(w->b, "}", is_value);
    return jv_none();
}

static struct jv put_nested(struct writer *w, struct jv v, bool is_value)
{
    if (w->level > 2 * JINJA_MAX_DEPTH)
        return jv_fail(w->r, JINJA_FAILURE_LIMIT, "a value is nested too deep for tojson");
    if (v.kind == JV_DICT)
        return put_dict(w, v.dict, is_value || v.dict->from_value);
    return put_list(w, v.list, is_value || v.list->from_value);
}

static struct jv put_value(struct writer *w, struct jv v, bool is_value)
{
    if (w->b->failed || !jinja_step(w->r, 1))
        return (struct jv){ .kind = JV_FAILURE };
    switch (v.kind) {
    case JV_NONE:
        jbuild_puts(w->b, "null", is_value);
        return jv_none();
    case JV_BOOL:
        jbuild_puts(w->b, v.b ? "true" : "false", is_value);
        return jv_none();
    case JV_INT:
    case JV_WIDE:
    case JV_FLOAT:
        put_number(w, v, is_value);
        return jv_none();
    case JV_STRING:
        put_string(w, v.s, is_value);
        return jv_none();
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
        return put_nested(w, v, is_value);
    default:
        return jv_fail(w->r, JINJA_FAILURE_VALUE, "Object of type %s is not JSON serializable",
                       jv_type_name(v));
    }
}

static struct jv read_indent(struct writer *w, struct jv v)
{
    static const char blanks[] = "                                                                ";
    if (!jarg_given(v) || v.kind == JV_NONE)
        return jv_none();
    w->pretty = true;
    w->item_separator = STR(",");
    if (v.kind == JV_STRING) {
        w->indent = jstr_str(v.s);
        return jv_none();
    }
    int64_t n;
    JV_TRY(ok, jarg_integer(w->r, v, &n));
    if (n > (int64_t)sizeof blanks - 1)
        return jv_fail(w->r, JINJA_FAILURE_VALUE, "tojson: an indent of %lld is too large",
                       (long long)n);
    w->indent = (struct str){ blanks, n > 0 ? (size_t)n : 0 };
    return jv_none();
}

static struct jv read_separators(struct writer *w, struct jv v)
{
    if (!jarg_given(v) || v.kind == JV_NONE)
        return jv_none();
    if ((v.kind != JV_TUPLE && v.kind != JV_LIST) || v.list->n != 2 ||
        v.list->items[0].kind != JV_STRING || v.list->items[1].kind != JV_STRING)
        return jv_fail(w->r, JINJA_FAILURE_VALUE, "tojson: separators must be two strings");
    w->item_separator = jstr_str(v.list->items[0].s);
    w->key_separator = jstr_str(v.list->items[1].s);
    return jv_none();
}

/* arg: ensure_ascii, indent, separators, sort_keys */
struct jv jinja_to_json(struct jinja *r, struct jv v, struct jv *arg)
{
    struct jbuild b;
    struct writer w = { .r = r, .b = &b, .item_separator = STR(", "), .key_separator = STR(": ") };
    jbuild_init(&b, r, 0);
    w.ascii = jarg_given(arg[0]) && jv_truth(arg[0]);
    w.sort_keys = jarg_given(arg[3]) && jv_truth(arg[3]);
    JV_TRY(indent, read_indent(&w, arg[1]));
    JV_TRY(separators, read_separators(&w, arg[2]));
    JV_TRY(done, put_value(&w, v, false));
    return jbuild_finish(&b);
}

/* Strings of the parsed value are copied: the JSON tree does not live as long as the render. */
static struct jv copy_json(struct jinja *r, const json_t *j, bool trusted)
{
    if (json_is_string(j)) {
        struct str s = arena_str(&r->arena, json_str(j));
        return s.ptr ? jv_text(r, s.ptr, s.len, trusted ? JSTR_OWN : JSTR_VALUE) : jv_no_memory(r);
    }
    if (json_is_array(j)) {
        struct jlist *l = jlist_new(r, json_array_size(j));
        if (!l)
            return jv_no_memory(r);
        for (size_t i = 0; i < json_array_size(j); i++) {
            JV_TRY(item, copy_json(r, json_array_get(j, i), trusted));
            l->items[l->n++] = item;
        }
        return jv_of_list(l);
    }
    if (!json_is_object(j))
        return jv_from_json(r, j, trusted);
    struct jdict *d = jdict_new(r, json_object_size(j));
    if (!d)
        return jv_no_memory(r);
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterator takes no const */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        struct str name = arena_str(&r->arena, str_of(json_object_iter_key(it)));
        JV_TRY(key, jv_text(r, name.ptr, name.len, trusted ? JSTR_OWN : JSTR_VALUE));
        JV_TRY(value, copy_json(r, json_object_iter_value(it), trusted));
        if (!jdict_set(r, d, key, value))
            return jv_no_memory(r);
    }
    return (struct jv){ .kind = JV_DICT, .dict = d };
}

struct jv jinja_parse_json(struct jinja *r, struct jv v)
{
    struct error err;
    json_t *j;
    if (v.kind != JV_STRING)
        return jv_fail(r, JINJA_FAILURE_VALUE, "from_json: the JSON object must be str, not %s",
                       jv_type_name(v));
    if (!jinja_step(r, v.s->len / 16))
        return (struct jv){ .kind = JV_FAILURE };
    if (json_parse(jstr_str(v.s), 0, &j, &err) != STATUS_OK)
        return jv_fail(r, JINJA_FAILURE_VALUE, "from_json: %s", err.message);
    struct jv copy = copy_json(r, j, v.s->source == JSTR_OWN);
    json_decref(j);
    return copy;
}
