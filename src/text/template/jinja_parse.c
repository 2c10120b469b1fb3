#include "text/template/jinja_parse.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"

/* --- tokens, nodes, names ------------------------------------------------------------------- */

struct jtoken *token_now(struct parser *p)
{
    return &p->tokens.items[p->at];
}

struct jtoken *token_look(struct parser *p)
{
    return &p->tokens.items[MIN(p->at + 1, p->tokens.n - 1)];
}

struct jtoken *token_next(struct parser *p)
{
    struct jtoken *now = token_now(p);
    if (p->at + 1 < p->tokens.n)
        p->at++;
    return now;
}

bool token_is_word(const struct jtoken *t, const char *word)
{
    return t->type == JT_NAME && str_is(t->text, word);
}

bool token_skip(struct parser *p, enum jtoken_type type)
{
    if (token_now(p)->type != type)
        return false;
    token_next(p);
    return true;
}

bool token_skip_word(struct parser *p, const char *word)
{
    if (!token_is_word(token_now(p), word))
        return false;
    token_next(p);
    return true;
}

struct str token_shown(const struct jtoken *t)
{
    return t->type == JT_NAME ? t->text : str_of(jtoken_name(t->type));
}

bool token_expect(struct parser *p, enum jtoken_type type)
{
    if (token_skip(p, type))
        return true;
    (void)parse_fail(p, "expected token '%s', got '%.*s'", jtoken_name(type),
                     STR_ARG(token_shown(token_now(p))));
    return false;
}

struct jnode *parse_fail(struct parser *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)error_set_va(p->err, STATUS_INVALID, format, arguments);
    va_end(arguments);
    (void)error_prefix(p->err, "line %u", token_now(p)->line);
    return NULL;
}

struct jnode *node_new(struct parser *p, enum jnode_type type)
{
    struct jnode *n = arena_zero(&p->t->arena, 1, sizeof *n);
    CHECK(n); /* the arena of a template has no limit; its source has */
    n->type = (uint8_t)type;
    n->line = token_now(p)->line;
    return n;
}

void node_push(struct parser *p, struct node_list *list, struct jnode *node)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        struct jnode **items = arena_array(&p->t->arena, struct jnode *, capacity);
        CHECK(items);
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = node;
}

struct jstr *parser_string(struct parser *p, struct str text)
{
    struct jstr *s = arena_zero(&p->t->arena, 1, sizeof *s);
    CHECK(s);
    /* Counted now: a render may only read it. */
    *s = (struct jstr){ .ptr = text.ptr, .len = text.len, .n_chars = utf8_count(text) };
    return s;
}

uint32_t parser_symbol(struct parser *p, struct str name)
{
    struct jinja_template *t = p->t;
    uint32_t symbol = (uint32_t)t->n_symbols;
    if (!strmap_insert(&t->symbol_map, name, symbol, &symbol))
        return symbol;
    mem_reserve((void **)&t->symbols, &t->symbol_capacity, t->n_symbols + 1, sizeof *t->symbols);
    t->symbols[t->n_symbols++] = parser_string(p, name);
    return symbol;
}

/* --- statements ----------------------------------------------------------------------------- */

static struct jnode *parse_body(struct parser *p, const char *const *ends);

static bool at_end_word(struct parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (token_is_word(token_now(p), *ends))
            return true;
    return false;
}

/* The rest of a tag, then everything up to one of the words, which stays the current token. */
static struct jnode *parse_block(struct parser *p, const char *const *ends)
{
    token_skip(p, JT_COLON);
    if (!token_expect(p, JT_TAG_END))
        return NULL;
    struct jnode *body = parse_body(p, ends);
    if (body && token_now(p)->type == JT_EOF)
        return parse_fail(p, "Unexpected end of template. Jinja was looking for the tag '%s'.",
                          ends[0]);
    return body;
}

static struct jnode *parse_whole_block(struct parser *p, const char *end)
{
    const char *const ends[] = { end, NULL };
    struct jnode *body = parse_block(p, ends);
    if (body)
        token_next(p);
    return body;
}

/* What is unknown in here fails even if it stands in a branch. */
static void make_certain(struct parser *p, struct unknown_name before)
{
    if (p->pending.kind && !before.kind && !p->certain.kind)
        p->certain = p->pending;
}

static bool targets_loop(const struct jnode *target)
{
    if (target->type == JN_NAME)
        return target->symbol == JINJA_SYMBOL_LOOP;
    for (uint32_t i = 0; target->type == JN_TUPLE && i < target->n; i++)
        if (targets_loop(target->kids[i]))
            return true;
    return false;
}

static bool names_target(const struct jnode *target, uint32_t symbol)
{
    for (uint32_t i = 0; target->type == JN_TUPLE && i < target->n; i++)
        if (names_target(target->kids[i], symbol))
            return true;
    return target->type == JN_NAME && target->symbol == symbol;
}

/* Reads nothing that differs between the items, and changes nothing. */
static bool is_steady(const struct jnode *n, const struct jnode *target)
{
    switch (n->type) {
    case JN_CONST:
        return true;
    case JN_NAME:
        return n->symbol != JINJA_SYMBOL_LOOP && !names_target(target, n->symbol);
    case JN_ATTR:
    case JN_NOT:
        return is_steady(n->a, target);
    case JN_ITEM:
    case JN_AND:
    case JN_OR:
        return is_steady(n->a, target) && is_steady(n->b, target);
    case JN_COMPARE:
        for (uint32_t i = 0; i < n->n; i++)
            if (!is_steady(n->kids[i], target))
                return false;
        return true;
    default:
        return false;
    }
}

static bool ends_when_false(const struct jnode *body, const struct jnode *target)
{
    const struct jnode *only = body->n == 1 ? body->kids[0] : NULL;
    return only && only->type == JN_IF && !only->c && is_steady(only->a, target);
}

static struct jnode *parse_for(struct parser *p)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    struct unknown_name before = p->pending;
    p->pending.kind = NULL;
    struct jnode *n = node_new(p, JN_FOR);
    n->kids = arena_array(&p->t->arena, struct jnode *, 2);
    CHECK(n->kids);
    n->a = parse_target(p, "in", false);
    if (!n->a)
        return NULL;
    if (targets_loop(n->a))
        return parse_fail(p, "Can't assign to special loop variable in for-loop target");
    if (!token_skip_word(p, "in"))
        return parse_fail(p, "expected token 'in', got '%.*s'",
                          STR_ARG(token_shown(token_now(p))));
    n->b = parse_tuple(p, false, "recursive", false);
    if (!n->b)
        return NULL;
    if (token_skip_word(p, "if") && !(n->c = parse_expression(p)))
        return NULL;
    n->op = token_skip_word(p, "recursive") ? JFOR_RECURSIVE : 0;
    p->loops++;
    n->kids[0] = parse_block(p, ends);
    p->loops--;
    if (!n->kids[0])
        return NULL;
    if (token_is_word(token_next(p), "else") && !(n->kids[1] = parse_whole_block(p, "endfor")))
        return NULL;
    if (!n->c && ends_when_false(n->kids[0], n->a))
        n->op |= JFOR_ENDS_WHEN_FALSE;
    make_certain(p, (struct unknown_name){ 0 });
    p->pending = before;
    return n;
}

static struct jnode *parse_if(struct parser *p)
{
    static const char *const ends[] = { "endif", "elif", "else", NULL };
    struct jnode *n = node_new(p, JN_IF);
    n->a = parse_tuple(p, false, NULL, false);
    if (!n->a)
        return NULL;
    struct unknown_name before = p->pending;
    n->b = parse_block(p, ends);
    if (!n->b)
        return NULL;
    struct jtoken *word = token_next(p);
    if (token_is_word(word, "elif")) {
        if (!parse_enter(p))
            return NULL;
        n->c = parse_if(p);
        p->depth--;
    } else if (token_is_word(word, "else")) {
        n->c = parse_whole_block(p, "endif");
    } else {
        p->pending = before;
        return n;
    }
    p->pending = before;
    return n->c ? n : NULL;
}

static struct jnode *parse_set(struct parser *p)
{
    struct jnode *n = node_new(p, JN_SET);
    n->a = parse_target(p, NULL, true);
    if (!n->a)
        return NULL;
    if (token_skip(p, JT_ASSIGN)) {
        n->b = parse_tuple(p, true, NULL, false);
        return n->b ? n : NULL;
    }
    n->type = JN_SET_BLOCK;
    unsigned depth = p->depth;
    if (token_now(p)->type == JT_PIPE && !(n->b = parse_filters(p, NULL, false)))
        return NULL;
    p->depth = depth;
    n->c = parse_whole_block(p, "endset");
    return n->c ? n : NULL;
}

static bool parse_signature(struct parser *p, struct jparameters *out)
{
    struct node_list names = { 0 }, defaults = { 0 };
    if (!token_expect(p, JT_LEFT_PAREN))
        return false;
    while (token_now(p)->type != JT_RIGHT_PAREN) {
        if (names.n && !token_expect(p, JT_COMMA))
            return false;
        struct jtoken *t = token_now(p);
        if (!token_expect(p, JT_NAME))
            return false;
        struct jnode *name = node_new(p, JN_NAME), *value = NULL;
        name->symbol = parser_symbol(p, t->text);
        for (size_t i = 0; i < names.n; i++)
            if (names.items[i]->symbol == name->symbol)
                return parse_fail(p, "duplicate argument '%.*s'", STR_ARG(t->text)) != NULL;
        if (token_skip(p, JT_ASSIGN)) {
            value = parse_expression(p);
            if (!value)
                return false;
        } else if (defaults.n && defaults.items[defaults.n - 1]) {
            return parse_fail(p, "non-default argument follows default argument") != NULL;
        }
        node_push(p, &names, name);
        node_push(p, &defaults, value);
    }
    token_next(p);
    out->n = (uint32_t)names.n;
    out->symbols = arena_array(&p->t->arena, uint32_t, names.n);
    out->names = arena_array(&p->t->arena, struct jstr *, names.n);
    out->defaults = defaults.items;
    CHECK(out->symbols && out->names);
    for (size_t i = 0; i < names.n; i++) {
        out->symbols[i] = names.items[i]->symbol;
        out->names[i] = p->t->symbols[names.items[i]->symbol];
    }
    return true;
}

/* The body of a macro or call block. Loops around it do not reach into it. */
static bool parse_macro_body(struct parser *p, struct jnode *macro, const char *end)
{
    size_t varargs = p->n_varargs, kwargs = p->n_kwargs, caller = p->n_caller;
    unsigned loops = p->loops;
    struct unknown_name before = p->pending;
    p->loops = 0;
    p->pending.kind = NULL;
    macro->a = parse_whole_block(p, end);
    p->loops = loops;
    make_certain(p, (struct unknown_name){ 0 });
    p->pending = before;
    macro->parameters->uses_varargs = p->n_varargs > varargs;
    macro->parameters->uses_kwargs = p->n_kwargs > kwargs;
    macro->parameters->uses_caller = p->n_caller > caller;
    return macro->a != NULL;
}

static struct jnode *macro_new(struct parser *p)
{
    struct jnode *n = node_new(p, JN_MACRO);
    n->parameters = arena_zero(&p->t->arena, 1, sizeof *n->parameters);
    CHECK(n->parameters);
    return n;
}

static struct jnode *parse_macro(struct parser *p)
{
    struct jnode *n = macro_new(p);
    struct jtoken *name = token_now(p);
    if (!token_expect(p, JT_NAME))
        return NULL;
    n->symbol = parser_symbol(p, name->text);
    if (!parse_signature(p, n->parameters) || !parse_macro_body(p, n, "endmacro"))
        return NULL;
    return n;
}

static struct jnode *parse_call_block(struct parser *p)
{
    struct jnode *n = node_new(p, JN_CALL_BLOCK), *caller = macro_new(p);
    caller->symbol = JINJA_SYMBOL_CALLER;
    if (token_now(p)->type == JT_LEFT_PAREN && !parse_signature(p, caller->parameters))
        return NULL;
    n->a = parse_expression(p);
    if (!n->a)
        return NULL;
    if (n->a->type != JN_CALL)
        return parse_fail(p, "expected call");
    n->b = caller;
    return parse_macro_body(p, caller, "endcall") ? n : NULL;
}

static struct jnode *parse_filter_block(struct parser *p)
{
    struct jnode *n = node_new(p, JN_FILTER_BLOCK);
    unsigned depth = p->depth;
    n->a = parse_filters(p, NULL, true);
    p->depth = depth;
    n->b = n->a ? parse_whole_block(p, "endfilter") : NULL;
    return n->b ? n : NULL;
}

static struct jnode *parse_with(struct parser *p)
{
    struct jnode *n = node_new(p, JN_WITH);
    struct node_list kids = { 0 };
    while (token_now(p)->type != JT_TAG_END) {
        if (kids.n && !token_expect(p, JT_COMMA))
            return NULL;
        struct jnode *target = parse_target(p, NULL, false);
        if (!target || !token_expect(p, JT_ASSIGN))
            return NULL;
        struct jnode *value = parse_expression(p);
        if (!value)
            return NULL;
        node_push(p, &kids, target);
        node_push(p, &kids, value);
    }
    n->kids = kids.items;
    n->n = (uint32_t)kids.n;
    n->a = parse_whole_block(p, "endwith");
    return n->a ? n : NULL;
}

static struct jnode *parse_named_block(struct parser *p)
{
    struct jnode *n = node_new(p, JN_BLOCK);
    struct jinja_template *t = p->t;
    struct jtoken *name = token_now(p);
    if (!token_expect(p, JT_NAME))
        return NULL;
    n->symbol = parser_symbol(p, name->text);
    for (size_t i = 0; i < t->n_blocks; i++)
        if (t->blocks[i]->symbol == n->symbol)
            return parse_fail(p, "block '%.*s' defined twice", STR_ARG(name->text));
    n->op = token_skip_word(p, "scoped");
    if (token_skip_word(p, "required"))
        return parse_fail(p, "required blocks need inheritance, which is not supported");
    unsigned loops = p->loops;
    p->loops = 0;
    n->a = parse_whole_block(p, "endblock");
    p->loops = loops;
    if (token_now(p)->type == JT_NAME && str_eq(token_now(p)->text, name->text))
        token_next(p);
    mem_reserve((void **)&t->blocks, &t->block_capacity, t->n_blocks + 1, sizeof *t->blocks);
    t->blocks[t->n_blocks++] = n;
    return n->a ? n : NULL;
}

static struct jnode *parse_print_tag(struct parser *p)
{
    struct jnode *n = node_new(p, JN_BODY);
    struct node_list kids = { 0 };
    while (token_now(p)->type != JT_TAG_END) {
        if (kids.n && !token_expect(p, JT_COMMA))
            return NULL;
        struct jnode *print = node_new(p, JN_PRINT);
        print->a = parse_expression(p);
        if (!print->a)
            return NULL;
        node_push(p, &kids, print);
    }
    n->kids = kids.items;
    n->n = (uint32_t)kids.n;
    return n;
}

static struct jnode *parse_autoescape(struct parser *p)
{
    struct jnode *n = node_new(p, JN_AUTOESCAPE);
    n->a = parse_expression(p);
    n->b = n->a ? parse_whole_block(p, "endautoescape") : NULL;
    return n->b ? n : NULL;
}

static struct jnode *parse_generation(struct parser *p)
{
    struct jnode *n = node_new(p, JN_SCOPE);
    unsigned loops = p->loops;
    p->loops = 0;
    n->a = parse_whole_block(p, "endgeneration");
    p->loops = loops;
    return n->a ? n : NULL;
}

static struct jnode *parse_loader(struct parser *p)
{
    struct jnode *n = node_new(p, JN_LOADER);
    if (token_now(p)->type == JT_TAG_END)
        return parse_fail(p, "Expected an expression, got 'end of statement block'");
    while (token_now(p)->type != JT_TAG_END && token_now(p)->type != JT_EOF)
        token_next(p);
    return n;
}

static struct jnode *parse_jump(struct parser *p, enum jnode_type type, const char *word)
{
    return p->loops ? node_new(p, type) : parse_fail(p, "'%s' outside loop", word);
}

static struct jnode *parse_break(struct parser *p)
{
    return parse_jump(p, JN_BREAK, "break");
}

static struct jnode *parse_continue(struct parser *p)
{
    return parse_jump(p, JN_CONTINUE, "continue");
}

static const struct {
    const char *name;
    struct jnode *(*parse)(struct parser *);
} tags[] = {
    { "if", parse_if },           { "for", parse_for },       { "set", parse_set },
    { "macro", parse_macro },     { "call", parse_call_block }, { "filter", parse_filter_block },
    { "with", parse_with },       { "block", parse_named_block }, { "print", parse_print_tag },
    { "autoescape", parse_autoescape }, { "generation", parse_generation },
    { "break", parse_break },     { "continue", parse_continue }, { "include", parse_loader },
    { "import", parse_loader },   { "from", parse_loader },   { "extends", parse_loader },
};

static struct jnode *parse_statement(struct parser *p)
{
    struct jtoken *t = token_now(p);
    if (t->type != JT_NAME)
        return parse_fail(p, "tag name expected");
    for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
        if (token_is_word(t, tags[i].name)) {
            if (!parse_enter(p))
                return NULL;
            token_next(p);
            struct jnode *n = tags[i].parse(p);
            p->depth--;
            if (n)
                n->line = t->line;
            return n;
        }
    return parse_fail(p, "Encountered unknown tag '%.*s'.", STR_ARG(t->text));
}

static struct jnode *parse_item(struct parser *p)
{
    struct jtoken *t = token_next(p);
    if (t->type == JT_TEXT) {
        struct jnode *n = node_new(p, JN_TEXT);
        n->value = jv_of_str(parser_string(p, t->text));
        return n;
    }
    if (t->type == JT_PRINT) {
        struct jnode *n = node_new(p, JN_PRINT);
        n->line = t->line;
        n->a = parse_tuple(p, true, NULL, false);
        return n->a && token_expect(p, JT_PRINT_END) ? n : NULL;
    }
    struct jnode *n = parse_statement(p);
    return n && token_expect(p, JT_TAG_END) ? n : NULL;
}

static struct jnode *parse_body(struct parser *p, const char *const *ends)
{
    struct jnode *body = node_new(p, JN_BODY);
    struct node_list kids = { 0 };
    while (token_now(p)->type != JT_EOF) {
        if (token_now(p)->type == JT_TAG) {
            p->at++;
            bool end = at_end_word(p, ends);
            p->at -= end ? 0 : 1;
            if (end)
                break;
        }
        struct jnode *n = parse_item(p);
        if (!n)
            return NULL;
        node_push(p, &kids, n);
    }
    body->kids = kids.items;
    body->n = (uint32_t)kids.n;
    return body;
}

enum status jinja_parse(struct jinja_template *t, struct error *err)
{
    struct parser p = { .t = t, .err = err };
#define INTERN_SYMBOL(id, name) CHECK(parser_symbol(&p, STR(name)) == JINJA_SYMBOL_##id);
    p.tokens.items = &(struct jtoken){ .type = JT_EOF };
    p.tokens.n = 1;
    JINJA_FIXED_SYMBOLS(INTERN_SYMBOL)
#undef INTERN_SYMBOL
    p.tokens = (struct jtokens){ 0 };
    TRY(jinja_lex(&t->arena, t->source, &p.tokens, err));
    t->body = parse_body(&p, NULL);
    if (!t->body)
        return err ? err->status : STATUS_INVALID;
    struct unknown_name unknown = p.certain.kind ? p.certain : p.pending;
    if (unknown.kind)
        return error_set(err, STATUS_INVALID, "line %u: No %s named '%.*s'.", unknown.line,
                         unknown.kind, STR_ARG(unknown.name));
    return STATUS_OK;
}
