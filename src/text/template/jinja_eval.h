/* jinja_eval: walks the tree. Statements are in jinja_eval.c, expressions in jinja_expr.c, loops
 * in jinja_loop.c, calls of macros in jinja_call.c. Internal to the interpreter. */
#ifndef TEXT_JINJA_EVAL_H
#define TEXT_JINJA_EVAL_H

#include "text/template/jinja_ast.h"
#include "text/template/jinja_library.h"

struct jbinding {
    uint32_t symbol;
    struct jv value;
};

/* Variables of one run of a body. Inner scopes see outer ones; what is set goes to the inner. */
struct jscope {
    struct jscope *parent;
    struct jbinding *items;
    uint32_t n, capacity;
    bool captured; /* a macro keeps it: it must not be used again */
    struct jbinding first[4];
};

struct jmacro {
    const struct jnode *node;
    struct jscope *scope; /* where it was defined */
};

enum jflow { JFLOW_NEXT, JFLOW_BREAK, JFLOW_CONTINUE, JFLOW_FAIL };

struct jv jinja_evaluate(struct jinja *r, const struct jnode *n);
enum jflow jinja_execute(struct jinja *r, const struct jnode *n);
enum jflow jinja_for(struct jinja *r, const struct jnode *n, struct jv iterable, unsigned depth);

void jscope_init(struct jscope *s, struct jscope *parent);
struct jscope *jscope_push(struct jinja *r); /* NULL: failed */
bool jscope_set(struct jinja *r, struct jscope *s, uint32_t symbol, struct jv value);
struct jv jinja_lookup(struct jinja *r, uint32_t symbol);
bool jinja_assign(struct jinja *r, const struct jnode *target, struct jv value);

/* Runs a body into a text of its own. */
struct jv jinja_capture(struct jinja *r, const struct jnode *body);
/* The filters of a filter block or a set block, on `text`. */
struct jv jinja_filter_chain(struct jinja *r, const struct jnode *filters, struct jv text);
/* Arguments of a call as written; `caller` is added as a keyword unless its kind is FAILURE. */
struct jv jinja_arguments(struct jinja *r, const struct jarguments *a, struct jv caller,
                          struct jargs *out);
struct jv jinja_call_node(struct jinja *r, const struct jnode *n, struct jv caller);
struct jv jinja_macro_value(struct jinja *r, const struct jnode *n);
struct jv jinja_call_macro(struct jinja *r, struct jmacro *m, const struct jargs *args);
struct jv jinja_loop_call(struct jinja *r, struct jloop *loop, const struct jargs *args);
struct jv jinja_loop_attribute(struct jinja *r, struct jloop *loop, struct jstr *name);
struct jv jinja_loop_cycle(struct jinja *r, struct jv self, const struct jargs *args);
struct jv jinja_loop_changed(struct jinja *r, struct jv self, const struct jargs *args);

bool jinja_enter(struct jinja *r); /* one level deeper into the tree; false: too deep */

#define JINJA_MAX_NESTING 3000 /* of the evaluator's own recursion */

#endif
