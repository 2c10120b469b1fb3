/* Expressions by precedence, and assignment targets. */
#include "text/template/jinja_parse.h"

bool parse_enter(struct parser *p)
{
    if (++p->depth <= JINJA_MAX_DEPTH)
        return true;
    (void)parse_fail(p, "the template is nested deeper than %d", JINJA_MAX_DEPTH);
    return false;
}

struct jnode *node_unary(struct parser *p, enum jnode_type type, struct jnode *a)
{
    struct jnode *n = a ? node_new(p, type) : NULL;
    if (n) {
        n->line = a->line;
        n->a = a;
    }
    return n;
}

struct jnode *node_list(struct parser *p, enum jnode_type type, struct node_list *list)
{
    struct jnode *n = node_new(p, type);
    n->kids = list->items;
    n->n = (uint32_t)list->n;
    return n;
}

/* --- operators, the loosest last ------------------------------------------------------------ */

static struct jnode *parse_unary(struct parser *p, bool with_filter)
{
    struct jnode *n;
    enum jtoken_type type = token_now(p)->type;
    if (type == JT_SUB || type == JT_ADD) {
        token_next(p);
        if (!parse_enter(p))
            return NULL;
        n = node_unary(p, type == JT_SUB ? JN_NEGATIVE : JN_POSITIVE, parse_unary(p, false));
        p->depth--;
    } else {
        n = parse_primary(p);
    }
    n = n ? parse_postfix(p, n) : NULL;
    return n && with_filter ? parse_filter_expression(p, n) : n;
}

static struct jnode *parse_operand(struct parser *p)
{
    return parse_unary(p, true);
}

struct level {
    enum jtoken_type tokens[4];
    enum jop ops[4];
    size_t n;
    struct jnode *(*operand)(struct parser *);
};

/* operand (op operand)*: one node with all operands of this precedence. */
static struct jnode *parse_level(struct parser *p, const struct level *level)
{
    struct jnode *first = level->operand(p);
    struct node_list kids = { 0 };
    uint8_t ops[1024];
    while (first) {
        size_t i = 0;
        while (i < level->n && level->tokens[i] != token_now(p)->type)
            i++;
        if (i == level->n)
            break;
        if (kids.n == 0)
            node_push(p, &kids, first);
        if (kids.n > ARRAY_SIZE(ops))
            return parse_fail(p, "an expression has more than %zu operands", ARRAY_SIZE(ops));
        ops[kids.n - 1] = (uint8_t)level->ops[i];
        token_next(p);
        struct jnode *next = level->operand(p);
        if (!next)
            return NULL;
        node_push(p, &kids, next);
    }
    if (!first || kids.n == 0)
        return first;
    struct jnode *n = node_list(p, JN_ARITH, &kids);
    n->line = first->line;
    n->ops = arena_alloc(&p->t->arena, kids.n);
    CHECK(n->ops);
    memcpy(n->ops, ops, kids.n - 1);
    return n;
}

static struct jnode *parse_power(struct parser *p)
{
    static const struct level level = { { JT_POW }, { JOP_POW }, 1, parse_operand };
    return parse_level(p, &level);
}

static struct jnode *parse_product(struct parser *p)
{
    static const struct level level = { { JT_MUL, JT_DIV, JT_FLOOR_DIV, JT_MOD },
                                        { JOP_MUL, JOP_DIV, JOP_FLOOR_DIV, JOP_MOD },
                                        4,
                                        parse_power };
    return parse_level(p, &level);
}

static struct jnode *parse_concat(struct parser *p)
{
    struct jnode *first = parse_product(p);
    struct node_list kids = { 0 };
    while (first && token_skip(p, JT_TILDE)) {
        if (kids.n == 0)
            node_push(p, &kids, first);
        struct jnode *next = parse_product(p);
        if (!next)
            return NULL;
        node_push(p, &kids, next);
    }
    if (!first || kids.n == 0)
        return first;
    struct jnode *n = node_list(p, JN_CONCAT, &kids);
    n->line = first->line;
    return n;
}

static struct jnode *parse_sum(struct parser *p)
{
    static const struct level level = { { JT_ADD, JT_SUB }, { JOP_ADD, JOP_SUB }, 2, parse_concat };
    return parse_level(p, &level);
}

/* The comparison at hand, or -1. */
static int comparison(struct parser *p)
{
    struct jtoken *t = token_now(p);
    switch (t->type) {
    case JT_EQ:
        return JOP_EQ;
    case JT_NE:
        return JOP_NE;
    case JT_LT:
        return JOP_LT;
    case JT_LE:
        return JOP_LE;
    case JT_GT:
        return JOP_GT;
    case JT_GE:
        return JOP_GE;
    default:
        if (token_is_word(t, "in"))
            return JOP_IN;
        return token_is_word(t, "not") && token_is_word(token_look(p), "in") ? JOP_NOT_IN : -1;
    }
}

static struct jnode *parse_compare(struct parser *p)
{
    struct jnode *first = parse_sum(p);
    struct node_list kids = { 0 };
    uint8_t ops[64];
    int op;
    while (first && (op = comparison(p)) >= 0) {
        if (kids.n == 0)
            node_push(p, &kids, first);
        if (kids.n > ARRAY_SIZE(ops))
            return parse_fail(p, "more than %zu comparisons in a chain", ARRAY_SIZE(ops));
        ops[kids.n - 1] = (uint8_t)op;
        token_next(p);
        if (op == JOP_NOT_IN)
            token_next(p);
        struct jnode *next = parse_sum(p);
        if (!next)
            return NULL;
        node_push(p, &kids, next);
    }
    if (!first || kids.n == 0)
        return first;
    struct jnode *n = node_list(p, JN_COMPARE, &kids);
    n->line = first->line;
    n->ops = arena_alloc(&p->t->arena, kids.n);
    CHECK(n->ops);
    memcpy(n->ops, ops, kids.n - 1);
    return n;
}

static struct jnode *parse_not(struct parser *p)
{
    if (!token_is_word(token_now(p), "not"))
        return parse_compare(p);
    token_next(p);
    if (!parse_enter(p))
        return NULL;
    struct jnode *n = node_unary(p, JN_NOT, parse_not(p));
    p->depth--;
    return n;
}

static struct jnode *parse_logic(struct parser *p, const char *word, enum jnode_type type,
                                 struct jnode *(*operand)(struct parser *))
{
    struct jnode *left = operand(p);
    unsigned depth = p->depth;
    while (left && token_skip_word(p, word)) {
        if (!parse_enter(p))
            return NULL;
        struct jnode *n = node_unary(p, type, left);
        n->b = operand(p);
        left = n->b ? n : NULL;
    }
    p->depth = depth;
    return left;
}

static struct jnode *parse_and(struct parser *p)
{
    return parse_logic(p, "and", JN_AND, parse_not);
}

struct jnode *parse_without_condition(struct parser *p)
{
    return parse_logic(p, "or", JN_OR, parse_and);
}

struct jnode *parse_expression(struct parser *p)
{
    if (!parse_enter(p))
        return NULL;
    struct unknown_name before = p->pending;
    struct jnode *n = parse_without_condition(p);
    while (n && token_skip_word(p, "if")) {
        struct jnode *condition = node_unary(p, JN_IF_ELSE, n);
        condition->b = parse_without_condition(p);
        n = condition->b ? condition : NULL;
        if (n && token_skip_word(p, "else")) {
            n->c = parse_expression(p);
            n = n->c ? n : NULL;
        }
        p->pending = before;
    }
    p->depth--;
    return n;
}

static bool is_tuple_end(struct parser *p, const char *end_word)
{
    enum jtoken_type type = token_now(p)->type;
    return type == JT_PRINT_END || type == JT_TAG_END || type == JT_RIGHT_PAREN ||
           (end_word && token_is_word(token_now(p), end_word));
}

struct jnode *parse_tuple(struct parser *p, bool condition, const char *end_word, bool parens)
{
    struct node_list kids = { 0 };
    bool is_tuple = false;
    for (;;) {
        if (kids.n && !token_expect(p, JT_COMMA))
            return NULL;
        if (is_tuple_end(p, end_word))
            break;
        struct jnode *n = condition ? parse_expression(p) : parse_without_condition(p);
        if (!n)
            return NULL;
        node_push(p, &kids, n);
        if (token_now(p)->type != JT_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && kids.n)
        return kids.items[0];
    if (!is_tuple && !parens)
        return parse_fail(p, "Expected an expression, got '%.*s'",
                          STR_ARG(token_shown(token_now(p))));
    return node_list(p, JN_TUPLE, &kids);
}

/* --- assignment targets --------------------------------------------------------------------- */

static const char *target_fault(const struct jnode *n)
{
    static const char *const names[] = {
        [JN_CONST] = "const", [JN_LIST] = "list", [JN_DICT] = "dict", [JN_ATTR] = "getattr",
        [JN_ITEM] = "getitem", [JN_SLICE] = "slice", [JN_CALL] = "call",
    };
    if (n->type == JN_NAME || n->type == JN_NAMESPACE_TARGET)
        return NULL;
    if (n->type != JN_TUPLE)
        return n->type <= JN_CALL && names[n->type] ? names[n->type] : "expression";
    for (uint32_t i = 0; i < n->n; i++)
        if (target_fault(n->kids[i]))
            return "tuple";
    return NULL;
}

static struct jnode *parse_simple_target(struct parser *p, bool namespaces)
{
    if (!namespaces || token_now(p)->type != JT_NAME || token_look(p)->type != JT_DOT)
        return parse_primary(p);
    struct jnode *n = node_new(p, JN_NAMESPACE_TARGET);
    n->symbol = parser_symbol(p, token_next(p)->text);
    token_next(p);
    if (token_now(p)->type != JT_NAME) {
        (void)token_expect(p, JT_NAME);
        return NULL;
    }
    n->value = jv_of_str(parser_string(p, token_next(p)->text));
    return n;
}

struct jnode *parse_target(struct parser *p, const char *end_word, bool namespaces)
{
    struct node_list kids = { 0 };
    bool is_tuple = false;
    for (;;) {
        if (kids.n && !token_expect(p, JT_COMMA))
            return NULL;
        if (is_tuple_end(p, end_word))
            break;
        struct jnode *n = parse_simple_target(p, namespaces);
        if (!n)
            return NULL;
        node_push(p, &kids, n);
        if (token_now(p)->type != JT_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && kids.n == 0)
        return parse_fail(p, "Expected an expression, got '%.*s'",
                          STR_ARG(token_shown(token_now(p))));
    struct jnode *target = is_tuple ? node_list(p, JN_TUPLE, &kids) : kids.items[0];
    const char *fault = target_fault(target);
    return fault ? parse_fail(p, "can't assign to '%s'", fault) : target;
}
