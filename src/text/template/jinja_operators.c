/* Operators with Python's meaning. Integers have 127 bits; beyond that they fail. */
#include <math.h>

#include "text/template/jinja_ast.h"
#include "text/template/jinja_library.h"

static const char *const op_names[] = {
    [JOP_ADD] = "+", [JOP_SUB] = "-", [JOP_MUL] = "*", [JOP_DIV] = "/", [JOP_FLOOR_DIV] = "//",
    [JOP_MOD] = "%", [JOP_POW] = "** or pow()", [JOP_EQ] = "==", [JOP_NE] = "!=",
    [JOP_LT] = "<", [JOP_LE] = "<=", [JOP_GT] = ">", [JOP_GE] = ">=", [JOP_IN] = "in",
    [JOP_NOT_IN] = "not in",
};

static struct jv too_large(struct jinja *r)
{
    return jv_fail(r, JINJA_FAILURE_VALUE, "an integer result is too large");
}

static struct jv no_operator(struct jinja *r, unsigned op, struct jv a, struct jv b)
{
    return jv_fail(r, JINJA_FAILURE_VALUE, "unsupported operand type(s) for %s: '%s' and '%s'",
                   op_names[op], jv_type_name(a), jv_type_name(b));
}

static struct jv negated(struct jinja *r, __int128 i)
{
    __int128 result;
    return __builtin_sub_overflow((__int128)0, i, &result) ? too_large(r) : jv_wide(r, result);
}

static struct jv divide_integers(struct jinja *r, unsigned op, __int128 x, __int128 y)
{
    if (y == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       op == JOP_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op == JOP_DIV)
        return jv_float((double)x / (double)y);
    if (y == -1)
        return op == JOP_MOD ? jv_int(0) : negated(r, x);
    __int128 quotient = x / y, rest = x % y;
    if (rest && (rest < 0) != (y < 0)) {
        quotient--;
        rest += y;
    }
    return jv_wide(r, op == JOP_MOD ? rest : quotient);
}

static struct jv power_integers(struct jinja *r, __int128 base, __int128 exponent)
{
    __int128 result = 1;
    if (exponent < 0)
        return base == 0 ? jv_fail(r, JINJA_FAILURE_VALUE,
                                   "0.0 cannot be raised to a negative power")
                         : jv_float(pow((double)base, (double)exponent));
    if (base == 0 || base == 1)
        return jv_wide(r, exponent == 0 ? 1 : base);
    if (base == -1)
        return jv_int(exponent % 2 ? -1 : 1);
    for (; exponent; exponent--)
        if (__builtin_mul_overflow(result, base, &result))
            return too_large(r);
    return jv_wide(r, result);
}

static struct jv binary_integers(struct jinja *r, unsigned op, struct jv a, struct jv b)
{
    __int128 x = jv_integer(a), y = jv_integer(b), result = 0;
    bool overflow = false;
    switch (op) {
    case JOP_ADD:
        overflow = __builtin_add_overflow(x, y, &result);
        break;
    case JOP_SUB:
        overflow = __builtin_sub_overflow(x, y, &result);
        break;
    case JOP_MUL:
        overflow = __builtin_mul_overflow(x, y, &result);
        break;
    case JOP_POW:
        return power_integers(r, x, y);
    default:
        return divide_integers(r, op, x, y);
    }
    return overflow ? too_large(r) : jv_wide(r, result);
}

static double float_modulo(double x, double y)
{
    double rest = fmod(x, y);
    if (rest == 0)
        return copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

static struct jv binary_floats(struct jinja *r, unsigned op, double x, double y)
{
    switch (op) {
    case JOP_ADD:
        return jv_float(x + y);
    case JOP_SUB:
        return jv_float(x - y);
    case JOP_MUL:
        return jv_float(x * y);
    case JOP_POW:
        if (x < 0 && y != trunc(y))
            return jv_fail(r, JINJA_FAILURE_VALUE, "complex numbers are not supported");
        if (x == 0 && y < 0)
            return jv_fail(r, JINJA_FAILURE_VALUE, "0.0 cannot be raised to a negative power");
        return jv_float(pow(x, y));
    default:
        break;
    }
    if (y == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       op == JOP_DIV         ? "float division by zero"
                       : op == JOP_FLOOR_DIV ? "float floor division by zero"
                                             : "float modulo");
    if (op == JOP_DIV)
        return jv_float(x / y);
    double rest = float_modulo(x, y);
    return jv_float(op == JOP_MOD ? rest : round((x - rest) / y));
}

static struct jv add_lists(struct jinja *r, struct jv a, struct jv b)
{
    size_t n = a.list->n + b.list->n;
    struct jlist *sum = jinja_step(r, n / 8) ? jlist_new(r, n) : NULL;
    if (!sum)
        return (struct jv){ .kind = JV_FAILURE };
    if (a.list->n)
        memcpy(sum->items, a.list->items, a.list->n * sizeof *sum->items);
    if (b.list->n)
        memcpy(sum->items + a.list->n, b.list->items, b.list->n * sizeof *sum->items);
    sum->n = n;
    return (struct jv){ .kind = a.kind, .list = sum };
}

/* Markup escapes plain text that is added to it. */
static struct jv add_strings(struct jinja *r, struct jv a, struct jv b)
{
    if (a.s->markup == b.s->markup) {
        struct jv sum = jv_concat(r, (struct jstr *[]){ a.s, b.s }, 2);
        if (!JV_IS_FAILURE(sum) && a.s->markup)
            sum.s->markup = true;
        return sum;
    }
    struct jv plain = jtext_escape(r, a.s->markup ? b.s : a.s);
    if (JV_IS_FAILURE(plain))
        return plain;
    return add_strings(r, a.s->markup ? a : plain, a.s->markup ? plain : b);
}

static struct jv add(struct jinja *r, struct jv a, struct jv b)
{
    if (a.kind == JV_STRING && b.kind == JV_STRING)
        return add_strings(r, a, b);
    if (a.kind == b.kind && (a.kind == JV_LIST || a.kind == JV_TUPLE))
        return add_lists(r, a, b);
    if (a.kind == JV_STRING || a.kind == JV_LIST || a.kind == JV_TUPLE)
        return jv_fail(r, JINJA_FAILURE_VALUE, "can only concatenate %s (not \"%s\") to %s",
                       jv_type_name(a), jv_type_name(b), jv_type_name(a));
    return no_operator(r, JOP_ADD, a, b);
}

static struct jv repeat(struct jinja *r, struct jv v, __int128 count)
{
    size_t n = v.kind == JV_STRING ? v.s->len : v.list->n;
    if (count < 0)
        count = 0;
    if (n && count > (__int128)(JINJA_MAX_OUTPUT_BYTES / n))
        return jv_fail(r, JINJA_FAILURE_LIMIT, "a repeated value is too large");
    size_t times = n ? (size_t)count : 0;
    if (v.kind == JV_STRING) {
        struct jbuild b;
        jbuild_init(&b, r, n * times);
        for (size_t i = 0; i < times && !b.failed && jinja_step(r, 1); i++)
            jbuild_str(&b, v.s);
        struct jv text = jbuild_finish(&b);
        if (!JV_IS_FAILURE(text))
            text.s->markup = v.s->markup;
        return text;
    }
    struct jlist *l = jinja_step(r, n * times / 8) ? jlist_new(r, n * times) : NULL;
    if (!l)
        return (struct jv){ .kind = JV_FAILURE };
    for (size_t i = 0; i < times; i++)
        memcpy(l->items + i * n, v.list->items, n * sizeof *l->items);
    l->n = n * times;
    return (struct jv){ .kind = v.kind, .list = l };
}

static bool is_repeatable(struct jv v)
{
    return v.kind == JV_STRING || v.kind == JV_LIST || v.kind == JV_TUPLE;
}

struct jv jinja_binary(struct jinja *r, unsigned op, struct jv a, struct jv b)
{
    if (a.kind == JV_UNDEFINED)
        return jv_undefined_error(r, a);
    if (op == JOP_MOD && a.kind == JV_STRING)
        return jformat_percent(r, a.s, b);
    if (b.kind == JV_UNDEFINED)
        return jv_undefined_error(r, b);
    if (jv_is_integer(a) && jv_is_integer(b))
        return binary_integers(r, op, a, b);
    if (jv_is_number(a) && jv_is_number(b))
        return binary_floats(r, op, jv_double(a), jv_double(b));
    if (op == JOP_ADD)
        return add(r, a, b);
    if (op == JOP_MUL && is_repeatable(a) && jv_is_integer(b))
        return repeat(r, a, jv_integer(b));
    if (op == JOP_MUL && jv_is_integer(a) && is_repeatable(b))
        return repeat(r, b, jv_integer(a));
    if (op == JOP_MUL && (is_repeatable(a) || is_repeatable(b)))
        return jv_fail(r, JINJA_FAILURE_VALUE, "can't multiply sequence by non-int of type '%s'",
                       jv_type_name(is_repeatable(a) ? b : a));
    return no_operator(r, op, a, b);
}

struct jv jinja_compare(struct jinja *r, unsigned op, struct jv a, struct jv b)
{
    struct jv result;
    switch (op) {
    case JOP_EQ:
    case JOP_NE:
        result = jv_bool(jv_equal(r, a, b) == (op == JOP_EQ));
        return r->failure ? (struct jv){ .kind = JV_FAILURE } : result;
    case JOP_LT:
    case JOP_LE:
        return jv_less(r, a, b, op_names[op], op == JOP_LE);
    case JOP_GT:
    case JOP_GE:
        /* The message names the operands in the order of the template. */
        result = jv_less(r, b, a, op_names[op], op == JOP_GE);
        return result;
    default:
        result = jv_contains(r, a, b);
        if (op == JOP_NOT_IN && result.kind == JV_BOOL)
            result.b = !result.b;
        return result;
    }
}

struct jv jinja_negative(struct jinja *r, struct jv v)
{
    if (v.kind == JV_FLOAT)
        return jv_float(-v.f);
    if (jv_is_integer(v))
        return negated(r, jv_integer(v));
    return v.kind == JV_UNDEFINED ? jv_undefined_error(r, v)
                                  : jv_fail(r, JINJA_FAILURE_VALUE,
                                            "bad operand type for unary -: '%s'", jv_type_name(v));
}

struct jv jinja_positive(struct jinja *r, struct jv v)
{
    if (v.kind == JV_FLOAT)
        return v;
    if (jv_is_integer(v))
        return jv_wide(r, jv_integer(v));
    return v.kind == JV_UNDEFINED ? jv_undefined_error(r, v)
                                  : jv_fail(r, JINJA_FAILURE_VALUE,
                                            "bad operand type for unary +: '%s'", jv_type_name(v));
}

/* --- slices --------------------------------------------------------------------------------- */

struct bounds {
    int64_t start, stop, step;
    size_t n; /* how many items the slice has */
};

static struct jv slice_number(struct jinja *r, struct jv v, int64_t absent, int64_t *out)
{
    *out = absent;
    if (v.kind == JV_NONE || v.kind == JV_FAILURE)
        return jv_none();
    if (!jv_is_integer(v))
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       "slice indices must be integers or None or have an __index__ method");
    __int128 i = jv_integer(v);
    *out = i > INT32_MAX ? INT32_MAX : i < -(__int128)INT32_MAX ? -INT32_MAX : (int64_t)i;
    return jv_none();
}

static int64_t clip(int64_t at, int64_t n, bool backward)
{
    if (at < 0)
        at += n;
    if (at < 0)
        return backward ? -1 : 0;
    return at >= n ? (backward ? n - 1 : n) : at;
}

static struct jv slice_bounds(struct jinja *r, const struct jv part[3], size_t length,
                              struct bounds *out)
{
    int64_t n = (int64_t)length;
    JV_TRY(step, slice_number(r, part[2], 1, &out->step));
    if (out->step == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "slice step cannot be zero");
    bool backward = out->step < 0;
    JV_TRY(start, slice_number(r, part[0], backward ? INT32_MAX : 0, &out->start));
    JV_TRY(stop, slice_number(r, part[1], INT32_MAX, &out->stop));
    out->start = clip(out->start, n, backward);
    bool open = part[1].kind == JV_NONE || part[1].kind == JV_FAILURE;
    out->stop = backward && open ? -1 : clip(out->stop, n, backward);
    int64_t distance = backward ? out->start - out->stop : out->stop - out->start;
    int64_t stride = backward ? -out->step : out->step;
    out->n = distance > 0 ? (size_t)((distance + stride - 1) / stride) : 0;
    return jv_none();
}

static struct jv slice_string(struct jinja *r, struct jstr *s, const struct bounds *b)
{
    if (b->n == 0)
        return jv_literal(r, "");
    if (b->step == 1)
        return jv_slice(r, s, jstr_offset(s, (size_t)b->start),
                        jstr_offset(s, (size_t)b->start + b->n));
    if (!jinja_step(r, b->n))
        return (struct jv){ .kind = JV_FAILURE };
    struct jbuild text;
    jbuild_init(&text, r, b->n);
    size_t n_chars = jstr_chars(s);
    uint32_t *starts = jinja_alloc(r, n_chars + 1, sizeof *starts);
    if (!starts)
        return jv_no_memory(r);
    size_t at = 0;
    for (size_t i = 0; i < s->len; i++)
        if (((unsigned char)s->ptr[i] & 0xC0) != 0x80)
            starts[at++] = (uint32_t)i;
    starts[n_chars] = (uint32_t)s->len;
    for (size_t i = 0; i < b->n && !text.failed; i++) {
        size_t c = (size_t)(b->start + (int64_t)i * b->step);
        jbuild_add(&text, s, starts[c], starts[c + 1]);
    }
    return jbuild_finish(&text);
}

/* Forward slices of a list share its items: `messages[1:]` costs nothing. */
static struct jv slice_list(struct jinja *r, struct jv v, const struct bounds *b)
{
    bool view = b->step == 1 && (v.list->from_value || v.kind == JV_TUPLE);
    struct jlist *l = jlist_new(r, view ? 0 : b->n);
    if (!l || (!view && !jinja_step(r, b->n / 4)))
        return (struct jv){ .kind = JV_FAILURE };
    if (view)
        l->items = v.list->items + b->start;
    for (size_t i = 0; !view && i < b->n; i++)
        l->items[i] = v.list->items[b->start + (int64_t)i * b->step];
    l->n = l->capacity = b->n;
    return (struct jv){ .kind = v.kind, .list = l };
}

struct jv jinja_slice(struct jinja *r, struct jv v, const struct jv part[3])
{
    if (v.kind == JV_UNDEFINED)
        return jv_undefined_error(r, v);
    if (v.kind != JV_STRING && v.kind != JV_LIST && v.kind != JV_TUPLE && v.kind != JV_RANGE &&
        v.kind != JV_BYTES)
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       v.kind == JV_DICT ? "unhashable type: 'slice'"
                                         : "'%s' object is not subscriptable",
                       jv_type_name(v));
    struct bounds b = { 0 };
    JV_TRY(n, jv_length(r, v));
    JV_TRY(bounds, slice_bounds(r, part, (size_t)n.i, &b));
    if (v.kind == JV_STRING) {
        struct jv s = slice_string(r, v.s, &b);
        if (!JV_IS_FAILURE(s) && v.s->markup)
            s.s->markup = true;
        return s;
    }
    if (v.kind == JV_RANGE) {
        struct jrange *range = jinja_alloc(r, 1, sizeof *range);
        if (!range)
            return jv_no_memory(r);
        *range = (struct jrange){ .start = v.range->start + b.start * v.range->step,
                                  .stop = v.range->start + b.stop * v.range->step,
                                  .step = v.range->step * b.step, .n = b.n };
        return (struct jv){ .kind = JV_RANGE, .range = range };
    }
    if (v.kind == JV_BYTES)
        return jv_fail(r, JINJA_FAILURE_VALUE, "slices of bytes are not supported");
    return slice_list(r, v, &b);
}
