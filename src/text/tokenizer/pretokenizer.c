#include "text/tokenizer/pretokenizer.h"

#include "base/mem.h"
#include "text/tokenizer/split_expression.h"

#define JIT_STACK_START ((size_t)32 << 10)
#define JIT_STACK_MAX ((size_t)8 << 20)

static enum status compile_rule(struct split_rule *rule, const struct split_step *step,
                                struct error *err)
{
    struct strbuf pattern;
    strbuf_init(&pattern, SPLIT_EXPRESSION_MAX);
    enum status s = split_expression_rewrite(step->pattern, &pattern, err);
    if (s != STATUS_OK) {
        strbuf_release(&pattern);
        return s;
    }
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    CHECK(context != NULL);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code = 0;
    PCRE2_SIZE at = 0;
    /* Oniguruma's ^ and $ match at lines; UCP makes \s, \d and classes those of Unicode. */
    rule->code = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len,
                               PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                               &code, &at, context);
    pcre2_compile_context_free(context);
    if (!rule->code) {
        char reason[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        s = error_set(err, STATUS_UNSUPPORTED,
                      "tokenizer: split expression \"%.*s\" does not compile: %s (at %zu)",
                      STR_ARG(step->pattern), reason, (size_t)at);
    } else {
        rule->jit = pcre2_jit_compile(rule->code, PCRE2_JIT_COMPLETE) == 0;
    }
    strbuf_release(&pattern);
    return s;
}

enum status pretokenizer_init(struct pretokenizer *p, const struct tokenizer_spec *spec,
                              struct error *err)
{
    if (spec->n_split_steps > PRETOKENIZER_MAX_STEPS)
        return error_set(err, STATUS_LIMIT, "tokenizer: %zu split steps, at most %d",
                         spec->n_split_steps, PRETOKENIZER_MAX_STEPS);
    for (size_t i = 0; i < spec->n_split_steps; i++) {
        const struct split_step *step = &spec->split_steps[i];
        struct split_rule *rule = &p->rules[p->n];
        if (step->pattern.len == 0)
            return error_set(err, STATUS_INVALID, "tokenizer: split step %zu is empty", i);
        rule->behavior = step->behavior;
        p->n++;
        if (step->literal) {
            rule->literal = mem_string(step->pattern.ptr, step->pattern.len);
            rule->literal_len = step->pattern.len;
        } else {
            TRY(compile_rule(rule, step, err));
        }
    }
    return STATUS_OK;
}

void pretokenizer_release(struct pretokenizer *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        pcre2_code_free(p->rules[i].code);
        mem_free(p->rules[i].literal);
    }
    *p = (struct pretokenizer){ 0 };
}

void pretokenizer_state_init(struct pretokenizer_state *s, const struct pretokenizer *p)
{
    *s = (struct pretokenizer_state){ 0 };
    bool any = false;
    for (unsigned i = 0; i < p->n; i++) {
        if (!p->rules[i].code)
            continue;
        any = true;
        s->match[i] = pcre2_match_data_create(1, NULL);
        CHECK(s->match[i] != NULL);
    }
    if (!any)
        return;
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    CHECK(s->context != NULL && s->stack != NULL);
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
}

void pretokenizer_state_release(struct pretokenizer_state *s)
{
    for (unsigned i = 0; i < PRETOKENIZER_MAX_STEPS; i++)
        pcre2_match_data_free(s->match[i]);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (struct pretokenizer_state){ 0 };
}

/* One split in progress. */
struct splitter {
    const struct pretokenizer *p;
    struct pretokenizer_state *state;
    pretokenizer_piece_fn piece;
    void *user;
    struct error *err;
};

/* 1: a match [*from, *to); 0: none; negative: PCRE2's error. */
static int next_match(const struct splitter *sp, unsigned step, struct str text, size_t at,
                      size_t *from, size_t *to)
{
    const struct split_rule *rule = &sp->p->rules[step];
    if (!rule->code) {
        const char *hit = memmem(text.ptr + at, text.len - at, rule->literal, rule->literal_len);
        if (!hit)
            return 0;
        *from = (size_t)(hit - text.ptr);
        *to = *from + rule->literal_len;
        return 1;
    }
    pcre2_match_data *match = sp->state->match[step];
    /* jit_match skips the check of the whole subject that pcre2_match would do each time. */
    int rc = rule->jit ? pcre2_jit_match(rule->code, (PCRE2_SPTR)text.ptr, text.len, at, 0, match,
                                         sp->state->context)
                       : pcre2_match(rule->code, (PCRE2_SPTR)text.ptr, text.len, at,
                                     PCRE2_NO_UTF_CHECK, match, sp->state->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0)
        return rc;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match);
    *from = ends[0];
    *to = ends[1];
    return 1;
}

static size_t character_end(struct str text, size_t at)
{
    do {
        at++;
    } while (at < text.len && ((uint8_t)text.ptr[at] & 0xC0) == 0x80);
    return at;
}

static enum status split_from(const struct splitter *sp, unsigned step, struct str text);

static enum status emit(const struct splitter *sp, unsigned step, struct str text, size_t from,
                        size_t to)
{
    if (from >= to)
        return STATUS_OK;
    struct str piece = str_slice(text, from, to);
    if (step + 1 == sp->p->n)
        return sp->piece(sp->user, piece, sp->err);
    return split_from(sp, step + 1, piece);
}

/* `start` is where the piece in the making begins, [from, to) the match behind it. Returns by
 * *start where the next one begins. */
static enum status emit_match(const struct splitter *sp, unsigned step, struct str text,
                              size_t *start, size_t from, size_t to)
{
    switch (sp->p->rules[step].behavior) {
    case SPLIT_ISOLATED:
        TRY(emit(sp, step, text, *start, from));
        TRY(emit(sp, step, text, from, to));
        break;
    case SPLIT_REMOVED:
        TRY(emit(sp, step, text, *start, from));
        break;
    case SPLIT_KEEP:
        TRY(emit(sp, step, text, from, to));
        break;
    case SPLIT_WITH_PREVIOUS:
        TRY(emit(sp, step, text, *start, to));
        break;
    case SPLIT_WITH_NEXT:
        TRY(emit(sp, step, text, *start, from));
        *start = from;
        return STATUS_OK;
    }
    *start = to;
    return STATUS_OK;
}

static enum status split_from(const struct splitter *sp, unsigned step, struct str text)
{
    size_t start = 0, at = 0;
    while (at < text.len) {
        size_t from = 0, to = 0;
        int found = next_match(sp, step, text, at, &from, &to);
        if (found < 0)
            return error_set(sp->err, found == PCRE2_ERROR_JIT_STACKLIMIT ? STATUS_LIMIT
                                                                          : STATUS_INTERNAL,
                             "tokenizer: split expression %u failed on %zu bytes (PCRE2 error %d)",
                             step, text.len, found);
        if (found == 0)
            break;
        if (to <= from) { /* an empty match splits nothing */
            at = character_end(text, MAX(from, at));
            continue;
        }
        TRY(emit_match(sp, step, text, &start, from, to));
        at = to;
    }
    if (sp->p->rules[step].behavior == SPLIT_KEEP)
        return STATUS_OK;
    return emit(sp, step, text, start, text.len);
}

enum status pretokenizer_split(const struct pretokenizer *p, struct pretokenizer_state *s,
                               struct str text, pretokenizer_piece_fn piece, void *user,
                               struct error *err)
{
    if (text.len == 0)
        return STATUS_OK;
    if (p->n == 0)
        return piece(user, text, err);
    struct splitter sp = { p, s, piece, user, err };
    return split_from(&sp, 0, text);
}
