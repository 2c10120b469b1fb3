/* Filters of sequences. */
#include "base/number.h"
#include "text/template/jinja_ast.h"
#include "text/template/jinja_filters.h"

static struct jv failure(void)
{
    return (struct jv){ .kind = JV_FAILURE };
}

static struct jv generator(struct jlist *l)
{
    return (struct jv){ .kind = JV_GENERATOR, .list = l };
}

static struct jv nothing(struct jinja *r, const char *why)
{
    struct jv text = jv_literal(r, why);
    return JV_IS_FAILURE(text) ? text : jv_undefined(text.s);
}

/* --- attribute paths ("a.b.0"), as many filters take them ----------------------------------- */

static struct jv path_part(struct jinja *r, struct jv item, struct str part)
{
    uint64_t index;
    bool digits = part.len > 0 && part.ptr[0] >= '0' && part.ptr[0] <= '9';
    if (digits && number_parse_u64(part, &index) && index < INT64_MAX)
        return jinja_subscript(r, item, jv_int((int64_t)index));
    JV_TRY(name, jv_text(r, part.ptr, part.len, JSTR_OWN));
    return jinja_subscript(r, item, name);
}

static struct jv path_value(struct jinja *r, struct jv item, struct str path, struct jv fallback)
{
    size_t at = 0;
    for (;;) {
        size_t end = at;
        while (end < path.len && path.ptr[end] != '.')
            end++;
        item = path_part(r, item, str_slice(path, at, end));
        if (item.kind == JV_UNDEFINED && jarg_given(fallback) && fallback.kind != JV_NONE)
            item = fallback;
        if (JV_IS_FAILURE(item) || end == path.len)
            return item;
        at = end + 1;
    }
}

/* The item's attribute, or the item itself where there is none to look up. */
static struct jv attribute_of(struct jinja *r, struct jv item, struct jv attribute,
                              struct jv fallback)
{
    if (!jarg_given(attribute) || attribute.kind == JV_NONE)
        return item;
    if (attribute.kind == JV_STRING)
        return path_value(r, item, jstr_str(attribute.s), fallback);
    JV_TRY(v, jinja_subscript(r, item, attribute));
    return v.kind == JV_UNDEFINED && jarg_given(fallback) && fallback.kind != JV_NONE ? fallback
                                                                                      : v;
}

static struct jv fold_case(struct jinja *r, struct jv v, struct jv case_sensitive)
{
    bool sensitive = jarg_given(case_sensitive) && jv_truth(case_sensitive);
    return v.kind == JV_STRING && !sensitive ? jtext_lower(r, v.s) : v;
}

static struct jv sort_key(struct jinja *r, struct jv item, struct jv attribute,
                          struct jv case_sensitive, struct jv fallback)
{
    JV_TRY(v, attribute_of(r, item, attribute, fallback));
    return fold_case(r, v, case_sensitive);
}

/* --- sorting: a stable merge sort over (key, item) ------------------------------------------ */

static bool merge(struct jinja *r, struct jentry *e, struct jentry *spare, size_t n, bool reverse)
{
    if (n < 2)
        return true;
    size_t half = n / 2, a = 0, b = half;
    if (!merge(r, e, spare, half, reverse) || !merge(r, e + half, spare, n - half, reverse) ||
        !jinja_step(r, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool second = a == half;
        if (!second && b < n) {
            struct jv less = reverse ? jv_less(r, e[a].key, e[b].key, "<", false)
                                     : jv_less(r, e[b].key, e[a].key, "<", false);
            if (JV_IS_FAILURE(less))
                return false;
            second = less.b;
        }
        spare[i] = second ? e[b++] : e[a++];
    }
    memcpy(e, spare, n * sizeof *e);
    return true;
}

static bool sort_entries(struct jinja *r, struct jentry *e, size_t n, bool reverse)
{
    struct jentry *spare = jinja_alloc(r, n, sizeof *spare);
    return spare && merge(r, e, spare, n, reverse);
}

/* "a,b.c": several attributes at once, compared in turn. */
static struct jv multi_key(struct jinja *r, struct jv item, struct jv attribute,
                           struct jv case_sensitive)
{
    struct jv none = { 0 };
    struct jlist *keys = jlist_new(r, 2);
    if (attribute.kind != JV_STRING || !memchr(attribute.s->ptr, ',', attribute.s->len)) {
        JV_TRY(key, sort_key(r, item, attribute, case_sensitive, none));
        /* In a list undefined ones are equal; by themselves they cannot be compared. */
        if (key.kind != JV_UNDEFINED)
            return key;
        return keys && jlist_push(r, keys, key) ? jv_of_list(keys) : failure();
    }
    struct str path = jstr_str(attribute.s);
    for (size_t at = 0; keys && at <= path.len;) {
        size_t end = at;
        while (end < path.len && path.ptr[end] != ',')
            end++;
        JV_TRY(v, path_value(r, item, str_slice(path, at, end), none));
        JV_TRY(key, fold_case(r, v, case_sensitive));
        if (!jlist_push(r, keys, key))
            return failure();
        at = end + 1;
    }
    return keys ? jv_of_list(keys) : failure();
}

static struct jv list_of_entries(struct jinja *r, const struct jentry *e, size_t n)
{
    struct jlist *l = jlist_new(r, n);
    if (!l)
        return failure();
    for (size_t i = 0; i < n; i++)
        l->items[l->n++] = e[i].value;
    return jv_of_list(l);
}

struct jv filter_sort(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(list, jv_list_of(r, self));
    size_t n = list.list->n;
    struct jentry *e = jinja_alloc(r, n, sizeof *e);
    if (!e)
        return failure();
    for (size_t i = 0; i < n; i++) {
        JV_TRY(key, multi_key(r, list.list->items[i], arg[2], arg[1]));
        e[i] = (struct jentry){ key, list.list->items[i] };
    }
    if (!sort_entries(r, e, n, jarg_given(arg[0]) && jv_truth(arg[0])))
        return failure();
    return list_of_entries(r, e, n);
}

static struct jv pair_of(struct jinja *r, struct jv a, struct jv b, unsigned flags)
{
    struct jlist *pair = jlist_new(r, 2);
    if (!pair)
        return failure();
    pair->items[0] = a;
    pair->items[1] = b;
    pair->n = 2;
    return (struct jv){ .kind = JV_TUPLE, .flags = (uint8_t)flags, .list = pair };
}

struct jv filter_dict_sort(struct jinja *r, struct jv self, struct jv *arg)
{
    bool by_value = false;
    if (jarg_given(arg[1])) {
        JV_TRY(by, jarg_string(r, arg[1], "dictsort: by"));
        by_value = str_is(jstr_str(by.s), "value");
        if (!by_value && !str_is(jstr_str(by.s), "key"))
            return jv_fail(r, JINJA_FAILURE_VALUE,
                           "You can only sort by either \"key\" or \"value\"");
    }
    if (self.kind != JV_DICT)
        return self.kind == JV_UNDEFINED ? jv_undefined_error(r, self)
                                         : jv_fail(r, JINJA_FAILURE_VALUE,
                                                   "dictsort: expected a mapping, got %s",
                                                   jv_type_name(self));
    size_t n = self.dict->n;
    struct jentry *e = jinja_alloc(r, n, sizeof *e);
    if (!e)
        return failure();
    for (size_t i = 0; i < n; i++) {
        struct jentry from = self.dict->entries[i];
        JV_TRY(key, fold_case(r, by_value ? from.value : from.key, arg[0]));
        JV_TRY(pair, pair_of(r, from.key, from.value, 0));
        e[i] = (struct jentry){ key, pair };
    }
    if (!sort_entries(r, e, n, jarg_given(arg[2]) && jv_truth(arg[2])))
        return failure();
    return list_of_entries(r, e, n);
}

/* arg: attribute, default, case_sensitive */
struct jv filter_group_by(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(list, jv_list_of(r, self));
    size_t n = list.list->n;
    struct jentry *e = jinja_alloc(r, n, sizeof *e);
    struct jlist *groups = e ? jlist_new(r, 4) : NULL;
    if (!groups)
        return failure();
    for (size_t i = 0; i < n; i++) {
        JV_TRY(key, sort_key(r, list.list->items[i], arg[0], arg[2], arg[1]));
        e[i] = (struct jentry){ key, list.list->items[i] };
    }
    if (!sort_entries(r, e, n, false))
        return failure();
    for (size_t i = 0; i < n;) {
        struct jlist *members = jlist_new(r, 4);
        size_t first = i;
        for (; members && i < n && jv_equal(r, e[i].key, e[first].key); i++)
            if (!jlist_push(r, members, e[i].value))
                return failure();
        if (!members || i == first)
            return jv_fail(r, JINJA_FAILURE_VALUE, "groupby: a key differs from itself");
        JV_TRY(name, attribute_of(r, e[first].value, arg[0], arg[1]));
        JV_TRY(group, pair_of(r, name, jv_of_list(members), JV_GROUP));
        if (!jlist_push(r, groups, group))
            return failure();
    }
    return jv_of_list(groups);
}

/* --- one value of many ---------------------------------------------------------------------- */

static struct jv extreme(struct jinja *r, struct jv self, struct jv *arg, bool largest)
{
    struct jiter it;
    struct jv item, best = { 0 }, best_key = { 0 };
    JV_TRY(started, jiter_init(r, &it, self));
    while (jiter_next(r, &it, &item)) {
        JV_TRY(key, sort_key(r, item, arg[1], arg[0], (struct jv){ 0 }));
        if (jarg_given(best)) {
            struct jv less = largest ? jv_less(r, best_key, key, ">", false)
                                     : jv_less(r, key, best_key, "<", false);
            if (JV_IS_FAILURE(less))
                return less;
            if (!less.b)
                continue;
        }
        best = item;
        best_key = key;
    }
    if (r->failure)
        return failure();
    return jarg_given(best) ? best : nothing(r, "No aggregated item, sequence was empty.");
}

struct jv filter_min(struct jinja *r, struct jv self, struct jv *arg)
{
    return extreme(r, self, arg, false);
}

struct jv filter_max(struct jinja *r, struct jv self, struct jv *arg)
{
    return extreme(r, self, arg, true);
}

struct jv filter_sum(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jv sum = jarg_given(arg[1]) ? arg[1] : jv_int(0), item;
    struct jiter it;
    if (sum.kind == JV_STRING)
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       "sum() can't sum strings [use ''.join(seq) instead]");
    JV_TRY(started, jiter_init(r, &it, self));
    while (jiter_next(r, &it, &item)) {
        JV_TRY(v, attribute_of(r, item, arg[0], (struct jv){ 0 }));
        sum = jinja_binary(r, JOP_ADD, sum, v);
        if (JV_IS_FAILURE(sum))
            return sum;
    }
    return r->failure ? failure() : sum;
}

struct jv filter_first(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    struct jiter it;
    struct jv item;
    JV_TRY(started, jiter_init(r, &it, self));
    if (jiter_next(r, &it, &item))
        return item;
    return r->failure ? failure() : nothing(r, "No first item, sequence was empty.");
}

static struct jv not_reversible(struct jinja *r, struct jv v)
{
    return jv_fail(r, JINJA_FAILURE_VALUE, "'%s' object is not reversible", jv_type_name(v));
}

struct jv filter_last(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    if (self.kind == JV_GENERATOR || !jv_is_iterable(self))
        return self.kind == JV_UNDEFINED ? jv_undefined_error(r, self) : not_reversible(r, self);
    if (self.kind == JV_LIST || self.kind == JV_TUPLE)
        return self.list->n ? self.list->items[self.list->n - 1]
                            : nothing(r, "No last item, sequence was empty.");
    JV_TRY(list, jv_list_of(r, self));
    return list.list->n ? list.list->items[list.list->n - 1]
                        : nothing(r, "No last item, sequence was empty.");
}

/* A random choice would make prompts that differ from run to run. */
struct jv filter_random(struct jinja *r, struct jv self, struct jv *arg)
{
    return filter_first(r, self, arg);
}

struct jv filter_length(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return jv_length(r, self);
}

/* --- sequences of sequences ----------------------------------------------------------------- */

struct jv filter_list(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return jv_list_of(r, self);
}

struct jv filter_items(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    if (self.kind == JV_UNDEFINED) {
        struct jlist *none = jlist_new(r, 0);
        return none ? generator(none) : failure();
    }
    if (self.kind != JV_DICT)
        return jv_fail(r, JINJA_FAILURE_VALUE, "Can only get item pairs from a mapping.");
    self.kind = JV_ITEMS;
    JV_TRY(list, jv_list_of(r, self));
    return generator(list.list);
}

struct jv filter_reverse(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    struct jv part[3] = { { 0 }, { 0 }, jv_int(-1) };
    if (self.kind == JV_STRING)
        return jinja_slice(r, self, part);
    if (!jv_is_iterable(self))
        return jv_fail(r, JINJA_FAILURE_VALUE, "argument must be iterable");
    JV_TRY(list, jv_list_of(r, self));
    struct jlist *l = list.list;
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jv swap = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = swap;
    }
    return self.kind == JV_GENERATOR ? list : generator(l);
}

struct jv filter_join(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jv separator = jarg_given(arg[0]) ? jv_to_string(r, arg[0]) : jv_literal(r, "");
    struct jiter it;
    struct jv item;
    struct jbuild b;
    if (JV_IS_FAILURE(separator))
        return separator;
    JV_TRY(started, jiter_init(r, &it, self));
    jbuild_init(&b, r, 0);
    for (bool first = true; jiter_next(r, &it, &item); first = false) {
        JV_TRY(v, attribute_of(r, item, arg[1], (struct jv){ 0 }));
        if (!first)
            jbuild_str(&b, separator.s);
        jformat_str(&b, v);
        if (b.failed)
            return failure();
    }
    return r->failure ? failure() : jbuild_finish(&b);
}

struct jv filter_batch(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t size;
    struct jiter it;
    struct jv item;
    JV_TRY(ok, jarg_integer(r, arg[0], &size));
    JV_TRY(started, jiter_init(r, &it, self));
    struct jlist *rows = jlist_new(r, 4), *row = NULL;
    bool fill = jarg_given(arg[1]) && arg[1].kind != JV_NONE;
    while (rows && jiter_next(r, &it, &item)) {
        if (!row || (int64_t)row->n == size) {
            row = jlist_new(r, 4);
            if (!row || !jlist_push(r, rows, jv_of_list(row)))
                return failure();
        }
        if (!jlist_push(r, row, item))
            return failure();
    }
    while (fill && row && !r->failure && (int64_t)row->n < size)
        if (!jinja_step(r, 1) || !jlist_push(r, row, arg[1]))
            return failure();
    return r->failure ? failure() : generator(rows);
}

struct jv filter_slice(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t slices;
    JV_TRY(ok, jarg_integer(r, arg[0], &slices));
    JV_TRY(list, jv_list_of(r, self));
    if (slices == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "integer division or modulo by zero");
    struct jlist *rows = jlist_new(r, 4);
    size_t count = slices > 0 ? (size_t)slices : 0, n = list.list->n, at = 0;
    bool fill = jarg_given(arg[1]) && arg[1].kind != JV_NONE;
    for (size_t i = 0; rows && i < count; i++) {
        size_t size = n / count + (i < n % count);
        struct jlist *row = jlist_new(r, size + 1);
        if (!row || !jinja_step(r, 1) || !jlist_push(r, rows, jv_of_list(row)))
            return failure();
        for (size_t k = 0; k < size; k++)
            row->items[row->n++] = list.list->items[at++];
        if (fill && i >= n % count)
            row->items[row->n++] = arg[1];
    }
    return rows ? generator(rows) : failure();
}

struct jv filter_unique(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jiter it;
    struct jv item, seen_before;
    JV_TRY(started, jiter_init(r, &it, self));
    struct jlist *l = jlist_new(r, 4);
    struct jdict *seen = l ? jdict_new(r, 4) : NULL;
    while (seen && jiter_next(r, &it, &item)) {
        JV_TRY(key, sort_key(r, item, arg[1], arg[0], (struct jv){ 0 }));
        if (!jv_is_hashable(key))
            return jv_fail(r, JINJA_FAILURE_VALUE, "unhashable type: '%s'", jv_type_name(key));
        if (jdict_get(r, seen, key, &seen_before))
            continue;
        if (!jdict_set(r, seen, key, item) || !jlist_push(r, l, item))
            return failure();
    }
    return r->failure ? failure() : generator(l);
}

/* --- map, select, reject -------------------------------------------------------------------- */

static struct jargs rest_of(const struct jargs *args, size_t from)
{
    struct jargs rest = *args;
    from = MIN(from, args->n);
    rest.positional = args->positional ? args->positional + from : NULL;
    rest.n = args->n - from;
    return rest;
}

static const struct jv *named_argument(const struct jargs *args, const char *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (str_is(jstr_str(args->names[i]), name))
            return &args->named[i];
    return NULL;
}

static struct jv map_attribute(struct jinja *r, struct jv self, const struct jargs *args)
{
    const struct jv *attribute = named_argument(args, "attribute");
    const struct jv *fallback = named_argument(args, "default");
    struct jiter it;
    struct jv item;
    JV_TRY(started, jiter_init(r, &it, self));
    struct jlist *l = jlist_new(r, it.n);
    while (l && jiter_next(r, &it, &item)) {
        JV_TRY(v, attribute_of(r, item, *attribute, fallback ? *fallback : (struct jv){ 0 }));
        if (!jlist_push(r, l, v))
            return failure();
    }
    return r->failure ? failure() : generator(l);
}

struct jv filter_map(struct jinja *r, struct jv self, const struct jargs *args)
{
    struct jiter it;
    struct jv item;
    if (args->n == 0 && named_argument(args, "attribute"))
        return map_attribute(r, self, args);
    if (args->n == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "map requires a filter argument");
    JV_TRY(name, jarg_string(r, args->positional[0], "map: the filter"));
    const struct jinja_callable *filter = jinja_filter_find(jstr_str(name.s));
    if (!filter)
        return jv_fail(r, JINJA_FAILURE_VALUE, "No filter named '%.*s'.",
                       STR_ARG(jstr_str(name.s)));
    struct jargs rest = rest_of(args, 1);
    JV_TRY(started, jiter_init(r, &it, self));
    struct jlist *l = jlist_new(r, it.n);
    while (l && jiter_next(r, &it, &item)) {
        JV_TRY(v, jinja_run(r, filter, item, &rest));
        if (!jlist_push(r, l, v))
            return failure();
    }
    return r->failure ? failure() : generator(l);
}

static struct jv choose(struct jinja *r, struct jv self, const struct jargs *args,
                        bool by_attribute, bool wanted)
{
    struct jiter it;
    struct jv item, none = { 0 };
    const struct jinja_callable *test = NULL;
    size_t off = by_attribute;
    if (args->n < off)
        return jv_fail(r, JINJA_FAILURE_VALUE, "Missing parameter for attribute name");
    if (args->n > off) {
        JV_TRY(name, jarg_string(r, args->positional[off], "select: the test"));
        test = jinja_test_find(jstr_str(name.s));
        if (!test)
            return jv_fail(r, JINJA_FAILURE_VALUE, "No test named '%.*s'.",
                           STR_ARG(jstr_str(name.s)));
    }
    struct jargs rest = rest_of(args, off + 1);
    JV_TRY(started, jiter_init(r, &it, self));
    struct jlist *l = jlist_new(r, 4);
    while (l && jiter_next(r, &it, &item)) {
        JV_TRY(v, attribute_of(r, item, by_attribute ? args->positional[0] : none, none));
        struct jv result = test ? jinja_run(r, test, v, &rest) : jv_bool(jv_truth(v));
        if (JV_IS_FAILURE(result))
            return result;
        if (jv_truth(result) == wanted && !jlist_push(r, l, item))
            return failure();
    }
    return r->failure ? failure() : generator(l);
}

struct jv filter_select(struct jinja *r, struct jv self, const struct jargs *args)
{
    return choose(r, self, args, false, true);
}

struct jv filter_reject(struct jinja *r, struct jv self, const struct jargs *args)
{
    return choose(r, self, args, false, false);
}

struct jv filter_select_attr(struct jinja *r, struct jv self, const struct jargs *args)
{
    return choose(r, self, args, true, true);
}

struct jv filter_reject_attr(struct jinja *r, struct jv self, const struct jargs *args)
{
    return choose(r, self, args, true, false);
}
