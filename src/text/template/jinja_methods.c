/* Methods of lists, dicts, numbers, bytes, loops and cyclers, and the look-up of all methods.
 * Those of strings are in jinja_string_methods.c. */
#include "text/template/jinja_methods.h"

#include <math.h>

#include "text/template/jinja_eval.h"

/* --- lists and tuples ----------------------------------------------------------------------- */

static struct jv list_append(struct jinja *r, struct jv self, struct jv *arg)
{
    return jlist_push(r, self.list, arg[0]) ? jv_none() : jv_no_memory(r);
}

static struct jv list_pop(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t at = -1;
    struct jlist *l = self.list;
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &at));
    }
    if (l->n == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "pop from empty list");
    if (at < 0)
        at += (int64_t)l->n;
    if (at < 0 || at >= (int64_t)l->n)
        return jv_fail(r, JINJA_FAILURE_VALUE, "pop index out of range");
    if (!jinja_step(r, l->n / 16))
        return (struct jv){ .kind = JV_FAILURE };
    struct jv v = l->items[at];
    l->n--;
    for (size_t i = (size_t)at; i < l->n; i++)
        l->items[i] = l->items[i + 1];
    return v;
}

static struct jv list_count(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n && jinja_step(r, 1); i++)
        n += jv_equal(r, self.list->items[i], arg[0]);
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jv_int(n);
}

static struct jv list_index(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t from = 0, to = (int64_t)self.list->n;
    if (jarg_given(arg[1])) {
        JV_TRY(ok, jarg_integer(r, arg[1], &from));
        from = from < 0 ? MAX(from + (int64_t)self.list->n, 0) : from;
    }
    if (jarg_given(arg[2])) {
        int64_t n = to;
        JV_TRY(ok, jarg_integer(r, arg[2], &to));
        to = to < 0 ? to + n : MIN(to, n);
    }
    for (int64_t i = from; i < to && jinja_step(r, 1); i++)
        if (jv_equal(r, self.list->items[i], arg[0]))
            return jv_int(i);
    return jv_fail(r, JINJA_FAILURE_VALUE, "the value is not in the %s", jv_type_name(self));
}

static struct jv list_copy(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return jv_list_of(r, self);
}

/* --- dicts ---------------------------------------------------------------------------------- */

static struct jv dict_get(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jv v;
    if (!jv_is_hashable(arg[0]))
        return jv_fail(r, JINJA_FAILURE_VALUE, "unhashable type: '%s'", jv_type_name(arg[0]));
    if (jdict_get(r, self.dict, arg[0], &v))
        return v;
    return jarg_given(arg[1]) ? arg[1] : jv_none();
}

static struct jv dict_view(struct jv self, unsigned kind)
{
    self.kind = (uint8_t)kind;
    return self;
}

static struct jv dict_keys(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    return dict_view(self, JV_KEYS);
}

static struct jv dict_values(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    return dict_view(self, JV_VALUES);
}

static struct jv dict_items(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    return dict_view(self, JV_ITEMS);
}

static struct jv dict_copy(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    struct jdict *d = jdict_new(r, self.dict->n);
    for (size_t i = 0; d && i < self.dict->n; i++)
        if (!jinja_step(r, 1) ||
            !jdict_set(r, d, self.dict->entries[i].key, self.dict->entries[i].value))
            return jv_no_memory(r);
    return d ? (struct jv){ .kind = JV_DICT, .dict = d } : jv_no_memory(r);
}

/* dict.fromkeys(keys, value), also on the global function dict. */
static struct jv dict_from_keys(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jiter it;
    struct jv key;
    if (self.kind == JV_FUNCTION && strcmp(self.function->name, "dict") != 0)
        return jv_fail(r, JINJA_FAILURE_UNDEFINED, "'function object' has no attribute 'fromkeys'");
    JV_TRY(started, jiter_init(r, &it, arg[0]));
    struct jdict *d = jdict_new(r, it.n);
    while (d && jiter_next(r, &it, &key)) {
        if (!jv_is_hashable(key))
            return jv_fail(r, JINJA_FAILURE_VALUE, "unhashable type: '%s'", jv_type_name(key));
        if (!jdict_set(r, d, key, jarg_given(arg[1]) ? arg[1] : jv_none()))
            return jv_no_memory(r);
    }
    return r->failure ? (struct jv){ .kind = JV_FAILURE }
                      : (struct jv){ .kind = JV_DICT, .dict = d };
}

/* --- numbers, bytes, cyclers ---------------------------------------------------------------- */

static struct jv int_bit_length(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    __int128 i = jv_integer(self);
    int64_t n = 0;
    for (unsigned __int128 u = i < 0 ? -(unsigned __int128)i : (unsigned __int128)i; u; u >>= 1)
        n++;
    return jv_int(n);
}

static struct jv int_to_bytes(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t n = 1;
    bool big = true;
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &n));
    }
    if (jarg_given(arg[1])) {
        JV_TRY(order, jarg_string(r, arg[1], "to_bytes: byteorder"));
        big = str_is(jstr_str(order.s), "big");
    }
    __int128 i = jv_integer(self);
    if (i < 0 || n < 0 || n > 64 || (n < 16 && i >> (8 * n)))
        return jv_fail(r, JINJA_FAILURE_VALUE, "int too big to convert");
    char *bytes = jinja_alloc(r, (size_t)n + 1, 1);
    if (!bytes)
        return jv_no_memory(r);
    for (int64_t k = 0; k < n; k++) {
        int64_t at = big ? n - 1 - k : k;
        bytes[at] = (char)(k < 16 ? (i >> (8 * k)) & 0xFF : 0);
    }
    JV_TRY(text, jv_text(r, bytes, (size_t)n, JSTR_OWN));
    text.kind = JV_BYTES;
    return text;
}

static struct jv float_is_integer(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    return jv_bool(self.kind != JV_FLOAT || (isfinite(self.f) && self.f == trunc(self.f)));
}

static struct jv bytes_decode(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    self.kind = JV_STRING;
    return self;
}

static struct jv cycler_next(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    struct jcycler *c = self.cycler;
    struct jv v = c->items->items[c->at];
    c->at = (c->at + 1) % c->items->n;
    return v;
}

static struct jv cycler_reset(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    self.cycler->at = 0;
    return jv_none();
}

#define METHOD(object_kind, method_name, function, required, ...)                       \
    { .kind = object_kind, .name = method_name, .run = function, .n_required = required, \
      .parameters = { __VA_ARGS__ } }

static const struct jinja_callable methods[] = {
    METHOD(JV_LIST, "append", list_append, 1, "object"),
    METHOD(JV_LIST, "pop", list_pop, 0, "index"),
    METHOD(JV_LIST, "count", list_count, 1, "value"),
    METHOD(JV_LIST, "index", list_index, 1, "value", "start", "stop"),
    METHOD(JV_LIST, "copy", list_copy, 0, NULL),
    METHOD(JV_TUPLE, "count", list_count, 1, "value"),
    METHOD(JV_TUPLE, "index", list_index, 1, "value", "start", "stop"),
    METHOD(JV_DICT, "get", dict_get, 1, "key", "default"),
    METHOD(JV_DICT, "keys", dict_keys, 0, NULL),
    METHOD(JV_DICT, "values", dict_values, 0, NULL),
    METHOD(JV_DICT, "items", dict_items, 0, NULL),
    METHOD(JV_DICT, "copy", dict_copy, 0, NULL),
    METHOD(JV_DICT, "fromkeys", dict_from_keys, 1, "iterable", "value"),
    METHOD(JV_FUNCTION, "fromkeys", dict_from_keys, 1, "iterable", "value"),
    METHOD(JV_INT, "bit_length", int_bit_length, 0, NULL),
    METHOD(JV_INT, "to_bytes", int_to_bytes, 0, "length", "byteorder", "signed"),
    METHOD(JV_INT, "is_integer", float_is_integer, 0, NULL),
    METHOD(JV_FLOAT, "is_integer", float_is_integer, 0, NULL),
    METHOD(JV_BYTES, "decode", bytes_decode, 0, "encoding", "errors"),
    METHOD(JV_CYCLER, "next", cycler_next, 0, NULL),
    METHOD(JV_CYCLER, "reset", cycler_reset, 0, NULL),
    { .kind = JV_LOOP, .name = "cycle", .run_all = jinja_loop_cycle },
    { .kind = JV_LOOP, .name = "changed", .run_all = jinja_loop_changed },
};

const struct jinja_callable *jinja_method_find(unsigned kind, struct str name)
{
    if (kind == JV_STRING)
        return jinja_string_method_find(name);
    if (kind == JV_BOOL || kind == JV_WIDE)
        kind = JV_INT;
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (methods[i].kind == kind && str_is(name, methods[i].name))
            return &methods[i];
    return NULL;
}

bool jinja_method_is_hidden(unsigned kind, struct str name)
{
    static const char *const of_list[] = { "append", "clear",  "extend",  "insert",
                                           "pop",    "remove", "reverse", "sort" };
    static const char *const of_dict[] = { "clear", "pop", "popitem", "setdefault", "update" };
    const char *const *names = kind == JV_LIST ? of_list : of_dict;
    size_t n = kind == JV_LIST ? ARRAY_SIZE(of_list) : kind == JV_DICT ? ARRAY_SIZE(of_dict) : 0;
    for (size_t i = 0; i < n; i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}
