/* Literals, names, and what may stand behind them: attributes, subscripts, calls, filters and
 * tests. */
#include <math.h>

#include "base/number.h"
#include "text/template/jinja_library.h"
#include "text/template/jinja_parse.h"

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
    return token_expect(p, JT_RIGHT_BRACKET) ? node_list(p, JN_LIST, &kids) : NULL;
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
    return token_expect(p, JT_RIGHT_BRACE) ? node_list(p, JN_DICT, &kids) : NULL;
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

struct jnode *parse_primary(struct parser *p)
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
        node_push(p, &parts, part);
        if (parts.n > 1 && (part->type == JN_SLICE || parts.items[0]->type == JN_SLICE))
            return parse_fail(p, "a slice cannot be part of a tuple");
    }
    token_next(p);
    struct jnode *key = parts.n == 1 ? parts.items[0] : node_list(p, JN_TUPLE, &parts);
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

struct jnode *parse_postfix(struct parser *p, struct jnode *n)
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
    return negated ? node_unary(p, JN_NOT, n) : n;
}

struct jnode *parse_filter_expression(struct parser *p, struct jnode *n)
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
