#include <math.h>

#include "base/number.h"
#include "text/template/jinja_library.h"
#include "text/template/jinja_parse.h"

bool parse_enter(struct parser *p)
{
    if (++p->depth <= JINJA_MAX_DEPTH)
        return true;
    (void)parse_fail(p, "the template is nested deeper than %d", JINJA_MAX_DEPTH);
    return false;
}

static struct jnode *unary_node(struct parser *p, enum jnode_type type, struct jnode *a)
{
    struct jnode *n = a ? node_new(p, type) : NULL;
    if (n) {
        n->line = a->line;
        n->a = a;
    }
    return n;
}

static struct jnode *list_node(struct parser *p, enum jnode_type type, struct node_list *list)
{
    struct jnode *n = node_new(p, type);
    n->kids = list->items;
    n->n = (uint32_t)list->n;
    return n;
}

/* --- literals ------------------------------------------------------------------------------- */

static struct jnode *constant(struct parser *p, struct jv value)
{
    struct jnode *n = node_new(p, JN_CONST);
    n->value = value;
    return n;
}

static struct jnode *parse_string(struct parser *p)
{
    struct jtoken *first = token_next(p);
    struct str text = first->text;
    while (token_now(p)->type == JT_STRING) {
        struct str more = token_next(p)->text;
        char *joined = arena_alloc(&p->t->arena, text.len + more.len + 1);
        CHECK(joined);
        memcpy(joined, text.ptr, text.len);
        memcpy(joined + text.len, more.ptr, more.len);
        joined[text.len + more.len] = 0;
        text = (struct str){ joined, text.len + more.len };
    }
    return constant(p, jv_of_str(parser_string(p, text)));
}

static struct jnode *parse_integer(struct parser *p)
{
    struct str s = token_next(p)->text;
    unsigned base = 10;
    size_t at = 0;
    if (s.len > 2 && s.ptr[0] == '0') {
        char kind = (char)(s.ptr[1] | 32);
        base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        at = base == 10 ? 0 : 2;
    }
    __int128 value = 0;
    for (; at < s.len; at++) {
        char c = s.ptr[at];
        if (c == '_')
            continue;
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a') + 10;
        if (__builtin_mul_overflow(value, (__int128)base, &value) ||
            __builtin_add_overflow(value, (__int128)digit, &value))
            return parse_fail(p, "the integer %.*s is too large", STR_ARG(s));
    }
    if (value <= INT64_MAX)
        return constant(p, jv_int((int64_t)value));
    __int128 *wide = arena_alloc(&p->t->arena, sizeof *wide);
    CHECK(wide);
    *wide = value;
    return constant(p, (struct jv){ .kind = JV_WIDE, .wide = wide });
}

static struct jnode *parse_float(struct parser *p)
{
    struct str s = token_next(p)->text;
    char *digits = arena_alloc(&p->t->arena, s.len + 1);
    CHECK(digits);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] != '_')
            digits[n++] = s.ptr[i];
    double value;
    if (!number_parse_double((struct str){ digits, n }, &value))
        value = (double)INFINITY;
    return constant(p, jv_float(value));
}

static struct jnode *parse_list(struct parser *p)
{
    struct node_list kids = { 0 };
    token_next(p);
    while (token_now(p)->type != JT_RIGHT_BRACKET) {
        if (kids.n && !token_expect(p, JT_COMMA))
            return NULL;
        if (token_now(p)->type == JT_RIGHT_BRACKET)
            break;
        struct jnode *item = parse_expression(p);
        if (!item)
            return NULL;
        node_push(p, &kids, item);
    }
    return token_expect(p, JT_RIGHT_BRACKET) ? list_node(p, JN_LIST, &kids) : NULL;
}

static struct jnode *parse_dict(struct parser *p)
{
    struct node_list kids = { 0 };
    token_next(p);
    while (token_now(p)->type != JT_RIGHT_BRACE) {
        if (kids.n && !token_expect(p, JT_COMMA))
            return NULL;
        if (token_now(p)->type == JT_RIGHT_BRACE)
            break;
        struct jnode *key = parse_expression(p);
        if (!key || !token_expect(p, JT_COLON))
            return NULL;
        struct jnode *value = parse_expression(p);
        if (!value)
            return NULL;
        node_push(p, &kids, key);
        node_push(p, &kids, value);
    }
    return token_expect(p, JT_RIGHT_BRACE) ? list_node(p, JN_DICT, &kids) : NULL;
}

static struct jnode *parse_name(struct parser *p)
{
    struct jtoken *t = token_next(p);
    if (token_is_word(t, "true") || token_is_word(t, "True"))
        return constant(p, jv_bool(true));
    if (token_is_word(t, "false") || token_is_word(t, "False"))
        return constant(p, jv_bool(false));
    if (token_is_word(t, "none") || token_is_word(t, "None"))
        return constant(p, jv_none());
    struct jnode *n = node_new(p, JN_NAME);
    n->line = t->line;
    n->symbol = parser_symbol(p, t->text);
    p->n_varargs += n->symbol == JINJA_SYMBOL_VARARGS;
    p->n_kwargs += n->symbol == JINJA_SYMBOL_KWARGS;
    p->n_caller += n->symbol == JINJA_SYMBOL_CALLER;
    return n;
}

static struct jnode *parse_primary(struct parser *p)
{
    struct jnode *n = NULL;
    if (!parse_enter(p))
        return NULL;
    switch (token_now(p)->type) {
    case JT_NAME:
        n = parse_name(p);
        break;
    case JT_STRING:
        n = parse_string(p);
        break;
    case JT_INTEGER:
        n = parse_integer(p);
        break;
    case JT_FLOAT:
        n = parse_float(p);
        break;
    case JT_LEFT_BRACKET:
        n = parse_list(p);
        break;
    case JT_LEFT_BRACE:
        n = parse_dict(p);
        break;
    case JT_LEFT_PAREN:
        token_next(p);
        n = parse_tuple(p, true, NULL, true);
        if (n && !token_expect(p, JT_RIGHT_PAREN))
            n = NULL;
        break;
    default:
        n = parse_fail(p, "unexpected '%.*s'", STR_ARG(token_shown(token_now(p))));
    }
    p->depth--;
    return n;
}

/* --- what follows a primary ----------------------------------------------------------------- */

static bool is_slice_end(enum jtoken_type type)
{
    return type == JT_RIGHT_BRACKET || type == JT_COMMA;
}

static struct jnode *parse_subscribed(struct parser *p)
{
    struct jnode *part[3] = { NULL, NULL, NULL };
    if (token_now(p)->type != JT_COLON) {
        part[0] = parse_expression(p);
        if (!part[0] || token_now(p)->type != JT_COLON)
            return part[0];
    }
    for (int i = 1; i < 3 && token_skip(p, JT_COLON); i++) {
        if (token_now(p)->type == JT_COLON || is_slice_end(token_now(p)->type))
            continue;
        part[i] = parse_expression(p);
        if (!part[i])
            return NULL;
    }
    struct jnode *n = node_new(p, JN_SLICE);
    n->kids = arena_array(&p->t->arena, struct jnode *, 3);
    CHECK(n->kids);
    memcpy(n->kids, part, sizeof part);
    n->n = 3;
    return n;
}

static struct jnode *parse_bracket(struct parser *p, struct jnode *object)
{
    struct node_list parts = { 0 };
    uint32_t line = token_next(p)->line;
    while (token_now(p)->type != JT_RIGHT_BRACKET) {
        if (parts.n && !token_expect(p, JT_COMMA))
            return NULL;
        struct jnode *part = parse_subscribed(p);
        if (!part)
            return NULL;
        if (parts.n && part->type == JN_SLICE)
            return parse_fail(p, "a slice cannot be part of a tuple");
        node_push(p, &parts, part);
    }
    token_next(p);
    struct jnode *key = parts.n == 1 ? parts.items[0] : list_node(p, JN_TUPLE, &parts);
    if (key->type == JN_SLICE) {
        key->a = object;
        key->line = line;
        return key;
    }
    struct jnode *n = node_new(p, JN_ITEM);
    n->line = line;
    n->a = object;
    n->b = key;
    return n;
}

static struct jnode *parse_dot(struct parser *p, struct jnode *object)
{
    uint32_t line = token_next(p)->line;
    if (token_now(p)->type == JT_INTEGER) {
        struct jnode *n = node_new(p, JN_ITEM);
        n->a = object;
        n->b = parse_integer(p);
        return n->b ? n : NULL;
    }
    if (token_now(p)->type != JT_NAME)
        return parse_fail(p, "expected name or number");
    struct jnode *n = node_new(p, JN_ATTR);
    n->line = line;
    n->a = object;
    n->value = jv_of_str(parser_string(p, token_next(p)->text));
    return n;
}

struct argument_lists {
    struct node_list positional, keywords;
    struct jstr **names;
};

static bool parse_argument(struct parser *p, struct argument_lists *l, struct jarguments *args)
{
    static const char wrong[] = "invalid syntax for function call expression";
    bool star = token_skip(p, JT_MUL), star_star = !star && token_skip(p, JT_POW);
    if (star || star_star) {
        if (args->star_star || (star && args->star))
            return parse_fail(p, "%s", wrong) != NULL;
        struct jnode *n = parse_expression(p);
        *(star ? &args->star : &args->star_star) = n;
        return n != NULL;
    }
    if (token_now(p)->type == JT_NAME && token_look(p)->type == JT_ASSIGN) {
        if (args->star_star)
            return parse_fail(p, "%s", wrong) != NULL;
        struct jnode *name = node_new(p, JN_CONST);
        name->value = jv_of_str(parser_string(p, token_next(p)->text));
        token_next(p);
        struct jnode *value = parse_expression(p);
        if (!value)
            return false;
        node_push(p, &l->keywords, name);
        node_push(p, &l->keywords, value);
        return true;
    }
    if (args->star || args->star_star || l->keywords.n)
        return parse_fail(p, "%s", wrong) != NULL;
    struct jnode *n = parse_expression(p);
    if (n)
        node_push(p, &l->positional, n);
    return n != NULL;
}

static void store_arguments(struct parser *p, struct argument_lists *l, struct jarguments *args)
{
    args->n_positional = (uint32_t)l->positional.n;
    args->n_keywords = (uint32_t)(l->keywords.n / 2);
    args->values = arena_array(&p->t->arena, struct jnode *, args->n_positional + args->n_keywords);
    args->names = arena_array(&p->t->arena, struct jstr *, args->n_keywords);
    CHECK(args->values && args->names);
    for (uint32_t i = 0; i < args->n_positional; i++)
        args->values[i] = l->positional.items[i];
    for (uint32_t i = 0; i < args->n_keywords; i++) {
        args->names[i] = l->keywords.items[2 * i]->value.s;
        args->values[args->n_positional + i] = l->keywords.items[2 * i + 1];
    }
}

static struct jarguments *parse_arguments(struct parser *p)
{
    struct jarguments *args = arena_zero(&p->t->arena, 1, sizeof *args);
    struct argument_lists l = { 0 };
    CHECK(args);
    token_next(p);
    for (bool first = true; token_now(p)->type != JT_RIGHT_PAREN; first = false) {
        if (!first && !token_expect(p, JT_COMMA))
            return NULL;
        if (token_now(p)->type == JT_RIGHT_PAREN)
            break;
        if (!parse_argument(p, &l, args))
            return NULL;
    }
    if (!token_expect(p, JT_RIGHT_PAREN))
        return NULL;
    store_arguments(p, &l, args);
    return args;
}

static struct jarguments *no_arguments(struct parser *p)
{
    struct jarguments *args = arena_zero(&p->t->arena, 1, sizeof *args);
    CHECK(args);
    return args;
}

static struct jnode *parse_call(struct parser *p, struct jnode *function)
{
    struct jnode *n = node_new(p, JN_CALL);
    n->a = function;
    n->arguments = parse_arguments(p);
    return n->arguments ? n : NULL;
}

static struct jnode *parse_postfix(struct parser *p, struct jnode *n)
{
    unsigned depth = p->depth;
    while (n) {
        enum jtoken_type type = token_now(p)->type;
        if (type != JT_DOT && type != JT_LEFT_BRACKET && type != JT_LEFT_PAREN)
            break;
        if (!parse_enter(p))
            return NULL;
        n = type == JT_DOT            ? parse_dot(p, n)
            : type == JT_LEFT_BRACKET ? parse_bracket(p, n)
                                      : parse_call(p, n);
    }
    p->depth = depth;
    return n;
}

/* A dotted name, as the names of filters and tests may be. */
static bool parse_dotted_name(struct parser *p, struct str *name)
{
    if (token_now(p)->type != JT_NAME)
        return token_expect(p, JT_NAME);
    *name = token_next(p)->text;
    while (token_skip(p, JT_DOT)) {
        if (token_now(p)->type != JT_NAME)
            return token_expect(p, JT_NAME);
        *name = arena_format(&p->t->arena, "%.*s.%.*s", STR_ARG(*name),
                             STR_ARG(token_next(p)->text));
    }
    return true;
}

static void note_unknown(struct parser *p, struct jnode *n, const char *kind, struct str name)
{
    if (!n->entry && !p->pending.kind)
        p->pending = (struct unknown_name){ n->line, kind, name };
}

struct jnode *parse_filters(struct parser *p, struct jnode *subject, bool start_inline)
{
    while (start_inline || token_skip(p, JT_PIPE)) {
        struct jnode *n = node_new(p, JN_FILTER);
        struct str name;
        start_inline = false;
        if (!parse_dotted_name(p, &name) || !parse_enter(p))
            return NULL;
        n->a = subject;
        n->entry = jinja_filter_find(name);
        n->value = jv_of_str(parser_string(p, name));
        note_unknown(p, n, "filter", name);
        n->arguments = token_now(p)->type == JT_LEFT_PAREN ? parse_arguments(p) : no_arguments(p);
        if (!n->arguments)
            return NULL;
        subject = n;
    }
    return subject;
}

static bool starts_test_argument(struct parser *p)
{
    struct jtoken *t = token_now(p);
    switch (t->type) {
    case JT_NAME:
        return !token_is_word(t, "else") && !token_is_word(t, "or") && !token_is_word(t, "and");
    case JT_STRING:
    case JT_INTEGER:
    case JT_FLOAT:
    case JT_LEFT_BRACKET:
    case JT_LEFT_BRACE:
        return true;
    default:
        return false;
    }
}

static struct jnode *parse_test(struct parser *p, struct jnode *subject)
{
    struct jnode *n = node_new(p, JN_TEST);
    token_next(p);
    bool negated = token_skip_word(p, "not");
    struct str name;
    if (!parse_dotted_name(p, &name))
        return NULL;
    n->a = subject;
    n->entry = jinja_test_find(name);
    n->value = jv_of_str(parser_string(p, name));
    note_unknown(p, n, "test", name);
    if (token_now(p)->type == JT_LEFT_PAREN) {
        n->arguments = parse_arguments(p);
    } else if (starts_test_argument(p)) {
        if (token_is_word(token_now(p), "is"))
            return parse_fail(p, "You cannot chain multiple tests with is");
        struct jnode *argument = parse_primary(p);
        argument = argument ? parse_postfix(p, argument) : NULL;
        if (!argument)
            return NULL;
        struct argument_lists l = { 0 };
        node_push(p, &l.positional, argument);
        n->arguments = no_arguments(p);
        store_arguments(p, &l, n->arguments);
    } else {
        n->arguments = no_arguments(p);
    }
    if (!n->arguments)
        return NULL;
    return negated ? unary_node(p, JN_NOT, n) : n;
}

static struct jnode *parse_filter_expression(struct parser *p, struct jnode *n)
{
    unsigned depth = p->depth;
    while (n) {
        struct jtoken *t = token_now(p);
        if (t->type == JT_PIPE)
            n = parse_filters(p, n, false);
        else if (token_is_word(t, "is"))
            n = parse_enter(p) ? parse_test(p, n) : NULL;
        else if (t->type == JT_LEFT_PAREN)
            n = parse_enter(p) ? parse_call(p, n) : NULL;
        else
            break;
    }
    p->depth = depth;
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
        n = unary_node(p, type == JT_SUB ? JN_NEGATIVE : JN_POSITIVE, parse_unary(p, false));
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
    struct jnode *n = list_node(p, JN_ARITH, &kids);
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
    struct jnode *n = list_node(p, JN_CONCAT, &kids);
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
    struct jnode *n = list_node(p, JN_COMPARE, &kids);
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
    struct jnode *n = unary_node(p, JN_NOT, parse_not(p));
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
        struct jnode *n = unary_node(p, type, left);
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
        struct jnode *condition = unary_node(p, JN_IF_ELSE, n);
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
    return list_node(p, JN_TUPLE, &kids);
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
    struct jnode *target = is_tuple ? list_node(p, JN_TUPLE, &kids) : kids.items[0];
    const char *fault = target_fault(target);
    return fault ? parse_fail(p, "can't assign to '%s'", fault) : target;
}
