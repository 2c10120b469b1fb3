#include "text/template/jinja_eval.h"

bool jinja_enter(struct jinja *r)
{
    if (++r->depth <= JINJA_MAX_NESTING)
        return true;
    (void)jv_fail(r, JINJA_FAILURE_LIMIT, "the template recursed too deep");
    return false;
}

struct jv jinja_lookup(struct jinja *r, uint32_t symbol)
{
    for (const struct jscope *s = r->scope; s; s = s->parent)
        for (uint32_t i = 0; i < s->n; i++)
            if (s->items[i].symbol == symbol)
                return s->items[i].value;
    struct jv v = r->globals[symbol];
    return v.kind != JV_FAILURE ? v : jv_undefined(r->t->symbols[symbol]);
}

static struct jv evaluate_list(struct jinja *r, const struct jnode *n)
{
    struct jlist *l = jlist_new(r, n->n);
    if (!l)
        return jv_no_memory(r);
    for (uint32_t i = 0; i < n->n; i++) {
        JV_TRY(item, jinja_evaluate(r, n->kids[i]));
        l->items[l->n++] = item;
    }
    return (struct jv){ .kind = n->type == JN_TUPLE ? JV_TUPLE : JV_LIST, .list = l };
}

static struct jv evaluate_dict(struct jinja *r, const struct jnode *n)
{
    struct jdict *d = jdict_new(r, n->n / 2);
    if (!d)
        return jv_no_memory(r);
    for (uint32_t i = 0; i < n->n; i += 2) {
        JV_TRY(key, jinja_evaluate(r, n->kids[i]));
        JV_TRY(value, jinja_evaluate(r, n->kids[i + 1]));
        if (!jv_is_hashable(key))
            return jv_fail(r, JINJA_FAILURE_VALUE, "unhashable type: '%s'", jv_type_name(key));
        if (!jdict_set(r, d, key, value))
            return jv_no_memory(r);
    }
    return (struct jv){ .kind = JV_DICT, .dict = d };
}

static struct jv evaluate_slice(struct jinja *r, const struct jnode *n)
{
    JV_TRY(object, jinja_evaluate(r, n->a));
    struct jv part[3] = { { 0 }, { 0 }, { 0 } };
    for (int i = 0; i < 3; i++) {
        if (!n->kids[i])
            continue;
        part[i] = jinja_evaluate(r, n->kids[i]);
        if (JV_IS_FAILURE(part[i]))
            return part[i];
    }
    return jinja_slice(r, object, part);
}

/* Operands of a chain of texts that wait to be joined at once. */
#define MAX_PARTS 16

/* Strings that are added: taken together as long as they are plain ones. Stores the sum of the
 * first operands and returns how many these were. */
static uint32_t add_texts(struct jinja *r, const struct jnode *n, struct jv *left)
{
    struct jstr *parts[MAX_PARTS] = { left->s };
    uint32_t i = 1;
    struct jv right = jv_none();
    for (; i < n->n && i < MAX_PARTS && n->ops[i - 1] == JOP_ADD; i++) {
        right = jinja_evaluate(r, n->kids[i]);
        if (right.kind != JV_STRING || right.s->markup)
            break;
        parts[i] = right.s;
    }
    *left = JV_IS_FAILURE(right) ? right : jv_concat(r, parts, i);
    if (i < n->n && i < MAX_PARTS && n->ops[i - 1] == JOP_ADD && !JV_IS_FAILURE(*left)) {
        r->line = n->line;
        *left = jinja_binary(r, JOP_ADD, *left, right);
        i++;
    }
    return i;
}

static struct jv evaluate_arith(struct jinja *r, const struct jnode *n)
{
    struct jv left = jinja_evaluate(r, n->kids[0]);
    uint32_t i = 1;
    if (left.kind == JV_STRING && !left.s->markup && n->ops[0] == JOP_ADD)
        i = add_texts(r, n, &left);
    for (; i < n->n && !JV_IS_FAILURE(left); i++) {
        JV_TRY(right, jinja_evaluate(r, n->kids[i]));
        r->line = n->line;
        left = jinja_binary(r, n->ops[i - 1], left, right);
    }
    return left;
}

static struct jv evaluate_compare(struct jinja *r, const struct jnode *n)
{
    struct jv left = jinja_evaluate(r, n->kids[0]), result = jv_bool(true);
    if (JV_IS_FAILURE(left))
        return left;
    for (uint32_t i = 1; i < n->n; i++) {
        JV_TRY(right, jinja_evaluate(r, n->kids[i]));
        r->line = n->line;
        result = jinja_compare(r, n->ops[i - 1], left, right);
        if (JV_IS_FAILURE(result) || !jv_truth(result))
            return result;
        left = right;
    }
    return result;
}

static struct jv evaluate_concat(struct jinja *r, const struct jnode *n)
{
    struct jstr *parts[MAX_PARTS];
    size_t n_parts = 0;
    for (uint32_t i = 0; i < n->n; i++) {
        JV_TRY(operand, jinja_evaluate(r, n->kids[i]));
        JV_TRY(text, jv_to_string(r, operand));
        if (n_parts == MAX_PARTS) {
            JV_TRY(joined, jv_concat(r, parts, n_parts));
            parts[0] = joined.s;
            n_parts = 1;
        }
        parts[n_parts++] = text.s;
    }
    return jv_concat(r, parts, n_parts);
}

static struct jv evaluate_filter(struct jinja *r, const struct jnode *n, struct jv subject)
{
    struct jargs args;
    if (!n->entry)
        return jv_fail(r, JINJA_FAILURE_SYNTAX, "No filter named '%.*s'.",
                       STR_ARG(jstr_str(n->value.s)));
    JV_TRY(ready, jinja_arguments(r, n->arguments, (struct jv){ 0 }, &args));
    r->line = n->line;
    return jinja_run(r, n->entry, subject, &args);
}

struct jv jinja_filter_chain(struct jinja *r, const struct jnode *n, struct jv text)
{
    if (!n)
        return text;
    JV_TRY(subject, jinja_filter_chain(r, n->a, text));
    return evaluate_filter(r, n, subject);
}

static struct jv evaluate_test(struct jinja *r, const struct jnode *n)
{
    struct jargs args;
    JV_TRY(subject, jinja_evaluate(r, n->a));
    if (!n->entry)
        return jv_fail(r, JINJA_FAILURE_SYNTAX, "No test named '%.*s'.",
                       STR_ARG(jstr_str(n->value.s)));
    JV_TRY(ready, jinja_arguments(r, n->arguments, (struct jv){ 0 }, &args));
    r->line = n->line;
    return jinja_run(r, n->entry, subject, &args);
}

static struct jv evaluate_choice(struct jinja *r, const struct jnode *n)
{
    JV_TRY(condition, jinja_evaluate(r, n->b));
    if (jv_truth(condition))
        return jinja_evaluate(r, n->a);
    if (n->c)
        return jinja_evaluate(r, n->c);
    struct jv name = jv_literal(r, "the inline if-expression without else");
    return JV_IS_FAILURE(name) ? name : jv_undefined(name.s);
}

static struct jv evaluate_unary(struct jinja *r, const struct jnode *n)
{
    JV_TRY(v, jinja_evaluate(r, n->a));
    if (n->type == JN_NOT)
        return jv_bool(!jv_truth(v));
    return n->type == JN_NEGATIVE ? jinja_negative(r, v) : jinja_positive(r, v);
}

static struct jv evaluate_logic(struct jinja *r, const struct jnode *n)
{
    JV_TRY(left, jinja_evaluate(r, n->a));
    return jv_truth(left) == (n->type == JN_AND) ? jinja_evaluate(r, n->b) : left;
}

static struct jv evaluate_access(struct jinja *r, const struct jnode *n)
{
    JV_TRY(object, jinja_evaluate(r, n->a));
    if (n->type == JN_ATTR) {
        r->line = n->line;
        return jinja_attribute(r, object, n->value.s);
    }
    JV_TRY(key, jinja_evaluate(r, n->b));
    r->line = n->line;
    return jinja_subscript(r, object, key);
}

static struct jv evaluate_by_type(struct jinja *r, const struct jnode *n)
{
    switch (n->type) {
    case JN_LIST:
    case JN_TUPLE:
        return evaluate_list(r, n);
    case JN_DICT:
        return evaluate_dict(r, n);
    case JN_ATTR:
    case JN_ITEM:
        return evaluate_access(r, n);
    case JN_SLICE:
        return evaluate_slice(r, n);
    case JN_CALL:
        return jinja_call_node(r, n, (struct jv){ 0 });
    case JN_FILTER: {
        JV_TRY(subject, jinja_evaluate(r, n->a));
        return evaluate_filter(r, n, subject);
    }
    case JN_TEST:
        return evaluate_test(r, n);
    case JN_NOT:
    case JN_NEGATIVE:
    case JN_POSITIVE:
        return evaluate_unary(r, n);
    case JN_ARITH:
        return evaluate_arith(r, n);
    case JN_COMPARE:
        return evaluate_compare(r, n);
    case JN_AND:
    case JN_OR:
        return evaluate_logic(r, n);
    case JN_IF_ELSE:
        return evaluate_choice(r, n);
    case JN_CONCAT:
        return evaluate_concat(r, n);
    default:
        return jv_fail(r, JINJA_FAILURE_SYNTAX, "this is no expression");
    }
}

struct jv jinja_evaluate(struct jinja *r, const struct jnode *n)
{
    if (n->type == JN_CONST)
        return n->value;
    if (!jinja_step(r, 1))
        return (struct jv){ .kind = JV_FAILURE };
    if (n->type == JN_NAME) {
        r->line = n->line;
        return jinja_lookup(r, n->symbol);
    }
    if (!jinja_enter(r))
        return (struct jv){ .kind = JV_FAILURE };
    struct jv v = evaluate_by_type(r, n);
    r->depth--;
    return v;
}

/* --- attributes and elements ---------------------------------------------------------------- */

static struct jv missing(struct jv object, struct jstr *name, unsigned flags)
{
    return (struct jv){ .kind = JV_UNDEFINED, .owner = object.kind, .flags = (uint8_t)flags,
                        .s = name };
}

static struct jv method_value(struct jinja *r, struct jv object, const struct jinja_callable *c)
{
    struct jmethod *m = jinja_alloc(r, 1, sizeof *m);
    if (!m)
        return jv_no_memory(r);
    *m = (struct jmethod){ object, c };
    return (struct jv){ .kind = JV_METHOD, .method = m };
}

/* Attributes that are no methods. */
static bool special_attribute(struct jinja *r, struct jv object, struct jstr *name, struct jv *out)
{
    struct str s = jstr_str(name);
    switch (object.kind) {
    case JV_NAMESPACE:
        return jdict_get(r, object.dict, jv_of_str(name), out);
    case JV_LOOP:
        *out = jinja_loop_attribute(r, object.loop, name);
        return out->kind != JV_UNDEFINED;
    case JV_TUPLE:
        if (!(object.flags & JV_GROUP) || (!str_is(s, "grouper") && !str_is(s, "list")))
            return false;
        *out = object.list->items[str_is(s, "list")];
        return true;
    case JV_MACRO: {
        const struct jparameters *p = object.macro->node->parameters;
        if (str_is(s, "name"))
            *out = jv_of_str(r->t->symbols[object.macro->node->symbol]);
        else if (str_is(s, "catch_kwargs"))
            *out = jv_bool(p->uses_kwargs);
        else if (str_is(s, "catch_varargs"))
            *out = jv_bool(p->uses_varargs);
        else if (str_is(s, "caller"))
            *out = jv_bool(p->uses_caller);
        else if (str_is(s, "arguments")) {
            struct jlist *l = jlist_new(r, p->n);
            for (uint32_t i = 0; l && i < p->n; i++)
                (void)jlist_push(r, l, jv_of_str(p->names[i]));
            *out = l ? (struct jv){ .kind = JV_TUPLE, .list = l } : jv_no_memory(r);
        } else {
            return false;
        }
        return true;
    }
    case JV_CYCLER:
        if (str_is(s, "current"))
            *out = object.cycler->items->items[object.cycler->at];
        return str_is(s, "current");
    case JV_SELF:
        for (size_t i = 0; i < r->t->n_blocks; i++)
            if (str_eq(jstr_str(r->t->symbols[r->t->blocks[i]->symbol]), s)) {
                struct jmacro *m = jinja_alloc(r, 1, sizeof *m);
                if (!m) {
                    *out = jv_no_memory(r);
                    return true;
                }
                *m = (struct jmacro){ r->t->blocks[i], r->root };
                *out = (struct jv){ .kind = JV_MACRO, .macro = m };
                return true;
            }
        return false;
    case JV_INT:
    case JV_BOOL:
    case JV_WIDE:
        if (str_is(s, "real") || str_is(s, "numerator"))
            *out = object;
        else if (str_is(s, "imag"))
            *out = jv_int(0);
        else if (str_is(s, "denominator"))
            *out = jv_int(1);
        else
            return false;
        return true;
    default:
        return false;
    }
}

/* What getattr() finds: methods and the like, not the keys of a dict. */
static bool own_attribute(struct jinja *r, struct jv object, struct jstr *name, struct jv *out)
{
    if (special_attribute(r, object, name, out))
        return true;
    const struct jinja_callable *c = jinja_method_find(object.kind, jstr_str(name));
    /* Lists and dicts of the context never change: only the template's own lists grow. */
    bool changes = object.kind == JV_LIST && c &&
                   (strcmp(c->name, "append") == 0 || strcmp(c->name, "pop") == 0);
    if (c && !(changes && object.list->from_value)) {
        *out = method_value(r, object, c);
        return true;
    }
    if (changes || jinja_method_is_hidden(object.kind, jstr_str(name))) {
        *out = missing(object, name, JV_UNSAFE);
        return true;
    }
    return false;
}

static bool is_dunder(struct str s)
{
    return s.len > 4 && str_starts(s, STR("__")) && str_ends(s, STR("__"));
}

struct jv jinja_attribute(struct jinja *r, struct jv object, struct jstr *name)
{
    struct jv v;
    if (object.kind == JV_UNDEFINED)
        return jv_undefined_error(r, object);
    bool hidden = name->len && name->ptr[0] == '_';
    if (hidden && is_dunder(jstr_str(name)))
        return missing(object, name, JV_UNSAFE);
    if (!hidden && own_attribute(r, object, name, &v))
        return v;
    if (object.kind == JV_DICT && jdict_get(r, object.dict, jv_of_str(name), &v))
        return v;
    return missing(object, name, 0);
}

static struct jv element_missing(struct jinja *r, struct jv object, struct jv key)
{
    struct jbuild b;
    jbuild_init(&b, r, 0);
    jformat_repr(&b, key, false);
    struct jv text = jbuild_finish(&b);
    return JV_IS_FAILURE(text) ? text : missing(object, text.s, JV_ELEMENT);
}

static struct jv indexed(struct jinja *r, struct jv object, struct jv key)
{
    JV_TRY(n, jv_length(r, object));
    __int128 at = jv_integer(key);
    if (at < 0)
        at += n.i;
    if (at < 0 || at >= n.i)
        return element_missing(r, object, key);
    size_t i = (size_t)at;
    switch (object.kind) {
    case JV_RANGE:
        return jv_int(object.range->start + (int64_t)i * object.range->step);
    case JV_STRING: {
        size_t from = jstr_offset(object.s, i);
        return jv_slice(r, object.s, from,
                        jstr_chars(object.s) == object.s->len
                            ? from + 1
                            : from + jstr_offset(&(struct jstr){ .ptr = object.s->ptr + from,
                                                                 .len = object.s->len - from,
                                                                 .n_chars = (size_t)n.i - i },
                                                 1));
    }
    case JV_BYTES:
        return jv_int((unsigned char)object.s->ptr[i]);
    default:
        return object.list->items[i];
    }
}

struct jv jinja_subscript(struct jinja *r, struct jv object, struct jv key)
{
    struct jv v;
    switch (object.kind) {
    case JV_UNDEFINED:
        return jv_undefined_error(r, object);
    case JV_DICT:
        if (jv_is_hashable(key) && jdict_get(r, object.dict, key, &v))
            return v;
        break;
    case JV_STRING:
    case JV_BYTES:
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
        if (jv_is_integer(key))
            return indexed(r, object, key);
        break;
    default:
        break;
    }
    if (key.kind != JV_STRING)
        return element_missing(r, object, key);
    if (key.s->len && key.s->ptr[0] == '_')
        return missing(object, key.s, is_dunder(jstr_str(key.s)) ? JV_UNSAFE : 0);
    return own_attribute(r, object, key.s, &v) ? v : missing(object, key.s, 0);
}
