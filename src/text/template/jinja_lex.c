#include "text/template/jinja_lex.h"

#include "base/strbuf.h"
#include "base/utf8.h"
#include "text/template/jinja_unicode.h"

struct lexer {
    struct arena *a;
    struct str source;
    size_t at;
    uint32_t line;
    bool line_start; /* only white space stands between the last newline and here */
    struct jtokens *tokens;
    struct error *err;
};

static const char *const token_names[] = {
#define TOKEN_NAME(id, text) text,
    JINJA_TOKENS(TOKEN_NAME)
#undef TOKEN_NAME
};

const char *jtoken_name(enum jtoken_type type)
{
    return token_names[type];
}

struct str jinja_normalize(struct arena *a, struct str source)
{
    char *copy = arena_alloc(a, source.len + 1);
    if (!copy)
        return (struct str){ NULL, 0 };
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r' && i + 1 < source.len && source.ptr[i + 1] == '\n')
            continue;
        copy[n++] = c == '\r' ? '\n' : c;
    }
    if (n && copy[n - 1] == '\n')
        n--;
    copy[n] = 0;
    return (struct str){ copy, n };
}

#define LEX_FAIL(lexer, ...) \
    return error_set((lexer)->err, STATUS_INVALID, "line %u: " __VA_ARGS__)

static void push(struct lexer *x, enum jtoken_type type, struct str text)
{
    struct jtokens *t = x->tokens;
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 256;
        struct jtoken *items = arena_zero(x->a, capacity, sizeof *items);
        CHECK(items); /* the arena has no limit, and the source has one */
        if (t->n)
            memcpy(items, t->items, t->n * sizeof *items);
        t->items = items;
        t->capacity = capacity;
    }
    t->items[t->n++] = (struct jtoken){ type, x->line, text };
}

static void advance(struct lexer *x, size_t to)
{
    for (; x->at < to; x->at++)
        if (x->source.ptr[x->at] == '\n')
            x->line++;
}

static bool looking_at(const struct lexer *x, size_t at, const char *what)
{
    size_t n = strlen(what);
    return x->source.len - at >= n && memcmp(x->source.ptr + at, what, n) == 0;
}

static size_t skip_blank(const struct lexer *x, size_t at)
{
    while (at < x->source.len) {
        uint32_t c;
        size_t n = utf8_decode(x->source.ptr + at, x->source.len - at, &c);
        if (!junicode_is_space(c))
            break;
        at += n;
    }
    return at;
}

/* Text before a tag: what the tag's sign and lstrip_blocks leave of it. */
static struct str strip_before(const struct lexer *x, struct str text, char sign, bool is_print)
{
    if (sign == '-')
        return junicode_strip(text, false, true);
    if (sign == '+' || is_print)
        return text;
    size_t line = text.len;
    while (line && text.ptr[line - 1] != '\n')
        line--;
    if (line == 0 && !x->line_start)
        return text;
    struct str rest = str_slice(text, line, text.len);
    return junicode_strip(rest, true, false).len == 0 ? str_slice(text, 0, line) : text;
}

static char sign_at(const struct lexer *x, size_t at)
{
    char c = at < x->source.len ? x->source.ptr[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

/* The end of a tag at `at`: the closing mark with its sign and the white space that goes with
 * it. Returns the position behind it, or 0 if no end is here. */
static size_t tag_end(const struct lexer *x, size_t at, const char *mark, bool is_print)
{
    char sign = sign_at(x, at);
    if (sign == '+' && is_print)
        return 0;
    if (!looking_at(x, at + (sign != 0), mark))
        return 0;
    at += (sign != 0) + 2u;
    if (sign == '-')
        return skip_blank(x, at);
    if (!is_print && sign != '+' && at < x->source.len && x->source.ptr[at] == '\n')
        at++;
    return at;
}

static void leave_tag(struct lexer *x, size_t to)
{
    advance(x, to);
    x->line_start = to > 0 && x->source.ptr[to - 1] == '\n';
}

static enum status lex_comment(struct lexer *x)
{
    size_t at = x->at + 2;
    uint32_t line = x->line;
    for (at += sign_at(x, at) != 0; at < x->source.len; at++) {
        size_t end = tag_end(x, at, "#}", false);
        if (end) {
            leave_tag(x, end);
            return STATUS_OK;
        }
    }
    LEX_FAIL(x, "Missing end of comment tag", line);
}

/* "{%- raw -%}" at x->at: position behind it, or 0. No newline is dropped behind it. */
static size_t raw_begin(const struct lexer *x)
{
    size_t at = x->at + 2;
    at = skip_blank(x, at + (sign_at(x, at) != 0));
    if (!looking_at(x, at, "raw"))
        return 0;
    at = skip_blank(x, at + 3);
    if (looking_at(x, at, "-%}"))
        return skip_blank(x, at + 3);
    return looking_at(x, at, "%}") ? at + 2 : 0;
}

static enum status lex_raw(struct lexer *x, size_t body)
{
    uint32_t line = x->line;
    x->line_start = x->source.ptr[body - 1] == '\n';
    advance(x, body);
    if (body == x->source.len)
        return STATUS_OK; /* as Jinja2: nothing is missing where nothing follows */
    for (size_t at = body; at < x->source.len; at++) {
        if (!looking_at(x, at, "{%"))
            continue;
        char sign = sign_at(x, at + 2);
        size_t word = skip_blank(x, at + 2 + (sign != 0));
        if (!looking_at(x, word, "endraw"))
            continue;
        size_t end = tag_end(x, skip_blank(x, word + 6), "%}", false);
        if (!end)
            continue;
        struct str text = strip_before(x, str_slice(x->source, body, at), sign, false);
        if (text.len)
            push(x, JT_TEXT, text);
        leave_tag(x, end);
        return STATUS_OK;
    }
    LEX_FAIL(x, "Missing end of raw directive", line);
}

/* --- inside tags ---------------------------------------------------------------------------- */

static bool is_digit(char c, unsigned base)
{
    unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                        : 99;
    return d < base;
}

static char char_at(const struct lexer *x, size_t at)
{
    return at < x->source.len ? x->source.ptr[at] : 0;
}

/* (\d+_)*\d+ from `at`; returns the end, `at` if there is none. */
static size_t digits(const struct lexer *x, size_t at, unsigned base)
{
    if (!is_digit(char_at(x, at), base))
        return at;
    for (;;) {
        at++;
        if (is_digit(char_at(x, at), base))
            continue;
        if (char_at(x, at) == '_' && is_digit(char_at(x, at + 1), base))
            continue;
        return at;
    }
}

static size_t float_end(const struct lexer *x, size_t at)
{
    size_t whole = digits(x, at, 10), end = whole;
    if (whole == at)
        return at;
    if (char_at(x, whole) == '.')
        end = digits(x, whole + 1, 10);
    if (end == whole + 1)
        end = whole;
    bool fraction = end > whole;
    if ((char_at(x, end) | 32) == 'e') {
        size_t power = end + 1;
        power += char_at(x, power) == '+' || char_at(x, power) == '-';
        size_t last = digits(x, power, 10);
        if (last > power)
            return last;
    }
    return fraction ? end : at;
}

static size_t integer_end(const struct lexer *x, size_t at)
{
    if (char_at(x, at) != '0')
        return digits(x, at, 10);
    char kind = (char)(char_at(x, at + 1) | 32);
    unsigned base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 0;
    if (base) {
        size_t first = at + 2 + (char_at(x, at + 2) == '_');
        size_t end = digits(x, first, base);
        if (end > first)
            return end;
    }
    while (char_at(x, at) == '0' || (char_at(x, at) == '_' && char_at(x, at + 1) == '0'))
        at++;
    return at;
}

static unsigned digit_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a') + 10;
}

/* n hexadecimal digits of s at `at`. */
static bool hex_value(struct str s, size_t at, unsigned n, uint32_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < n; i++) {
        if (at + i >= s.len || !is_digit(s.ptr[at + i], 16))
            return false;
        *value = *value * 16 + digit_value(s.ptr[at + i]);
    }
    return true;
}

/* \xHH, \uHHHH or \UHHHHHHHH; a surrogate pair is one character, a lone surrogate U+FFFD. */
static void put_hex_escape(struct strbuf *b, struct str s, size_t *at, unsigned n, bool *ok)
{
    uint32_t c, low;
    if (!hex_value(s, *at, n, &c) || c >= 0x110000) {
        *ok = false;
        return;
    }
    *at += n;
    if (c >= 0xD800 && c < 0xDC00 && *at + 6 <= s.len && s.ptr[*at] == '\\' &&
        s.ptr[*at + 1] == 'u' && hex_value(s, *at + 2, 4, &low) && low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    }
    strbuf_put_utf8(b, c >= 0xD800 && c < 0xE000 ? 0xFFFD : c);
}

static void put_escape(struct strbuf *b, struct str s, size_t *at, bool *ok)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = s.ptr[(*at)++];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        strbuf_putc(b, to[simple - from]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        put_hex_escape(b, s, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, ok);
    } else if (is_digit(c, 8)) {
        uint32_t code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < s.len && is_digit(s.ptr[*at], 8); i++)
            code = code * 8 + (uint32_t)(s.ptr[(*at)++] - '0');
        strbuf_put_utf8(b, code);
    } else if (c == 'N') {
        *ok = false;
    } else if (c != '\n') {
        strbuf_putc(b, '\\');
        strbuf_putc(b, c);
    }
}

static enum status lex_string(struct lexer *x)
{
    char quote = x->source.ptr[x->at];
    size_t end = x->at + 1;
    bool escaped = false, ok = true;
    while (end < x->source.len && x->source.ptr[end] != quote) {
        escaped = escaped || x->source.ptr[end] == '\\';
        end += x->source.ptr[end] == '\\' ? 2 : 1;
    }
    if (end >= x->source.len)
        LEX_FAIL(x, "unexpected char %s at %zu", x->line, quote == '"' ? "'\"'" : "\"'\"", x->at);
    struct str text = str_slice(x->source, x->at + 1, end);
    if (escaped) {
        struct strbuf b;
        strbuf_init(&b, text.len * 4 + 16);
        for (size_t i = 0; i < text.len;) {
            char c = text.ptr[i++];
            if (c == '\\')
                put_escape(&b, text, &i, &ok);
            else
                strbuf_putc(&b, c);
        }
        text = arena_str(x->a, strbuf_str(&b));
        strbuf_release(&b);
    }
    if (!ok)
        LEX_FAIL(x, "a string holds a malformed escape sequence", x->line);
    push(x, JT_STRING, text);
    advance(x, end + 1);
    return STATUS_OK;
}

static enum jtoken_type operator_at(const struct lexer *x, size_t *n)
{
    static const char two[][3] = { "//", "**", "==", "!=", ">=", "<=" };
    static const enum jtoken_type two_type[] = { JT_FLOOR_DIV, JT_POW, JT_EQ,
                                                 JT_NE,        JT_GE,  JT_LE };
    static const char one[] = "+-*/%~[](){}><=.:|,;";
    static const enum jtoken_type one_type[] = {
        JT_ADD, JT_SUB, JT_MUL, JT_DIV, JT_MOD, JT_TILDE, JT_LEFT_BRACKET, JT_RIGHT_BRACKET,
        JT_LEFT_PAREN, JT_RIGHT_PAREN, JT_LEFT_BRACE, JT_RIGHT_BRACE, JT_GT, JT_LT, JT_ASSIGN,
        JT_DOT, JT_COLON, JT_PIPE, JT_COMMA, JT_SEMICOLON,
    };
    for (size_t i = 0; i < ARRAY_SIZE(two); i++)
        if (looking_at(x, x->at, two[i])) {
            *n = 2;
            return two_type[i];
        }
    const char *found = x->source.ptr[x->at] ? strchr(one, x->source.ptr[x->at]) : NULL;
    *n = found ? 1 : 0;
    return found ? one_type[found - one] : JT_EOF;
}

/* Open brackets of the tag at hand; the innermost one's closing character last. */
struct brackets {
    char close[JINJA_LEX_MAX_BRACKETS];
    size_t n;
};

static enum status lex_operator(struct lexer *x, struct brackets *open)
{
    size_t n;
    enum jtoken_type type = operator_at(x, &n);
    char c = x->source.ptr[x->at];
    if (n == 0) {
        uint32_t code_point;
        size_t bytes = utf8_decode(x->source.ptr + x->at, x->source.len - x->at, &code_point);
        LEX_FAIL(x, "unexpected char '%.*s' at %zu", x->line, (int)bytes, x->source.ptr + x->at,
                 x->at);
    }
    if (c == '(' || c == '[' || c == '{') {
        if (open->n == JINJA_LEX_MAX_BRACKETS)
            LEX_FAIL(x, "brackets are nested deeper than %d", x->line, JINJA_LEX_MAX_BRACKETS);
        open->close[open->n++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (open->n == 0)
            LEX_FAIL(x, "unexpected '%c'", x->line, c);
        if (open->close[--open->n] != c)
            LEX_FAIL(x, "unexpected '%c', expected '%c'", x->line, c, open->close[open->n]);
    }
    push(x, type, str_slice(x->source, x->at, x->at + n));
    x->at += n;
    return STATUS_OK;
}

static size_t name_end(const struct lexer *x, size_t at)
{
    while (at < x->source.len) {
        uint32_t c;
        size_t n = utf8_decode(x->source.ptr + at, x->source.len - at, &c);
        if (c != '_' && (c == UTF8_BAD || !junicode_is_word(c)))
            break;
        at += n;
    }
    return at;
}

static enum status lex_token(struct lexer *x, struct brackets *open)
{
    size_t end;
    bool after_dot = x->at > 0 && x->source.ptr[x->at - 1] == '.';
    if (!after_dot && (end = float_end(x, x->at)) > x->at) {
        push(x, JT_FLOAT, str_slice(x->source, x->at, end));
    } else if ((end = integer_end(x, x->at)) > x->at) {
        push(x, JT_INTEGER, str_slice(x->source, x->at, end));
    } else if ((end = name_end(x, x->at)) > x->at) {
        push(x, JT_NAME, str_slice(x->source, x->at, end));
    } else if (x->source.ptr[x->at] == '"' || x->source.ptr[x->at] == '\'') {
        return lex_string(x);
    } else {
        return lex_operator(x, open);
    }
    x->at = end;
    return STATUS_OK;
}

static enum status lex_tag(struct lexer *x, bool is_print)
{
    const char *mark = is_print ? "}}" : "%}";
    struct brackets open = { .n = 0 };
    push(x, is_print ? JT_PRINT : JT_TAG, str_slice(x->source, x->at, x->at + 2));
    x->at += sign_at(x, x->at + 2) ? 3 : 2;
    for (;;) {
        size_t end = open.n == 0 ? tag_end(x, x->at, mark, is_print) : 0;
        if (end) {
            push(x, is_print ? JT_PRINT_END : JT_TAG_END, str_slice(x->source, x->at, end));
            leave_tag(x, end);
            return STATUS_OK;
        }
        size_t next = skip_blank(x, x->at);
        if (next > x->at) {
            advance(x, next);
            continue;
        }
        if (x->at >= x->source.len)
            LEX_FAIL(x, "unexpected end of template, expected '%s'.", x->line,
                     is_print ? "end of print statement" : "end of statement block");
        TRY(lex_token(x, &open));
    }
}

enum status jinja_lex(struct arena *a, struct str source, struct jtokens *out, struct error *err)
{
    struct lexer x = { .a = a, .source = source, .line = 1, .line_start = true, .tokens = out,
                       .err = err };
    while (x.at < source.len) {
        size_t tag = x.at;
        const char *brace;
        while ((brace = memchr(source.ptr + tag, '{', source.len - tag)) != NULL) {
            tag = (size_t)(brace - source.ptr);
            char kind = char_at(&x, tag + 1);
            if (kind == '{' || kind == '%' || kind == '#')
                break;
            tag++;
        }
        if (!brace)
            tag = source.len;
        char kind = char_at(&x, tag + 1);
        struct str text = str_slice(source, x.at, tag);
        if (tag < source.len)
            text = strip_before(&x, text, sign_at(&x, tag + 2), kind == '{');
        if (text.len)
            push(&x, JT_TEXT, text);
        advance(&x, tag);
        if (tag == source.len)
            break;
        size_t raw = kind == '%' ? raw_begin(&x) : 0;
        TRY(raw ? lex_raw(&x, raw) : kind == '#' ? lex_comment(&x) : lex_tag(&x, kind == '{'));
    }
    push(&x, JT_EOF, STR(""));
    return STATUS_OK;
}
