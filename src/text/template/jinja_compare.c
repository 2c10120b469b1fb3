/* Equality, order and membership, as Python has them. */
#include <math.h>

#include "text/template/jinja_value.h"

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
