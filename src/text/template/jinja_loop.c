/* for loops. Items that pass the loop's condition are found one by one, as late as possible:
 * the body may change what the condition reads. Only loop.last, loop.length and the like look
 * ahead; what they find waits in `ready`. */
#include "text/template/jinja_eval.h"

struct jloop {
    const struct jnode *node;
    struct jscope *scope; /* around the loop */
    struct jscope *test;  /* of the condition */
    struct jiter it;
    struct jlist *ready;
    size_t n_taken; /* of ready */
    size_t index;   /* of the current item, from 0 */
    struct jv previous, current, changed;
    unsigned depth;
};

static bool passes(struct jinja *r, struct jloop *loop, struct jv item)
{
    struct jscope *outer = r->scope;
    if (!loop->test || loop->test->captured) {
        r->scope = loop->scope;
        loop->test = jscope_push(r);
    }
    bool ok = loop->test != NULL;
    if (ok) {
        loop->test->n = 0;
        r->scope = loop->test;
        ok = jinja_assign(r, loop->node->a, item);
    }
    struct jv v = ok ? jinja_evaluate(r, loop->node->c) : jv_bool(false);
    r->scope = outer;
    return !JV_IS_FAILURE(v) && jv_truth(v);
}

static bool find_next(struct jinja *r, struct jloop *loop, struct jv *item)
{
    while (jiter_next(r, &loop->it, item)) {
        if (!loop->node->c || passes(r, loop, *item))
            return true;
        if (r->failure)
            return false;
    }
    return false;
}

static bool loop_next(struct jinja *r, struct jloop *loop, struct jv *item)
{
    if (loop->ready && loop->n_taken < loop->ready->n) {
        *item = loop->ready->items[loop->n_taken++];
        return true;
    }
    return find_next(r, loop, item);
}

/* Looks at the next item without taking it; false: there is none. */
static bool loop_peek(struct jinja *r, struct jloop *loop, struct jv *item)
{
    if (loop->ready && loop->n_taken < loop->ready->n) {
        *item = loop->ready->items[loop->n_taken];
        return true;
    }
    if (!find_next(r, loop, item))
        return false;
    if (!loop->ready)
        loop->ready = jlist_new(r, 4);
    if (loop->ready && loop->n_taken == loop->ready->n)
        loop->ready->n = loop->n_taken = 0;
    return loop->ready && jlist_push(r, loop->ready, *item);
}

static struct jv loop_length(struct jinja *r, struct jloop *loop)
{
    if (!loop->node->c && loop->it.counted)
        return jv_size(loop->it.n);
    struct jv item;
    if (!loop->ready)
        loop->ready = jlist_new(r, 4);
    while (loop->ready && find_next(r, loop, &item))
        if (!jlist_push(r, loop->ready, item))
            break;
    return r->failure ? (struct jv){ .kind = JV_FAILURE }
                      : jv_size(loop->index + 1 + loop->ready->n - loop->n_taken);
}

static bool bind(struct jinja *r, struct jloop *loop, struct jv item)
{
    struct jv self = { .kind = JV_LOOP, .loop = loop };
    return jscope_set(r, r->scope, JINJA_SYMBOL_LOOP, self) &&
           jinja_assign(r, loop->node->a, item);
}

static bool ends_here(struct jinja *r, const struct jloop *loop)
{
    const struct jnode *n = loop->node;
    if (!(n->op & JFOR_ENDS_WHEN_FALSE) || !loop->it.counted)
        return false;
    struct jv condition = jinja_evaluate(r, n->kids[0]->kids[0]->a);
    return JV_IS_FAILURE(condition) || !jv_truth(condition);
}

static enum jflow run_items(struct jinja *r, struct jloop *loop, bool *any)
{
    struct jscope *body = NULL;
    struct jv item;
    enum jflow flow = JFLOW_NEXT;
    while (flow != JFLOW_BREAK && loop_next(r, loop, &item)) {
        loop->index += *any;
        loop->previous = loop->current;
        loop->current = item;
        *any = true;
        r->scope = loop->scope;
        if (!body || body->captured)
            body = jscope_push(r);
        if (!body)
            return JFLOW_FAIL;
        body->n = 0;
        r->scope = body;
        if (!bind(r, loop, item))
            return JFLOW_FAIL;
        if (ends_here(r, loop))
            break;
        flow = jinja_execute(r, loop->node->kids[0]);
        if (flow == JFLOW_FAIL)
            return flow;
    }
    return r->failure ? JFLOW_FAIL : JFLOW_NEXT;
}

enum jflow jinja_for(struct jinja *r, const struct jnode *n, struct jv iterable, unsigned depth)
{
    struct jloop *loop = jinja_alloc(r, 1, sizeof *loop);
    struct jscope *outer = r->scope;
    bool any = false;
    if (!loop)
        return JFLOW_FAIL;
    *loop = (struct jloop){ .node = n, .scope = outer, .depth = depth };
    if (JV_IS_FAILURE(jiter_init(r, &loop->it, iterable)))
        return JFLOW_FAIL;
    enum jflow flow = run_items(r, loop, &any);
    r->scope = outer;
    if (flow == JFLOW_NEXT && !any && n->kids[1]) {
        if (!jscope_push(r))
            return JFLOW_FAIL;
        flow = jinja_execute(r, n->kids[1]);
        r->scope = outer;
    }
    return flow;
}

/* loop(items): the body of a recursive loop over other items, as a text. */
struct jv jinja_loop_call(struct jinja *r, struct jloop *loop, const struct jargs *args)
{
    if (!(loop->node->op & JFOR_RECURSIVE))
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_named)
        return jv_fail(r, JINJA_FAILURE_VALUE, "loop() takes one argument, got %zu",
                       args->n + args->n_named);
    if (++r->calls > JINJA_MAX_DEPTH)
        return jv_fail(r, JINJA_FAILURE_LIMIT, "calls are nested deeper than %d", JINJA_MAX_DEPTH);
    struct jbuild text, *outer = r->out;
    struct jscope *scope = r->scope;
    jbuild_init(&text, r, 0);
    r->out = &text;
    r->scope = loop->scope;
    enum jflow flow = jinja_for(r, loop->node, args->positional[0], loop->depth + 1);
    r->out = outer;
    r->scope = scope;
    r->calls--;
    return flow == JFLOW_FAIL ? (struct jv){ .kind = JV_FAILURE } : jbuild_finish(&text);
}

static struct jv no_item(struct jinja *r, const char *name)
{
    struct jv text = jv_literal(r, name);
    return JV_IS_FAILURE(text) ? text : jv_undefined(text.s);
}

static struct jv next_item(struct jinja *r, struct jloop *loop)
{
    struct jv item;
    if (loop_peek(r, loop, &item))
        return item;
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : no_item(r, "there is no next item");
}

static struct jv is_last(struct jinja *r, struct jloop *loop)
{
    struct jv item;
    if (!loop->node->c && loop->it.counted)
        return jv_bool(loop->index + 1 >= loop->it.n);
    bool more = loop_peek(r, loop, &item);
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jv_bool(!more);
}

enum loop_name {
    LOOP_INDEX, LOOP_INDEX0, LOOP_REVINDEX, LOOP_REVINDEX0, LOOP_FIRST, LOOP_LAST, LOOP_LENGTH,
    LOOP_PREVITEM, LOOP_NEXTITEM, LOOP_DEPTH, LOOP_DEPTH0, LOOP_NAMES,
};

static const char *const loop_names[] = {
    [LOOP_INDEX] = "index", [LOOP_INDEX0] = "index0", [LOOP_REVINDEX] = "revindex",
    [LOOP_REVINDEX0] = "revindex0", [LOOP_FIRST] = "first", [LOOP_LAST] = "last",
    [LOOP_LENGTH] = "length", [LOOP_PREVITEM] = "previtem", [LOOP_NEXTITEM] = "nextitem",
    [LOOP_DEPTH] = "depth", [LOOP_DEPTH0] = "depth0",
};

static struct jv loop_value(struct jinja *r, struct jloop *loop, unsigned which)
{
    switch (which) {
    case LOOP_INDEX:
        return jv_size(loop->index + 1);
    case LOOP_INDEX0:
        return jv_size(loop->index);
    case LOOP_REVINDEX:
    case LOOP_REVINDEX0: {
        JV_TRY(length, loop_length(r, loop));
        return jv_int(length.i - (int64_t)loop->index - (which == LOOP_REVINDEX0));
    }
    case LOOP_FIRST:
        return jv_bool(loop->index == 0);
    case LOOP_LAST:
        return is_last(r, loop);
    case LOOP_LENGTH:
        return loop_length(r, loop);
    case LOOP_PREVITEM:
        return loop->index ? loop->previous : no_item(r, "there is no previous item");
    case LOOP_NEXTITEM:
        return next_item(r, loop);
    default:
        return jv_int((int64_t)loop->depth + (which == LOOP_DEPTH));
    }
}

struct jv jinja_loop_attribute(struct jinja *r, struct jloop *loop, struct jstr *name)
{
    for (unsigned i = 0; i < LOOP_NAMES; i++)
        if (str_is(jstr_str(name), loop_names[i])) {
            struct jv v = loop_value(r, loop, i);
            /* Found, but nothing there: the caller must not look further. */
            return v;
        }
    return (struct jv){ .kind = JV_UNDEFINED, .owner = JV_LOOP, .s = name };
}

struct jv jinja_loop_cycle(struct jinja *r, struct jv self, const struct jargs *args)
{
    if (args->n == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "no items for cycling given");
    return args->positional[self.loop->index % args->n];
}

struct jv jinja_loop_changed(struct jinja *r, struct jv self, const struct jargs *args)
{
    struct jlist *now = jlist_new(r, args->n);
    if (!now)
        return jv_no_memory(r);
    for (size_t i = 0; i < args->n; i++)
        now->items[now->n++] = args->positional[i];
    struct jv list = jv_of_list(now), before = self.loop->changed;
    if (before.kind == JV_LIST && jv_equal(r, before, list))
        return jv_bool(false);
    self.loop->changed = list;
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jv_bool(true);
}
