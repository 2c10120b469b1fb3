/* Calls: arguments, binding to parameters, macros. */
#include "text/template/jinja_eval.h"

/* *a and **b of a call. */
static struct jv add_star(struct jinja *r, struct jv v, struct jargs *out)
{
    JV_TRY(list, jv_list_of(r, v));
    size_t n = out->n + list.list->n;
    struct jv *all = jinja_alloc(r, n, sizeof *all);
    if (!all)
        return jv_no_memory(r);
    if (out->n)
        memcpy(all, out->positional, out->n * sizeof *all);
    if (list.list->n)
        memcpy(all + out->n, list.list->items, list.list->n * sizeof *all);
    out->positional = all;
    out->n = n;
    return jv_none();
}

static struct jv add_star_star(struct jinja *r, struct jv v, struct jargs *out, size_t room)
{
    if (v.kind != JV_DICT)
        return jv_fail(r, JINJA_FAILURE_VALUE, "argument after ** must be a mapping, not %s",
                       jv_type_name(v));
    size_t n = out->n_named + v.dict->n;
    struct jv *named = jinja_alloc(r, n + room, sizeof *named);
    struct jstr **names = named ? jinja_alloc(r, n + room, sizeof *names) : NULL;
    if (!names)
        return jv_no_memory(r);
    for (size_t i = 0; i < out->n_named; i++) {
        named[i] = out->named[i];
        names[i] = out->names[i];
    }
    for (size_t i = 0; i < v.dict->n; i++) {
        if (v.dict->entries[i].key.kind != JV_STRING)
            return jv_fail(r, JINJA_FAILURE_VALUE, "keywords must be strings");
        named[out->n_named + i] = v.dict->entries[i].value;
        names[out->n_named + i] = v.dict->entries[i].key.s;
    }
    out->named = named;
    out->names = names;
    out->n_named = n;
    return jv_none();
}

static struct jv add_caller(struct jinja *r, struct jv caller, struct jargs *out)
{
    struct jv *named = jinja_alloc(r, out->n_named + 1, sizeof *named);
    struct jstr **names = named ? jinja_alloc(r, out->n_named + 1, sizeof *names) : NULL;
    if (!names)
        return jv_no_memory(r);
    for (size_t i = 0; i < out->n_named; i++) {
        named[i] = out->named[i];
        names[i] = out->names[i];
    }
    named[out->n_named] = caller;
    names[out->n_named] = r->t->symbols[JINJA_SYMBOL_CALLER];
    out->named = named;
    out->names = names;
    out->n_named++;
    return jv_none();
}

struct jv jinja_arguments(struct jinja *r, const struct jarguments *a, struct jv caller,
                          struct jargs *out)
{
    size_t n = (size_t)a->n_positional + a->n_keywords;
    *out = (struct jargs){ .n = a->n_positional, .n_named = a->n_keywords, .names = a->names };
    if (n) {
        out->positional = jinja_alloc(r, n, sizeof *out->positional);
        if (!out->positional)
            return jv_no_memory(r);
        out->named = out->positional + a->n_positional;
    }
    for (size_t i = 0; i < n; i++) {
        out->positional[i] = jinja_evaluate(r, a->values[i]);
        if (JV_IS_FAILURE(out->positional[i]))
            return out->positional[i];
    }
    if (a->star) {
        JV_TRY(star, jinja_evaluate(r, a->star));
        JV_TRY(added, add_star(r, star, out));
    }
    if (a->star_star) {
        JV_TRY(star, jinja_evaluate(r, a->star_star));
        JV_TRY(added, add_star_star(r, star, out, 1));
    }
    return jarg_given(caller) ? add_caller(r, caller, out) : jv_none();
}

/* --- functions of the library --------------------------------------------------------------- */

static struct jv bind_named(struct jinja *r, const struct jinja_callable *c, struct jstr *name,
                            struct jv value, struct jv *bound)
{
    for (size_t i = 0; i < JINJA_MAX_PARAMETERS && c->parameters[i]; i++) {
        if (!str_is(jstr_str(name), c->parameters[i]))
            continue;
        if (jarg_given(bound[i]))
            return jv_fail(r, JINJA_FAILURE_VALUE, "%s() got multiple values for argument '%s'",
                           c->name, c->parameters[i]);
        bound[i] = value;
        return jv_none();
    }
    return jv_fail(r, JINJA_FAILURE_VALUE, "%s() got an unexpected keyword argument '%.*s'",
                   c->name, STR_ARG(jstr_str(name)));
}

struct jv jinja_run(struct jinja *r, const struct jinja_callable *c, struct jv self,
                    const struct jargs *args)
{
    struct jv bound[JINJA_MAX_PARAMETERS] = { { 0 } };
    if (c->run_all)
        return c->run_all(r, self, args);
    size_t n_parameters = 0;
    while (n_parameters < JINJA_MAX_PARAMETERS && c->parameters[n_parameters])
        n_parameters++;
    if (args->n > n_parameters)
        return jv_fail(r, JINJA_FAILURE_VALUE, "%s() takes at most %zu arguments, got %zu", c->name,
                       n_parameters, args->n);
    for (size_t i = 0; i < args->n; i++)
        bound[i] = args->positional[i];
    for (size_t i = 0; i < args->n_named; i++) {
        JV_TRY(ok, bind_named(r, c, args->names[i], args->named[i], bound));
    }
    for (size_t i = 0; i < c->n_required; i++)
        if (!jarg_given(bound[i]))
            return jv_fail(r, JINJA_FAILURE_VALUE, "%s() misses the argument '%s'", c->name,
                           c->parameters[i]);
    return c->run(r, self, bound);
}

/* --- macros --------------------------------------------------------------------------------- */

struct jv jinja_macro_value(struct jinja *r, const struct jnode *n)
{
    struct jmacro *m = jinja_alloc(r, 1, sizeof *m);
    if (!m)
        return jv_no_memory(r);
    *m = (struct jmacro){ n, r->scope };
    for (struct jscope *s = r->scope; s && !s->captured; s = s->parent)
        s->captured = true;
    return (struct jv){ .kind = JV_MACRO, .macro = m };
}

/* Takes the keyword argument out of the list. */
static bool take_named(struct jargs *args, struct jstr *name, struct jv *value)
{
    for (size_t i = 0; i < args->n_named; i++) {
        if (!str_eq(jstr_str(args->names[i]), jstr_str(name)))
            continue;
        *value = args->named[i];
        args->n_named--;
        for (; i < args->n_named; i++) {
            args->named[i] = args->named[i + 1];
            args->names[i] = args->names[i + 1];
        }
        return true;
    }
    return false;
}

static struct jv bind_parameters(struct jinja *r, const struct jparameters *p, struct jargs *args)
{
    bool given[256];
    if (p->n > ARRAY_SIZE(given))
        return jv_fail(r, JINJA_FAILURE_LIMIT, "a macro has more than %zu parameters",
                       ARRAY_SIZE(given));
    for (uint32_t i = 0; i < p->n; i++) {
        struct jv value = { .kind = JV_UNDEFINED, .flags = JV_PARAMETER, .s = p->names[i] };
        given[i] = i < args->n;
        if (given[i])
            value = args->positional[i];
        else
            given[i] = take_named(args, p->names[i], &value);
        if (!jscope_set(r, r->scope, p->symbols[i], value))
            return jv_no_memory(r);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (given[i] || !p->defaults[i])
            continue;
        JV_TRY(value, jinja_evaluate(r, p->defaults[i]));
        if (!jscope_set(r, r->scope, p->symbols[i], value))
            return jv_no_memory(r);
    }
    return jv_none();
}

static struct jv bind_caller(struct jinja *r, struct jargs *args)
{
    struct jv name = jv_literal(r, "No caller defined"), caller;
    if (JV_IS_FAILURE(name))
        return name;
    if (!take_named(args, r->t->symbols[JINJA_SYMBOL_CALLER], &caller) || caller.kind == JV_NONE)
        caller = jv_undefined(name.s);
    return jscope_set(r, r->scope, JINJA_SYMBOL_CALLER, caller) ? jv_none() : jv_no_memory(r);
}

/* varargs and kwargs take what is left over, if the macro mentions them. */
static struct jv bind_rest(struct jinja *r, const struct jmacro *m, struct jargs *args)
{
    const struct jparameters *p = m->node->parameters;
    struct str name = jstr_str(r->t->symbols[m->node->symbol]);
    size_t extra = args->n > p->n ? args->n - p->n : 0;
    if (p->uses_kwargs) {
        struct jdict *d = jdict_new(r, args->n_named);
        for (size_t i = 0; d && i < args->n_named; i++)
            (void)jdict_set(r, d, jv_of_str(args->names[i]), args->named[i]);
        struct jv kwargs = { .kind = JV_DICT, .dict = d };
        if (!d || !jscope_set(r, r->scope, JINJA_SYMBOL_KWARGS, kwargs))
            return jv_no_memory(r);
    } else if (args->n_named) {
        return jv_fail(r, JINJA_FAILURE_VALUE, "macro '%.*s' takes no keyword argument '%.*s'",
                       STR_ARG(name), STR_ARG(jstr_str(args->names[0])));
    }
    if (p->uses_varargs) {
        struct jlist *l = jlist_new(r, extra);
        for (size_t i = 0; l && i < extra; i++)
            l->items[l->n++] = args->positional[p->n + i];
        struct jv varargs = { .kind = JV_TUPLE, .list = l };
        if (!l || !jscope_set(r, r->scope, JINJA_SYMBOL_VARARGS, varargs))
            return jv_no_memory(r);
    } else if (extra) {
        return jv_fail(r, JINJA_FAILURE_VALUE, "macro '%.*s' takes not more than %u argument(s)",
                       STR_ARG(name), p->n);
    }
    return jv_none();
}

static struct jv bind_all(struct jinja *r, const struct jmacro *m, const struct jargs *args)
{
    const struct jparameters *p = m->node->parameters;
    struct jargs rest = *args;
    if (!p) /* a block, called as self.name() */
        return args->n + args->n_named
                   ? jv_fail(r, JINJA_FAILURE_VALUE, "a block takes no arguments")
                   : jv_none();
    if (rest.n_named) {
        rest.names = jinja_alloc(r, rest.n_named, sizeof *rest.names);
        rest.named = rest.names ? jinja_alloc(r, rest.n_named, sizeof *rest.named) : NULL;
        if (!rest.named)
            return jv_no_memory(r);
        memcpy(rest.names, args->names, rest.n_named * sizeof *rest.names);
        memcpy(rest.named, args->named, rest.n_named * sizeof *rest.named);
    }
    JV_TRY(bound, bind_parameters(r, p, &rest));
    if (p->uses_caller) {
        JV_TRY(caller, bind_caller(r, &rest));
    }
    return bind_rest(r, m, &rest);
}

struct jv jinja_call_macro(struct jinja *r, struct jmacro *m, const struct jargs *args)
{
    struct jscope *outer = r->scope;
    if (++r->calls > JINJA_MAX_DEPTH)
        return jv_fail(r, JINJA_FAILURE_LIMIT, "calls are nested deeper than %d", JINJA_MAX_DEPTH);
    r->scope = m->scope;
    struct jv text = jscope_push(r) ? bind_all(r, m, args) : jv_no_memory(r);
    if (!JV_IS_FAILURE(text))
        text = jinja_capture(r, m->node->a);
    r->scope = outer;
    r->calls--;
    return text;
}

/* --- calls of the template ------------------------------------------------------------------ */

struct jv jinja_call(struct jinja *r, struct jv callee, const struct jargs *args)
{
    switch (callee.kind) {
    case JV_UNDEFINED:
        return jv_undefined_error(r, callee);
    case JV_MACRO:
        return jinja_call_macro(r, callee.macro, args);
    case JV_FUNCTION:
        return jinja_run(r, callee.function, callee, args);
    case JV_METHOD:
        return jinja_run(r, callee.method->method, callee.method->object, args);
    case JV_LOOP:
        return jinja_loop_call(r, callee.loop, args);
    case JV_JOINER: {
        bool used = callee.cycler->at++ > 0;
        return used ? callee.cycler->items->items[0] : jv_literal(r, "");
    }
    default:
        return jv_fail(r, JINJA_FAILURE_VALUE, "'%s' object is not callable", jv_type_name(callee));
    }
}

struct jv jinja_call_node(struct jinja *r, const struct jnode *n, struct jv caller)
{
    struct jargs args;
    const struct jnode *f = n->a;
    /* object.method(...) without a bound method in between */
    if (f->type == JN_ATTR) {
        JV_TRY(object, jinja_evaluate(r, f->a));
        struct str name = jstr_str(f->value.s);
        const struct jinja_callable *method =
            object.kind == JV_STRING || object.kind == JV_DICT
                ? jinja_method_find(object.kind, name)
                : NULL;
        r->line = n->line;
        struct jv callee = method ? jv_none() : jinja_attribute(r, object, f->value.s);
        if (JV_IS_FAILURE(callee))
            return callee;
        JV_TRY(ready, jinja_arguments(r, n->arguments, caller, &args));
        r->line = n->line;
        return method ? jinja_run(r, method, object, &args) : jinja_call(r, callee, &args);
    }
    JV_TRY(callee, jinja_evaluate(r, f));
    JV_TRY(ready, jinja_arguments(r, n->arguments, caller, &args));
    r->line = n->line;
    return jinja_call(r, callee, &args);
}
