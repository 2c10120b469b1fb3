/* Global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now. */
#include <time.h>

#include "text/template/jinja_eval.h"
#include "text/template/jinja_unicode.h"

struct jv jarg_integer(struct jinja *r, struct jv v, int64_t *out)
{
    if (v.kind == JV_UNDEFINED)
        return jv_undefined_error(r, v);
    if (!jv_is_integer(v) || v.kind == JV_WIDE)
        return jv_fail(r, JINJA_FAILURE_VALUE, "'%s' object cannot be interpreted as an integer",
                       jv_type_name(v));
    *out = (int64_t)jv_integer(v);
    return jv_none();
}

struct jv jarg_string(struct jinja *r, struct jv v, const char *what)
{
    if (v.kind == JV_STRING)
        return v;
    if (v.kind == JV_UNDEFINED)
        return jv_undefined_error(r, v);
    return jv_fail(r, JINJA_FAILURE_VALUE, "%s must be str, not %s", what, jv_type_name(v));
}

static struct jv function_range(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t start = 0, stop = 0, step = 1;
    (void)self;
    JV_TRY(first, jarg_integer(r, arg[0], &start));
    stop = start;
    if (jarg_given(arg[1])) {
        JV_TRY(second, jarg_integer(r, arg[1], &stop));
    } else {
        start = 0;
    }
    if (jarg_given(arg[2])) {
        JV_TRY(third, jarg_integer(r, arg[2], &step));
    }
    if (step == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "range() arg 3 must not be zero");
    __int128 distance = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    __int128 stride = step > 0 ? (__int128)step : -(__int128)step;
    __int128 n = distance > 0 ? (distance + stride - 1) / stride : 0;
    if (n > JINJA_MAX_RANGE)
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                       JINJA_MAX_RANGE);
    struct jrange *range = jinja_alloc(r, 1, sizeof *range);
    if (!range)
        return jv_no_memory(r);
    *range = (struct jrange){ start, stop, step, (size_t)n };
    return (struct jv){ .kind = JV_RANGE, .range = range };
}

/* dict(x, a=1): x is a mapping or a list of pairs. */
static struct jv fill_dict(struct jinja *r, struct jdict *d, const struct jargs *args)
{
    if (args->n > 1)
        return jv_fail(r, JINJA_FAILURE_VALUE, "dict expected at most 1 argument, got %zu",
                       args->n);
    if (args->n == 1 && (args->positional[0].kind == JV_DICT ||
                         args->positional[0].kind == JV_NAMESPACE)) {
        const struct jdict *from = args->positional[0].dict;
        for (size_t i = 0; i < from->n; i++)
            if (!jinja_step(r, 1) || !jdict_set(r, d, from->entries[i].key, from->entries[i].value))
                return jv_no_memory(r);
    } else if (args->n == 1) {
        struct jiter it;
        struct jv pair;
        JV_TRY(started, jiter_init(r, &it, args->positional[0]));
        while (jiter_next(r, &it, &pair)) {
            JV_TRY(list, jv_list_of(r, pair));
            if (list.list->n != 2)
                return jv_fail(r, JINJA_FAILURE_VALUE,
                               "a dictionary item has length %zu; 2 is required", list.list->n);
            if (!jv_is_hashable(list.list->items[0]))
                return jv_fail(r, JINJA_FAILURE_VALUE, "unhashable type: '%s'",
                               jv_type_name(list.list->items[0]));
            if (!jdict_set(r, d, list.list->items[0], list.list->items[1]))
                return jv_no_memory(r);
        }
        if (r->failure)
            return (struct jv){ .kind = JV_FAILURE };
    }
    for (size_t i = 0; i < args->n_named; i++)
        if (!jdict_set(r, d, jv_of_str(args->names[i]), args->named[i]))
            return jv_no_memory(r);
    return jv_none();
}

static struct jv new_dict(struct jinja *r, const struct jargs *args, unsigned kind)
{
    struct jdict *d = jdict_new(r, args->n_named);
    if (!d)
        return jv_no_memory(r);
    JV_TRY(filled, fill_dict(r, d, args));
    return (struct jv){ .kind = (uint8_t)kind, .dict = d };
}

static struct jv function_dict(struct jinja *r, struct jv self, const struct jargs *args)
{
    (void)self;
    return new_dict(r, args, JV_DICT);
}

static struct jv function_namespace(struct jinja *r, struct jv self, const struct jargs *args)
{
    (void)self;
    JV_TRY(v, new_dict(r, args, JV_NAMESPACE));
    for (size_t i = 0; i < v.dict->n; i++) {
        struct jv key = v.dict->entries[i].key;
        if (key.kind == JV_STRING && key.s->len && key.s->ptr[0] == '_')
            return jv_fail(r, JINJA_FAILURE_SECURITY,
                           "a namespace cannot have the underscore-prefixed attribute '%.*s'",
                           STR_ARG(jstr_str(key.s)));
    }
    return v;
}

static struct jv new_cycler(struct jinja *r, const struct jv *items, size_t n, unsigned kind)
{
    struct jcycler *c = jinja_alloc(r, 1, sizeof *c);
    struct jlist *l = c ? jlist_new(r, n) : NULL;
    if (!l)
        return jv_no_memory(r);
    for (size_t i = 0; i < n; i++)
        l->items[l->n++] = items[i];
    *c = (struct jcycler){ .items = l };
    return (struct jv){ .kind = (uint8_t)kind, .cycler = c };
}

static struct jv function_cycler(struct jinja *r, struct jv self, const struct jargs *args)
{
    (void)self;
    if (args->n == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "at least one item has to be provided");
    return new_cycler(r, args->positional, args->n, JV_CYCLER);
}

static struct jv function_joiner(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)self;
    struct jv separator = jarg_given(arg[0]) ? arg[0] : jv_literal(r, ", ");
    return JV_IS_FAILURE(separator) ? separator : new_cycler(r, &separator, 1, JV_JOINER);
}

static struct jv function_raise(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)self;
    JV_TRY(text, jv_to_string(r, arg[0]));
    return jv_fail(r, JINJA_FAILURE_RAISED, "%.*s", STR_ARG(jstr_str(text.s)));
}

static struct jv function_lipsum(struct jinja *r, struct jv self, const struct jargs *args)
{
    (void)self;
    (void)args;
    return jv_fail(r, JINJA_FAILURE_VALUE, "lipsum() is not supported: its text is random");
}

static struct jv function_strftime(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)self;
    JV_TRY(format, jarg_string(r, arg[0], "the format of strftime_now()"));
    return jinja_strftime(r, format.s);
}

/* One directive of strftime. A civil time has no zone, and the clock no microseconds. */
static void put_time(struct jbuild *b, const struct tm *tm, char directive)
{
    char text[64];
    const char format[3] = { '%', directive, 0 };
    switch (directive) {
    case 'f':
        jbuild_puts(b, "000000", false);
        break;
    case 'z':
    case 'Z':
        break;
    case '%':
        jbuild_puts(b, "%", false);
        break;
    default:
        jbuild_bytes(b, text, strftime(text, sizeof text, format, tm), false);
    }
}

struct jv jinja_strftime(struct jinja *r, struct jstr *format)
{
    time_t now = (time_t)r->options->now;
    struct tm tm;
    struct jbuild b;
    if (!gmtime_r(&now, &tm))
        return jv_fail(r, JINJA_FAILURE_VALUE, "the time is out of range");
    jbuild_init(&b, r, format->len);
    for (size_t i = 0; i < format->len && !b.failed; i++) {
        bool minus = i + 2 < format->len && format->ptr[i] == '%' && format->ptr[i + 1] == '-';
        if (minus) {
            struct jbuild padded;
            jbuild_init(&padded, r, 16);
            put_time(&padded, &tm, format->ptr[i + 2]);
            size_t skip = 0;
            while (skip + 1 < padded.len && (padded.ptr[skip] == '0' || padded.ptr[skip] == ' '))
                skip++;
            jbuild_bytes(&b, padded.ptr + skip, padded.len - skip, false);
            i += 2;
        } else if (format->ptr[i] == '%' && i + 1 < format->len &&
                   junicode_is_alpha((unsigned char)format->ptr[i + 1])) {
            put_time(&b, &tm, format->ptr[++i]);
        } else if (format->ptr[i] == '%' && i + 1 < format->len && format->ptr[i + 1] == '%') {
            put_time(&b, &tm, format->ptr[++i]);
        } else {
            jbuild_add(&b, format, i, i + 1);
        }
    }
    return jbuild_finish(&b);
}

static const struct jinja_callable functions[] = {
    { .name = "range", .run = function_range, .n_required = 1,
      .parameters = { "start", "stop", "step" } },
    { .name = "dict", .run_all = function_dict },
    { .name = "namespace", .run_all = function_namespace },
    { .name = "cycler", .run_all = function_cycler },
    { .name = "joiner", .run = function_joiner, .parameters = { "sep" } },
    { .name = "lipsum", .run_all = function_lipsum },
    { .name = "raise_exception", .run = function_raise, .n_required = 1,
      .parameters = { "message" } },
    { .name = "strftime_now", .run = function_strftime, .n_required = 1,
      .parameters = { "format" } },
};

const struct jinja_callable *jinja_function_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
        if (str_is(name, functions[i].name))
            return &functions[i];
    return NULL;
}
