#include "text/template/jinja_eval.h"

/* --- variables ------------------------------------------------------------------------------ */

void jscope_init(struct jscope *s, struct jscope *parent)
{
    *s = (struct jscope){ .parent = parent };
    s->items = s->first;
    s->capacity = ARRAY_SIZE(s->first);
}

struct jscope *jscope_push(struct jinja *r)
{
    struct jscope *s = jinja_alloc(r, 1, sizeof *s);
    if (s) {
        jscope_init(s, r->scope);
        r->scope = s;
    }
    return s;
}

bool jscope_set(struct jinja *r, struct jscope *s, uint32_t symbol, struct jv value)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->items[i].symbol == symbol) {
            s->items[i].value = value;
            return true;
        }
    if (s->n == s->capacity) {
        struct jbinding *items = jinja_alloc(r, 2 * (size_t)s->capacity, sizeof *items);
        if (!items)
            return false;
        memcpy(items, s->items, s->n * sizeof *items);
        s->items = items;
        s->capacity *= 2;
    }
    s->items[s->n++] = (struct jbinding){ symbol, value };
    return true;
}

static bool fail_value(struct jinja *r, const char *text)
{
    (void)jv_fail(r, JINJA_FAILURE_VALUE, "%s", text);
    return false;
}

static bool assign_attribute(struct jinja *r, const struct jnode *target, struct jv value)
{
    struct jv object = jinja_lookup(r, target->symbol);
    struct jstr *name = target->value.s;
    if (object.kind == JV_UNDEFINED) {
        (void)jv_undefined_error(r, object);
        return false;
    }
    if (object.kind != JV_NAMESPACE)
        return fail_value(r, "cannot assign attribute on non-namespace object");
    if (name->len && name->ptr[0] == '_') {
        (void)jv_fail(r, JINJA_FAILURE_SECURITY,
                      "a namespace cannot have the underscore-prefixed attribute '%.*s'",
                      STR_ARG(jstr_str(name)));
        return false;
    }
    return jdict_set(r, object.dict, jv_of_str(name), value);
}

static bool unpack(struct jinja *r, const struct jnode *target, struct jv value)
{
    if (!jv_is_iterable(value)) {
        (void)jv_fail(r, JINJA_FAILURE_VALUE, "cannot unpack non-iterable %s object",
                      jv_type_name(value));
        return false;
    }
    struct jiter it;
    struct jv item;
    if (JV_IS_FAILURE(jiter_init(r, &it, value)))
        return false;
    for (uint32_t i = 0; i < target->n; i++) {
        if (!jiter_next(r, &it, &item)) {
            (void)jv_fail(r, JINJA_FAILURE_VALUE,
                          "not enough values to unpack (expected %u, got %u)", target->n, i);
            return false;
        }
        if (!jinja_assign(r, target->kids[i], item))
            return false;
    }
    if (!jiter_next(r, &it, &item))
        return r->failure == JINJA_FAILURE_NONE;
    (void)jv_fail(r, JINJA_FAILURE_VALUE, "too many values to unpack (expected %u)", target->n);
    return false;
}

bool jinja_assign(struct jinja *r, const struct jnode *target, struct jv value)
{
    if (target->type == JN_NAME)
        return jscope_set(r, r->scope, target->symbol, value);
    if (target->type == JN_NAMESPACE_TARGET)
        return assign_attribute(r, target, value);
    return unpack(r, target, value);
}

/* --- statements ----------------------------------------------------------------------------- */

struct jv jinja_capture(struct jinja *r, const struct jnode *body)
{
    struct jbuild text, *outer = r->out;
    jbuild_init(&text, r, 0);
    r->out = &text;
    enum jflow flow = jinja_execute(r, body);
    r->out = outer;
    return flow == JFLOW_FAIL ? (struct jv){ .kind = JV_FAILURE } : jbuild_finish(&text);
}

static enum jflow flow_of(struct jinja *r, bool ok)
{
    return ok && r->failure == JINJA_FAILURE_NONE ? JFLOW_NEXT : JFLOW_FAIL;
}

static enum jflow execute_print(struct jinja *r, const struct jnode *n)
{
    struct jv v = jinja_evaluate(r, n->a);
    if (JV_IS_FAILURE(v))
        return JFLOW_FAIL;
    jformat_str(r->out, v);
    return r->out->failed ? JFLOW_FAIL : JFLOW_NEXT;
}

static enum jflow execute_body(struct jinja *r, const struct jnode *n)
{
    for (uint32_t i = 0; i < n->n; i++) {
        enum jflow flow = jinja_execute(r, n->kids[i]);
        if (flow != JFLOW_NEXT)
            return flow;
    }
    return JFLOW_NEXT;
}

static enum jflow execute_if(struct jinja *r, const struct jnode *n)
{
    for (; n && n->type == JN_IF; n = n->c) {
        struct jv condition = jinja_evaluate(r, n->a);
        if (JV_IS_FAILURE(condition))
            return JFLOW_FAIL;
        if (jv_truth(condition))
            return jinja_execute(r, n->b);
    }
    return n ? jinja_execute(r, n) : JFLOW_NEXT;
}

static enum jflow execute_set(struct jinja *r, const struct jnode *n)
{
    struct jv value = jinja_evaluate(r, n->b);
    r->line = n->line;
    return flow_of(r, !JV_IS_FAILURE(value) && jinja_assign(r, n->a, value));
}

/* Runs a body that has its own variables. */
static enum jflow execute_scoped(struct jinja *r, const struct jnode *body)
{
    struct jscope *outer = r->scope;
    if (!jscope_push(r))
        return JFLOW_FAIL;
    enum jflow flow = jinja_execute(r, body);
    r->scope = outer;
    return flow;
}

static struct jv capture_scoped(struct jinja *r, const struct jnode *body)
{
    struct jscope *outer = r->scope;
    if (!jscope_push(r))
        return jv_no_memory(r);
    struct jv text = jinja_capture(r, body);
    r->scope = outer;
    return text;
}

static enum jflow execute_set_block(struct jinja *r, const struct jnode *n)
{
    struct jv text = capture_scoped(r, n->c);
    if (!JV_IS_FAILURE(text))
        text = jinja_filter_chain(r, n->b, text);
    return flow_of(r, !JV_IS_FAILURE(text) && jinja_assign(r, n->a, text));
}

static enum jflow execute_filter_block(struct jinja *r, const struct jnode *n)
{
    struct jv text = capture_scoped(r, n->b);
    if (!JV_IS_FAILURE(text))
        text = jinja_filter_chain(r, n->a, text);
    if (JV_IS_FAILURE(text))
        return JFLOW_FAIL;
    jformat_str(r->out, text);
    return flow_of(r, !r->out->failed);
}

static enum jflow execute_call_block(struct jinja *r, const struct jnode *n)
{
    struct jv caller = jinja_macro_value(r, n->b);
    struct jv text = JV_IS_FAILURE(caller) ? caller : jinja_call_node(r, n->a, caller);
    if (JV_IS_FAILURE(text))
        return JFLOW_FAIL;
    jformat_str(r->out, text);
    return flow_of(r, !r->out->failed);
}

/* The values see the outer variables only. */
static enum jflow execute_with(struct jinja *r, const struct jnode *n)
{
    struct jscope *outer = r->scope, *inner = jscope_push(r);
    enum jflow flow = inner ? JFLOW_NEXT : JFLOW_FAIL;
    for (uint32_t i = 0; i < n->n && flow == JFLOW_NEXT; i += 2) {
        r->scope = outer;
        struct jv value = jinja_evaluate(r, n->kids[i + 1]);
        r->scope = inner;
        flow = flow_of(r, !JV_IS_FAILURE(value) && jinja_assign(r, n->kids[i], value));
    }
    if (flow == JFLOW_NEXT)
        flow = jinja_execute(r, n->a);
    r->scope = outer;
    return flow;
}

static enum jflow execute_block(struct jinja *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    if (!n->op)
        r->scope = r->root;
    enum jflow flow = execute_scoped(r, n->a);
    r->scope = outer;
    return flow;
}

static enum jflow execute_for(struct jinja *r, const struct jnode *n)
{
    struct jv iterable = jinja_evaluate(r, n->b);
    r->line = n->line;
    return JV_IS_FAILURE(iterable) ? JFLOW_FAIL : jinja_for(r, n, iterable, 0);
}

static enum jflow execute_macro(struct jinja *r, const struct jnode *n)
{
    struct jv macro = jinja_macro_value(r, n);
    return flow_of(r, !JV_IS_FAILURE(macro) && jscope_set(r, r->scope, n->symbol, macro));
}

static enum jflow execute_autoescape(struct jinja *r, const struct jnode *n)
{
    struct jv on = jinja_evaluate(r, n->a);
    if (JV_IS_FAILURE(on) || jv_truth(on))
        return flow_of(r, !JV_IS_FAILURE(on) && fail_value(r, "autoescape is not supported"));
    return execute_scoped(r, n->b);
}

static enum jflow execute_by_type(struct jinja *r, const struct jnode *n)
{
    switch (n->type) {
    case JN_BODY:
        return execute_body(r, n);
    case JN_IF:
        return execute_if(r, n);
    case JN_FOR:
        return execute_for(r, n);
    case JN_SET:
        return execute_set(r, n);
    case JN_SET_BLOCK:
        return execute_set_block(r, n);
    case JN_MACRO:
        return execute_macro(r, n);
    case JN_CALL_BLOCK:
        return execute_call_block(r, n);
    case JN_FILTER_BLOCK:
        return execute_filter_block(r, n);
    case JN_WITH:
        return execute_with(r, n);
    case JN_SCOPE:
        return execute_scoped(r, n->a);
    case JN_BLOCK:
        return execute_block(r, n);
    case JN_AUTOESCAPE:
        return execute_autoescape(r, n);
    case JN_LOADER:
        return flow_of(r, fail_value(r, "no loader for this environment specified: include, import "
                                        "and extends are not supported"));
    case JN_BREAK:
        return JFLOW_BREAK;
    case JN_CONTINUE:
        return JFLOW_CONTINUE;
    default:
        return flow_of(r, fail_value(r, "this is no statement"));
    }
}

enum jflow jinja_execute(struct jinja *r, const struct jnode *n)
{
    if (!jinja_step(r, 1))
        return JFLOW_FAIL;
    if (n->type == JN_TEXT) {
        jbuild_bytes(r->out, n->value.s->ptr, n->value.s->len, false);
        return r->out->failed ? JFLOW_FAIL : JFLOW_NEXT;
    }
    if (n->type != JN_BODY)
        r->line = n->line;
    if (n->type == JN_PRINT)
        return execute_print(r, n);
    if (!jinja_enter(r))
        return JFLOW_FAIL;
    enum jflow flow = execute_by_type(r, n);
    r->depth--;
    return flow;
}
