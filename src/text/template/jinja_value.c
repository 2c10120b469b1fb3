#include "text/template/jinja_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"

struct jv jv_fail(struct jinja *r, enum jinja_failure kind, const char *format, ...)
{
    if (r->failure == JINJA_FAILURE_NONE) {
        va_list arguments;
        va_start(arguments, format);
        r->failure = kind;
        (void)error_set_va(&r->error, kind == JINJA_FAILURE_LIMIT ? STATUS_LIMIT : STATUS_INVALID,
                           format, arguments);
        va_end(arguments);
    }
    return (struct jv){ .kind = JV_FAILURE };
}

struct jv jv_no_memory(struct jinja *r)
{
    return jv_fail(r, JINJA_FAILURE_LIMIT, "the template used more than %u MiB of memory",
                   JINJA_MAX_MEMORY_BYTES >> 20);
}

bool jinja_step(struct jinja *r, size_t n)
{
    r->steps += n;
    if (r->steps <= r->max_steps)
        return true;
    (void)jv_fail(r, JINJA_FAILURE_LIMIT, "the template took more than %zu steps", r->max_steps);
    return false;
}

void *jinja_alloc(struct jinja *r, size_t count, size_t size)
{
    void *block = NULL;
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes))
        block = arena_alloc(&r->arena, bytes ? bytes : 1);
    if (!block)
        (void)jv_no_memory(r);
    return block;
}

/* --- making values -------------------------------------------------------------------------- */

struct jv jv_wide(struct jinja *r, __int128 i)
{
    if (i >= INT64_MIN && i <= INT64_MAX)
        return jv_int((int64_t)i);
    __int128 *wide = jinja_alloc(r, 1, sizeof *wide);
    if (!wide)
        return jv_no_memory(r);
    *wide = i;
    return (struct jv){ .kind = JV_WIDE, .wide = wide };
}

struct jv jv_text(struct jinja *r, const char *ptr, size_t n, enum jstr_source source)
{
    struct jstr *s = jinja_alloc(r, 1, sizeof *s);
    if (!s)
        return jv_no_memory(r);
    *s = (struct jstr){ .ptr = ptr, .len = n, .n_chars = JSTR_UNCOUNTED,
                        .source = (uint8_t)source };
    return jv_of_str(s);
}

struct jv jv_literal(struct jinja *r, const char *text)
{
    return jv_text(r, text, strlen(text), JSTR_OWN);
}

struct jv jv_string_like(struct jinja *r, const struct jstr *like, const char *ptr, size_t n)
{
    return jv_text(r, ptr, n, like->source == JSTR_OWN ? JSTR_OWN : JSTR_VALUE);
}

/* The first span that ends behind `at`. */
static size_t span_index(const struct jstr *s, size_t at)
{
    size_t low = 0, high = s->n_spans;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->spans[middle].to <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool jstr_value_at(const struct jstr *s, size_t at, size_t *until)
{
    *until = s->len;
    if (s->source != JSTR_MIXED)
        return s->source == JSTR_VALUE;
    size_t i = span_index(s, at);
    if (i == s->n_spans)
        return false;
    bool inside = s->spans[i].from <= at;
    *until = MIN(s->len, inside ? s->spans[i].to : s->spans[i].from);
    return inside;
}

struct jv jv_slice(struct jinja *r, struct jstr *s, size_t from, size_t to)
{
    if (from == 0 && to == s->len)
        return jv_of_str(s);
    struct jstr *part = jinja_alloc(r, 1, sizeof *part);
    if (!part)
        return jv_no_memory(r);
    *part = (struct jstr){ .ptr = s->ptr + from, .len = to - from, .n_chars = JSTR_UNCOUNTED,
                           .source = s->source, .markup = s->markup };
    if (s->n_chars == s->len)
        part->n_chars = part->len;
    if (s->source != JSTR_MIXED)
        return jv_of_str(part);
    size_t first = span_index(s, from), last = first;
    while (last < s->n_spans && s->spans[last].from < to)
        last++;
    if (first == last) {
        part->source = JSTR_OWN;
        return jv_of_str(part);
    }
    struct jinja_span *spans = jinja_alloc(r, last - first, sizeof *spans);
    if (!spans)
        return jv_no_memory(r);
    for (size_t i = first; i < last; i++) {
        spans[i - first].from = MAX(s->spans[i].from, from) - from;
        spans[i - first].to = MIN(s->spans[i].to, to) - from;
    }
    part->spans = spans;
    part->n_spans = last - first;
    if (spans[0].from == 0 && spans[0].to == part->len)
        part->source = JSTR_VALUE;
    return jv_of_str(part);
}

struct jlist *jlist_new(struct jinja *r, size_t capacity)
{
    struct jlist *l = jinja_alloc(r, 1, sizeof *l);
    struct jv *items = l ? jinja_alloc(r, capacity, sizeof *items) : NULL;
    if (!items)
        return NULL;
    *l = (struct jlist){ .items = items, .capacity = capacity };
    return l;
}

bool jlist_push(struct jinja *r, struct jlist *l, struct jv v)
{
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 4;
        struct jv *items = jinja_alloc(r, capacity, sizeof *items);
        if (!items)
            return false;
        if (l->n)
            memcpy(items, l->items, l->n * sizeof *items);
        l->items = items;
        l->capacity = capacity;
    }
    l->items[l->n++] = v;
    return true;
}

/* --- from JSON ------------------------------------------------------------------------------ */

static const char *const usual_roles[] = { "system", "developer", "user",  "assistant", "tool",
                                           "model",  "function",  "tools", "ipython" };

static bool is_usual_role(const json_t *j)
{
    for (size_t i = 0; json_is_string(j) && i < ARRAY_SIZE(usual_roles); i++)
        if (strcmp(json_string_value(j), usual_roles[i]) == 0)
            return true;
    return false;
}

static struct jv string_from_json(struct jinja *r, const char *ptr, size_t n, bool trusted)
{
    return jv_text(r, ptr, n, trusted ? JSTR_OWN : JSTR_VALUE);
}

/* Most objects of a conversation have the same few keys: each is made once. */
static struct jv key_from_json(struct jinja *r, const char *ptr, size_t n, bool trusted)
{
    struct jv *cached = &r->keys[(n * 7 + (n ? (unsigned char)ptr[0] + (unsigned char)ptr[n - 1]
                                               : 0)) % JINJA_CACHED_KEYS];
    if (cached->kind == JV_STRING && cached->s->len == n && memcmp(cached->s->ptr, ptr, n) == 0 &&
        (cached->s->source == JSTR_OWN) == trusted)
        return *cached;
    struct jv key = string_from_json(r, ptr, n, trusted);
    if (!JV_IS_FAILURE(key))
        *cached = key;
    return key;
}

static struct jv array_from_json(struct jinja *r, const json_t *j, bool trusted)
{
    struct jlist *l = jlist_new(r, json_array_size(j));
    if (!l)
        return jv_no_memory(r);
    l->from_value = true;
    for (size_t i = 0; i < json_array_size(j); i++) {
        JV_TRY(item, jv_from_json(r, json_array_get(j, i), trusted));
        l->items[l->n++] = item;
    }
    return jv_of_list(l);
}

static struct jv object_from_json(struct jinja *r, const json_t *j, bool trusted)
{
    struct jdict *d = jdict_new(r, json_object_size(j));
    if (!d)
        return jv_no_memory(r);
    d->from_value = true;
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterator takes no const */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *name = json_object_iter_key(it);
        const json_t *child = json_object_iter_value(it);
        size_t n = strlen(name);
        bool role = n == 4 && memcmp(name, "role", 4) == 0 && is_usual_role(child);
        JV_TRY(key, key_from_json(r, name, n, trusted));
        JV_TRY(value, jv_from_json(r, child, trusted || role));
        /* The keys of an object differ, so that no look-up is needed. */
        d->entries[d->n++] = (struct jentry){ key, value };
    }
    if (d->n >= JDICT_INDEX_FROM && !jdict_reindex(r, d))
        return jv_no_memory(r);
    return (struct jv){ .kind = JV_DICT, .dict = d };
}

struct jv jv_from_json(struct jinja *r, const json_t *j, bool trusted)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
    case JSON_ARRAY: {
        if (++r->depth > 2 * JINJA_MAX_DEPTH)
            return jv_fail(r, JINJA_FAILURE_LIMIT, "a value is nested deeper than %d",
                           2 * JINJA_MAX_DEPTH);
        struct jv v = json_is_object(j) ? object_from_json(r, j, trusted)
                                        : array_from_json(r, j, trusted);
        r->depth--;
        return v;
    }
    case JSON_STRING:
        return string_from_json(r, json_string_value(j), json_string_length(j), trusted);
    case JSON_INTEGER:
        return jv_int(json_integer_value(j));
    case JSON_REAL:
        return jv_float(json_real_value(j));
    case JSON_TRUE:
        return jv_bool(true);
    case JSON_FALSE:
        return jv_bool(false);
    default:
        return jv_none();
    }
}

/* --- asking --------------------------------------------------------------------------------- */

static const char *const type_names[] = {
    [JV_FAILURE] = "failure", [JV_UNDEFINED] = "Undefined", [JV_NONE] = "NoneType",
    [JV_BOOL] = "bool", [JV_INT] = "int", [JV_WIDE] = "int", [JV_FLOAT] = "float",
    [JV_STRING] = "str", [JV_BYTES] = "bytes", [JV_LIST] = "list", [JV_TUPLE] = "tuple",
    [JV_DICT] = "dict", [JV_KEYS] = "dict_keys", [JV_VALUES] = "dict_values",
    [JV_ITEMS] = "dict_items", [JV_RANGE] = "range", [JV_GENERATOR] = "generator",
    [JV_NAMESPACE] = "Namespace", [JV_MACRO] = "Macro", [JV_FUNCTION] = "function",
    [JV_METHOD] = "builtin_function_or_method", [JV_LOOP] = "LoopContext",
    [JV_CYCLER] = "Cycler", [JV_JOINER] = "Joiner", [JV_SELF] = "TemplateReference",
};

const char *jv_type_name(struct jv v)
{
    return type_names[v.kind];
}

struct str jv_object_name(struct jinja *r, unsigned kind)
{
    if (kind == JV_NONE)
        return STR("None");
    if (kind >= JV_NAMESPACE && kind != JV_FUNCTION && kind != JV_METHOD)
        return arena_format(&r->arena, "jinja2 %s object", type_names[kind]);
    return arena_format(&r->arena, "%s object", type_names[kind]);
}

struct jv jv_undefined_error(struct jinja *r, struct jv v)
{
    if (v.flags & JV_UNSAFE)
        return jv_fail(r, JINJA_FAILURE_SECURITY,
                       "access to attribute '%.*s' of '%s' object is unsafe.",
                       STR_ARG(jstr_str(v.s)), type_names[v.owner]);
    if (v.flags & JV_PARAMETER)
        return jv_fail(r, JINJA_FAILURE_UNDEFINED, "parameter '%.*s' was not provided",
                       STR_ARG(jstr_str(v.s)));
    if (v.owner == 0)
        return jv_fail(r, JINJA_FAILURE_UNDEFINED, "'%.*s' is undefined", STR_ARG(jstr_str(v.s)));
    struct str owner = jv_object_name(r, v.owner);
    if (v.flags & JV_ELEMENT)
        return jv_fail(r, JINJA_FAILURE_UNDEFINED, "%.*s has no element %.*s", STR_ARG(owner),
                       STR_ARG(jstr_str(v.s)));
    return jv_fail(r, JINJA_FAILURE_UNDEFINED, "'%.*s' has no attribute '%.*s'", STR_ARG(owner),
                   STR_ARG(jstr_str(v.s)));
}

bool jv_truth(struct jv v)
{
    switch (v.kind) {
    case JV_UNDEFINED:
    case JV_NONE:
        return false;
    case JV_BOOL:
        return v.b;
    case JV_INT:
        return v.i != 0;
    case JV_FLOAT:
        return v.f != 0.0;
    case JV_STRING:
    case JV_BYTES:
        return v.s->len != 0;
    case JV_LIST:
    case JV_TUPLE:
        return v.list->n != 0;
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        return v.dict->n != 0;
    case JV_RANGE:
        return v.range->n != 0;
    default:
        return true;
    }
}

bool jv_is_integer(struct jv v)
{
    return v.kind == JV_BOOL || v.kind == JV_INT || v.kind == JV_WIDE;
}

bool jv_is_number(struct jv v)
{
    return jv_is_integer(v) || v.kind == JV_FLOAT;
}

__int128 jv_integer(struct jv v)
{
    return v.kind == JV_WIDE ? *v.wide : v.kind == JV_BOOL ? (__int128)v.b : (__int128)v.i;
}

double jv_double(struct jv v)
{
    return v.kind == JV_FLOAT ? v.f : (double)jv_integer(v);
}

bool jv_is_hashable(struct jv v)
{
    if (v.kind == JV_TUPLE) {
        for (size_t i = 0; i < v.list->n; i++)
            if (!jv_is_hashable(v.list->items[i]))
                return false;
        return true;
    }
    return v.kind != JV_LIST && v.kind != JV_DICT && v.kind != JV_KEYS && v.kind != JV_ITEMS;
}

bool jv_is_callable(struct jv v)
{
    return v.kind == JV_UNDEFINED || v.kind == JV_MACRO || v.kind == JV_FUNCTION ||
           v.kind == JV_METHOD || v.kind == JV_LOOP || v.kind == JV_JOINER;
}

bool jv_is_iterable(struct jv v)
{
    switch (v.kind) {
    case JV_UNDEFINED:
    case JV_STRING:
    case JV_BYTES:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
    case JV_RANGE:
    case JV_GENERATOR:
    case JV_LOOP:
        return true;
    default:
        return false;
    }
}

struct jv jv_length(struct jinja *r, struct jv v)
{
    switch (v.kind) {
    case JV_UNDEFINED:
        return jv_int(0);
    case JV_STRING:
        return jv_size(jstr_chars(v.s));
    case JV_BYTES:
        return jv_size(v.s->len);
    case JV_LIST:
    case JV_TUPLE:
        return jv_size(v.list->n);
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        return jv_size(v.dict->n);
    case JV_RANGE:
        return jv_size(v.range->n);
    default:
        return jv_fail(r, JINJA_FAILURE_VALUE, "object of type '%s' has no len()",
                       jv_type_name(v));
    }
}
