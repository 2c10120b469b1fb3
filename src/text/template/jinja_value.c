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

/* --- dicts: entries in the order of insertion; an index over them once there are many ------- */

#define DICT_INDEX_FROM 9

struct jdict *jdict_new(struct jinja *r, size_t capacity)
{
    struct jdict *d = jinja_alloc(r, 1, sizeof *d);
    struct jentry *entries = d ? jinja_alloc(r, capacity, sizeof *entries) : NULL;
    if (!entries)
        return NULL;
    *d = (struct jdict){ .entries = entries, .capacity = capacity };
    return d;
}

static uint64_t key_hash(struct jv key)
{
    switch (key.kind) {
    case JV_STRING:
        return str_hash(jstr_str(key.s));
    case JV_BOOL:
    case JV_INT:
    case JV_WIDE:
    case JV_FLOAT: {
        double d = jv_double(key) + 0.0;
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return (bits ^ (bits >> 29)) * 0x9E3779B97F4A7C15u >> 7;
    }
    case JV_TUPLE: {
        uint64_t h = 17;
        for (size_t i = 0; i < key.list->n; i++)
            h = h * 1000003u + key_hash(key.list->items[i]);
        return h;
    }
    default:
        return 1;
    }
}

static size_t dict_find(struct jinja *r, const struct jdict *d, struct jv key)
{
    if (!d->index && key.kind == JV_STRING) {
        for (size_t i = 0; i < d->n; i++)
            if (d->entries[i].key.kind == JV_STRING && d->entries[i].key.s->len == key.s->len &&
                memcmp(d->entries[i].key.s->ptr, key.s->ptr, key.s->len) == 0)
                return i;
        return d->n;
    }
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (jv_equal(r, d->entries[i].key, key))
                return i;
        return d->n;
    }
    size_t mask = d->n_index - 1;
    for (size_t at = key_hash(key) & mask; d->index[at]; at = (at + 1) & mask)
        if (jv_equal(r, d->entries[d->index[at] - 1].key, key))
            return d->index[at] - 1;
    return d->n;
}

static void index_put(struct jdict *d, size_t entry)
{
    size_t mask = d->n_index - 1;
    size_t at = key_hash(d->entries[entry].key) & mask;
    while (d->index[at])
        at = (at + 1) & mask;
    d->index[at] = (uint32_t)entry + 1;
}

static bool index_grow(struct jinja *r, struct jdict *d)
{
    size_t n_index = 32;
    while (n_index < 3 * d->n)
        n_index *= 2;
    uint32_t *index = jinja_alloc(r, n_index, sizeof *index);
    if (!index)
        return false;
    memset(index, 0, n_index * sizeof *index);
    d->index = index;
    d->n_index = n_index;
    for (size_t i = 0; i < d->n; i++)
        index_put(d, i);
    return true;
}

bool jdict_set(struct jinja *r, struct jdict *d, struct jv key, struct jv value)
{
    size_t i = dict_find(r, d, key);
    if (i < d->n) {
        d->entries[i].value = value;
        return true;
    }
    if (d->n == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 4;
        struct jentry *entries = jinja_alloc(r, capacity, sizeof *entries);
        if (!entries)
            return false;
        if (d->n)
            memcpy(entries, d->entries, d->n * sizeof *entries);
        d->entries = entries;
        d->capacity = capacity;
    }
    d->entries[d->n++] = (struct jentry){ key, value };
    if (d->n < DICT_INDEX_FROM)
        return true;
    if (!d->index || 2 * d->n > d->n_index)
        return index_grow(r, d);
    index_put(d, d->n - 1);
    return true;
}

bool jdict_get(struct jinja *r, struct jdict *d, struct jv key, struct jv *value)
{
    size_t i = dict_find(r, d, key);
    if (i == d->n)
        return false;
    *value = d->entries[i].value;
    return true;
}

bool jdict_get_str(struct jinja *r, struct jdict *d, struct str key, struct jv *value)
{
    struct jstr s = { .ptr = key.ptr, .len = key.len, .n_chars = JSTR_UNCOUNTED };
    return jdict_get(r, d, jv_of_str(&s), value);
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
    if (d->n >= DICT_INDEX_FROM && !index_grow(r, d))
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

static bool lists_equal(struct jinja *r, const struct jlist *a, const struct jlist *b)
{
    if (a->n != b->n || !jinja_step(r, a->n / 4))
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!jv_equal(r, a->items[i], b->items[i]))
            return false;
    return true;
}

static bool dicts_equal(struct jinja *r, struct jdict *a, struct jdict *b)
{
    if (a->n != b->n || !jinja_step(r, a->n / 4))
        return false;
    for (size_t i = 0; i < a->n; i++) {
        struct jv other;
        if (!jdict_get(r, b, a->entries[i].key, &other) ||
            !jv_equal(r, a->entries[i].value, other))
            return false;
    }
    return true;
}

static bool numbers_equal(struct jv a, struct jv b)
{
    if (jv_is_integer(a) && jv_is_integer(b))
        return jv_integer(a) == jv_integer(b);
    if (a.kind == JV_FLOAT && b.kind == JV_FLOAT)
        return a.f == b.f;
    double f = a.kind == JV_FLOAT ? a.f : b.f;
    __int128 i = jv_integer(a.kind == JV_FLOAT ? b : a);
    return fabs(f) < 1e38 && f == trunc(f) && (__int128)f == i;
}

static bool kinds_equal(struct jinja *r, struct jv a, struct jv b)
{
    switch (a.kind) {
    case JV_UNDEFINED:
    case JV_NONE:
        return true;
    case JV_STRING:
    case JV_BYTES:
        return a.s == b.s || str_eq(jstr_str(a.s), jstr_str(b.s));
    case JV_LIST:
    case JV_TUPLE:
        return a.list == b.list || lists_equal(r, a.list, b.list);
    case JV_DICT:
    case JV_KEYS:
    case JV_ITEMS:
        return a.dict == b.dict || dicts_equal(r, a.dict, b.dict);
    case JV_RANGE:
        return a.range->n == b.range->n &&
               (a.range->n == 0 || (a.range->start == b.range->start &&
                                    (a.range->n == 1 || a.range->step == b.range->step)));
    case JV_METHOD:
        return a.method->method == b.method->method && jv_same(a.method->object, b.method->object);
    default:
        return a.dict == b.dict;
    }
}

bool jv_equal(struct jinja *r, struct jv a, struct jv b)
{
    if (jv_is_number(a) && jv_is_number(b))
        return numbers_equal(a, b);
    if (a.kind != b.kind)
        return false;
    if (r->depth > 4 * JINJA_MAX_DEPTH) {
        (void)jv_fail(r, JINJA_FAILURE_LIMIT, "values nested too deep to compare");
        return false;
    }
    r->depth++;
    bool equal = kinds_equal(r, a, b);
    r->depth--;
    return equal;
}

bool jv_same(struct jv a, struct jv b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case JV_NONE:
        return true;
    case JV_BOOL:
        return a.b == b.b;
    case JV_INT:
        return a.i == b.i;
    case JV_FLOAT:
        return memcmp(&a.f, &b.f, sizeof a.f) == 0;
    default:
        return a.dict == b.dict;
    }
}

static struct jv unordered(struct jinja *r, struct jv a, struct jv b, const char *op)
{
    return jv_fail(r, JINJA_FAILURE_VALUE,
                   "'%s' not supported between instances of '%s' and '%s'", op, jv_type_name(a),
                   jv_type_name(b));
}

static bool number_less(struct jv a, struct jv b, bool or_equal)
{
    if (jv_is_integer(a) && jv_is_integer(b))
        return or_equal ? jv_integer(a) <= jv_integer(b) : jv_integer(a) < jv_integer(b);
    return or_equal ? jv_double(a) <= jv_double(b) : jv_double(a) < jv_double(b);
}

/* a < b, or a <= b; `op` is what the template wrote, for the message. */
struct jv jv_less(struct jinja *r, struct jv a, struct jv b, const char *op, bool or_equal)
{
    if (jv_is_number(a) && jv_is_number(b))
        return jv_bool(number_less(a, b, or_equal));
    if (a.kind == JV_UNDEFINED || b.kind == JV_UNDEFINED)
        return jv_undefined_error(r, a.kind == JV_UNDEFINED ? a : b);
    if (a.kind != b.kind)
        return unordered(r, a, b, op);
    if (a.kind == JV_STRING || a.kind == JV_BYTES) {
        int c = str_compare(jstr_str(a.s), jstr_str(b.s));
        return jv_bool(or_equal ? c <= 0 : c < 0);
    }
    if (a.kind != JV_LIST && a.kind != JV_TUPLE)
        return unordered(r, a, b, op);
    size_t n = MIN(a.list->n, b.list->n);
    for (size_t i = 0; i < n; i++) {
        if (!jinja_step(r, 1))
            return (struct jv){ .kind = JV_FAILURE };
        if (jv_equal(r, a.list->items[i], b.list->items[i]))
            continue;
        if (r->depth > 4 * JINJA_MAX_DEPTH)
            return jv_fail(r, JINJA_FAILURE_LIMIT, "values nested too deep to compare");
        r->depth++;
        struct jv less = jv_less(r, a.list->items[i], b.list->items[i], op, or_equal);
        r->depth--;
        return less;
    }
    return jv_bool(or_equal ? a.list->n <= b.list->n : a.list->n < b.list->n);
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

static bool range_contains(const struct jrange *range, struct jv item)
{
    if (!jv_is_number(item) || (item.kind == JV_FLOAT && item.f != trunc(item.f)) ||
        fabs(jv_double(item)) > 1e15 || range->n == 0)
        return false;
    int64_t i = (int64_t)jv_double(item);
    int64_t last = range->start + (int64_t)(range->n - 1) * range->step;
    return i >= MIN(range->start, last) && i <= MAX(range->start, last) &&
           (i - range->start) % range->step == 0;
}

struct jv jv_contains(struct jinja *r, struct jv item, struct jv container)
{
    struct jv value;
    switch (container.kind) {
    case JV_STRING:
    case JV_BYTES:
        if (item.kind != container.kind)
            return jv_fail(r, JINJA_FAILURE_VALUE,
                           "'in <string>' requires string as left operand, not %s",
                           jv_type_name(item));
        if (!jinja_step(r, container.s->len / 256))
            return (struct jv){ .kind = JV_FAILURE };
        return jv_bool(str_find(jstr_str(container.s), jstr_str(item.s), 0) != STR_NONE);
    case JV_DICT:
    case JV_KEYS:
        if (!jv_is_hashable(item))
            return jv_fail(r, JINJA_FAILURE_VALUE, "unhashable type: '%s'", jv_type_name(item));
        return jv_bool(jdict_get(r, container.dict, item, &value));
    case JV_RANGE:
        return jv_bool(range_contains(container.range, item));
    default:
        break;
    }
    if (!jv_is_iterable(container))
        return jv_fail(r, JINJA_FAILURE_VALUE, "argument of type '%s' is not iterable",
                       jv_type_name(container));
    struct jiter it;
    JV_TRY(started, jiter_init(r, &it, container));
    while (jiter_next(r, &it, &value))
        if (jv_equal(r, value, item))
            return jv_bool(true);
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jv_bool(false);
}

/* --- characters ----------------------------------------------------------------------------- */

size_t jstr_chars(struct jstr *s)
{
    if (s->n_chars == JSTR_UNCOUNTED)
        s->n_chars = utf8_count(jstr_str(s));
    return s->n_chars;
}

size_t jstr_offset(struct jstr *s, size_t n_chars)
{
    size_t total = jstr_chars(s);
    if (n_chars >= total)
        return s->len;
    if (total == s->len)
        return n_chars;
    size_t at = 0;
    for (; n_chars; n_chars--)
        do
            at++;
        while (at < s->len && ((unsigned char)s->ptr[at] & 0xC0) == 0x80);
    return at;
}

/* --- walking -------------------------------------------------------------------------------- */

struct jv jiter_init(struct jinja *r, struct jiter *it, struct jv v)
{
    *it = (struct jiter){ .source = v, .counted = true };
    if (!jv_is_iterable(v))
        return jv_fail(r, JINJA_FAILURE_VALUE, "'%s' object is not iterable", jv_type_name(v));
    if (v.kind == JV_GENERATOR || v.kind == JV_LOOP) {
        it->counted = false;
        return v.kind == JV_LOOP
                   ? jv_fail(r, JINJA_FAILURE_VALUE, "a loop cannot be walked a second time")
                   : jv_none();
    }
    JV_TRY(n, jv_length(r, v));
    it->n = (size_t)n.i;
    return jv_none();
}

static bool entry_item(struct jinja *r, const struct jentry *e, unsigned kind, struct jv *item)
{
    if (kind != JV_ITEMS) {
        *item = kind == JV_VALUES ? e->value : e->key;
        return true;
    }
    struct jlist *pair = jlist_new(r, 2);
    if (!pair)
        return false;
    pair->n = 2;
    pair->items[0] = e->key;
    pair->items[1] = e->value;
    *item = (struct jv){ .kind = JV_TUPLE, .list = pair };
    return true;
}

static bool string_item(struct jinja *r, struct jiter *it, struct jv *item)
{
    struct jstr *s = it->source.s;
    if (it->at >= s->len)
        return false;
    uint32_t c;
    size_t n = it->source.kind == JV_BYTES ? 1 : utf8_decode(s->ptr + it->at, s->len - it->at, &c);
    *item = it->source.kind == JV_BYTES ? jv_int((unsigned char)s->ptr[it->at])
                                        : jv_slice(r, s, it->at, it->at + n);
    it->at += n;
    return !JV_IS_FAILURE(*item);
}

bool jiter_next(struct jinja *r, struct jiter *it, struct jv *item)
{
    struct jv source = it->source;
    if (!jinja_step(r, 1))
        return false;
    switch (source.kind) {
    case JV_STRING:
    case JV_BYTES:
        return string_item(r, it, item);
    case JV_LIST:
    case JV_TUPLE:
        if (it->at >= source.list->n)
            return false;
        *item = source.list->items[it->at++];
        return true;
    case JV_GENERATOR:
        if (source.list->taken >= source.list->n)
            return false;
        *item = source.list->items[source.list->taken++];
        return true;
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        return it->at < source.dict->n &&
               entry_item(r, &source.dict->entries[it->at++], source.kind, item);
    case JV_RANGE:
        if (it->at >= source.range->n)
            return false;
        *item = jv_int(source.range->start + (int64_t)it->at++ * source.range->step);
        return true;
    default:
        return false;
    }
}

struct jv jv_list_of(struct jinja *r, struct jv v)
{
    struct jiter it;
    JV_TRY(started, jiter_init(r, &it, v));
    struct jlist *l = jlist_new(r, it.n);
    struct jv item;
    while (l && jiter_next(r, &it, &item))
        if (!jlist_push(r, l, item))
            break;
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jv_of_list(l);
}
