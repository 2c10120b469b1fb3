#include "text/tokenizer/split_expression.h"

#include "base/utf8.h"

#define WORD_CLASS "\\p{L}\\p{M}\\p{N}\\p{Pc}"

static const char *const scripts[] = {
    "Arabic", "Armenian", "Bengali",  "Bopomofo", "Cyrillic", "Devanagari", "Ethiopic",
    "Georgian", "Greek",  "Gujarati", "Gurmukhi", "Han",      "Hangul",     "Hebrew",
    "Hiragana", "Kannada", "Katakana", "Khmer",   "Lao",      "Latin",      "Malayalam",
    "Mongolian", "Myanmar", "Oriya",  "Sinhala",  "Tamil",    "Telugu",     "Thai",
    "Tibetan",
};

struct rewriter {
    struct str in;
    size_t at;
    struct strbuf *out;
    struct error *err;
};

static enum status refuse(const struct rewriter *r, size_t at, const char *what)
{
    return error_set(r->err, STATUS_UNSUPPORTED,
                     "tokenizer: split expression \"%.*s\": %s (at %zu) is not supported",
                     STR_ARG(r->in), what, at);
}

static char peek(const struct rewriter *r, size_t ahead)
{
    return r->at + ahead < r->in.len ? r->in.ptr[r->at + ahead] : '\0';
}

static void copy(struct rewriter *r, size_t n)
{
    n = MIN(n, r->in.len - r->at);
    strbuf_append(r->out, r->in.ptr + r->at, n);
    r->at += n;
}

/* \p{Name}, \P{Name}, \p{^Name}: scripts get their prefix. */
static enum status property(struct rewriter *r)
{
    const char *open = r->in.ptr + r->at + 3;
    const char *close = memchr(open, '}', r->in.len - r->at - 3);
    if (!close)
        return refuse(r, r->at, "a property without its brace");
    struct str name = { open, (size_t)(close - open) };
    bool negated = name.len && name.ptr[0] == '^';
    if (negated)
        name = str_slice(name, 1, name.len);
    const char *prefix = "";
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
        if (str_is(name, scripts[i]))
            prefix = "sc:";
    strbuf_append(r->out, r->in.ptr + r->at, 3);
    strbuf_puts(r->out, negated ? "^" : "");
    strbuf_puts(r->out, prefix);
    strbuf_add(r->out, name);
    strbuf_putc(r->out, '}');
    r->at = (size_t)(close - r->in.ptr) + 1;
    return STATUS_OK;
}

static enum status escape(struct rewriter *r, bool in_class)
{
    char c = peek(r, 1);
    if ((c == 'p' || c == 'P') && peek(r, 2) == '{')
        return property(r);
    switch (c) {
    case '\0':
        return refuse(r, r->at, "a backslash at the end");
    case 'w':
        strbuf_puts(r->out, in_class ? WORD_CLASS : "[" WORD_CLASS "]");
        r->at += 2;
        return STATUS_OK;
    case 'W':
        if (in_class)
            return refuse(r, r->at, "\\W in a class");
        strbuf_puts(r->out, "[^" WORD_CLASS "]");
        r->at += 2;
        return STATUS_OK;
    case 'h':
    case 'H':
    case 'R':
    case 'X':
    case 'K':
    case 'g':
    case 'k':
    case 'C':
    case 'Q':
    case 'E':
    case 'M':
    case 'y':
    case 'Y':
    case 'G':
    case 'N':
    case 'O':
        return refuse(r, r->at, "this escape");
    default:
        copy(r, 2);
        return STATUS_OK;
    }
}

/* The inside of a class up to its ']' or to "&&", without either. */
static enum status class_items(struct rewriter *r)
{
    bool first = true;
    while (r->at < r->in.len) {
        char c = peek(r, 0);
        if (c == ']' && first)
            return refuse(r, r->at, "a class that begins with ']'");
        if (c == ']' || (c == '&' && peek(r, 1) == '&'))
            return STATUS_OK;
        if (c == '\\') {
            TRY(escape(r, true));
        } else if (c == '[') {
            const char *end = peek(r, 1) == ':' ? memmem(r->in.ptr + r->at, r->in.len - r->at,
                                                         ":]", 2)
                                                : NULL;
            if (!end)
                return refuse(r, r->at, "a class within a class");
            copy(r, (size_t)(end + 2 - (r->in.ptr + r->at)));
        } else {
            copy(r, 1);
        }
        first = false;
    }
    return refuse(r, r->at, "a class without its end");
}

/* The right side of "&&": one class in brackets, then the end of the outer one. */
static enum status intersection(struct rewriter *r, size_t class_from)
{
    struct strbuf left, *out = r->out;
    strbuf_init(&left, SPLIT_EXPRESSION_MAX);
    strbuf_append(&left, out->ptr + class_from, out->len - class_from);
    out->len = class_from;
    enum status s = STATUS_OK;
    strbuf_puts(out, "(?:");
    while (s == STATUS_OK && peek(r, 0) == '&' && peek(r, 1) == '&') {
        r->at += 2;
        if (peek(r, 0) != '[') {
            s = refuse(r, r->at, "an intersection with anything but a class");
            break;
        }
        strbuf_puts(out, "(?=");
        copy(r, peek(r, 1) == '^' ? 2 : 1);
        s = class_items(r);
        if (s == STATUS_OK && peek(r, 0) != ']')
            s = refuse(r, r->at, "an intersection within an intersection");
        if (s == STATUS_OK) {
            copy(r, 1);
            strbuf_putc(out, ')');
        }
    }
    if (s == STATUS_OK && peek(r, 0) != ']')
        s = refuse(r, r->at, "text behind an intersection");
    if (s == STATUS_OK) {
        r->at++;
        strbuf_add(out, strbuf_str(&left));
        strbuf_puts(out, "])");
    }
    strbuf_release(&left);
    return s;
}

static enum status class(struct rewriter *r)
{
    size_t from = r->out->len;
    bool negated = peek(r, 1) == '^';
    copy(r, negated ? 2 : 1);
    TRY(class_items(r));
    if (peek(r, 0) == ']') {
        copy(r, 1);
        return STATUS_OK;
    }
    if (negated)
        return refuse(r, r->at, "an intersection in a negated class");
    return intersection(r, from);
}

/* "(?" ...: groups, look-around and the flag i are common ground. */
static enum status group(struct rewriter *r)
{
    size_t i = 2;
    char c = peek(r, i);
    if (c == 'i' || c == '-') {
        while (peek(r, i) == 'i' || peek(r, i) == '-')
            i++;
        if (peek(r, i) != ':' && peek(r, i) != ')')
            return refuse(r, r->at, "this inline flag");
    } else if (c == '<') {
        if (peek(r, 3) != '=' && peek(r, 3) != '!')
            return refuse(r, r->at, "a named group");
    } else if (c != ':' && c != '=' && c != '!' && c != '>') {
        return refuse(r, r->at, "this group");
    }
    copy(r, i);
    return STATUS_OK;
}

enum status split_expression_rewrite(struct str pattern, struct strbuf *out, struct error *err)
{
    struct rewriter r = { pattern, 0, out, err };
    if (!utf8_valid(pattern))
        return refuse(&r, 0, "ill-formed UTF-8");
    while (r.at < pattern.len) {
        char c = peek(&r, 0);
        if (c == '\\')
            TRY(escape(&r, false));
        else if (c == '[')
            TRY(class(&r));
        else if (c == '(' && peek(&r, 1) == '?')
            TRY(group(&r));
        else if (c == '(' && peek(&r, 1) == '*')
            return refuse(&r, r.at, "a verb");
        else
            copy(&r, 1);
    }
    if (out->overflow)
        return error_set(err, STATUS_LIMIT, "tokenizer: a split expression of %zu bytes: too long",
                         pattern.len);
    return STATUS_OK;
}
