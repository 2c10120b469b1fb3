/* jinja_parse: tokens to the tree of jinja_ast.h, by recursive descent.
 * jinja_parse.c holds the statements, jinja_parse_expr.c the operators, jinja_parse_primary.c the
 * literals and what stands behind them. */
#ifndef TEXT_JINJA_PARSE_H
#define TEXT_JINJA_PARSE_H

#include "text/template/jinja_ast.h"
#include "text/template/jinja_lex.h"

/* An unknown filter or test. It is an error at once unless it stands in a branch that may never
 * run (of an if, of a conditional expression): there it fails when it is reached. */
struct unknown_name {
    uint32_t line;
    const char *kind; /* "filter", "test"; NULL: none */
    struct str name;
};

struct parser {
    struct jinja_template *t;
    struct jtokens tokens;
    size_t at;
    unsigned depth, loops;
    size_t n_varargs, n_kwargs, n_caller; /* uses of the special names so far */
    struct unknown_name pending, certain;
    struct error *err;
};

struct node_list {
    struct jnode **items;
    size_t n, capacity;
};

MUST_CHECK enum status jinja_parse(struct jinja_template *t, struct error *err);

/* All parse functions return NULL after an error. */
struct jnode *parse_expression(struct parser *p);
struct jnode *parse_without_condition(struct parser *p); /* no "a if b" at the top */
/* Expressions with commas between them: the tuple of them, or the only one itself. */
struct jnode *parse_tuple(struct parser *p, bool condition, const char *end_word, bool parens);
struct jnode *parse_target(struct parser *p, const char *end_word, bool namespaces);
struct jnode *parse_filters(struct parser *p, struct jnode *subject, bool start_inline);

struct jnode *parse_primary(struct parser *p);
struct jnode *parse_postfix(struct parser *p, struct jnode *n);
struct jnode *parse_filter_expression(struct parser *p, struct jnode *n);

struct jnode *node_new(struct parser *p, enum jnode_type type);
/* NULL when a is. */
struct jnode *node_unary(struct parser *p, enum jnode_type type, struct jnode *a);
struct jnode *node_list(struct parser *p, enum jnode_type type, struct node_list *list);
void node_push(struct parser *p, struct node_list *list, struct jnode *node);
struct jstr *parser_string(struct parser *p, struct str text);
uint32_t parser_symbol(struct parser *p, struct str name);

struct jtoken *token_now(struct parser *p);
struct jtoken *token_look(struct parser *p);
struct jtoken *token_next(struct parser *p); /* returns the current one and moves on */
bool token_is_word(const struct jtoken *t, const char *word);
bool token_skip(struct parser *p, enum jtoken_type type);
bool token_skip_word(struct parser *p, const char *word);
bool token_expect(struct parser *p, enum jtoken_type type);
struct jnode *parse_fail(struct parser *p, const char *format, ...) PRINTF_LIKE(2, 3);
struct str token_shown(const struct jtoken *t);
bool parse_enter(struct parser *p); /* one level deeper; false: too deep */

#endif
