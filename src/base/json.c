#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"

/* One pass over the text before jansson sees it. `out` gets a repaired copy once the first repair
 * is needed; until then the text itself is good. */
struct scanner {
    struct str text;
    size_t at;     /* next byte to look at */
    size_t copied; /* text before this is in `out` */
    unsigned depth;
    unsigned flags;
    bool repaired;
    struct str last_string; /* raw, without quotes: the key in front of a bad number */
    struct strbuf out;
    struct error *err;
};

static void position_of(const struct scanner *s, size_t at, size_t *line, size_t *column)
{
    size_t start = 0;
    *line = 1;
    for (size_t i = 0; i < at; i++) {
        if (s->text.ptr[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    }
    *column = utf8_count(str_slice(s->text, start, at)) + 1;
}

static enum status fail(struct scanner *s, enum status status, size_t at, const char *what)
{
    size_t line, column;
    position_of(s, at, &line, &column);
    return error_set(s->err, status, "JSON, line %zu, column %zu: %s", line, column, what);
}

/* Replaces text[at, at + n) in the copy. */
static void replace(struct scanner *s, size_t at, size_t n, const char *with)
{
    strbuf_append(&s->out, s->text.ptr + s->copied, at - s->copied);
    strbuf_puts(&s->out, with);
    s->copied = at + n;
    s->repaired = true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of a complete \uXXXX at `at`, or -1. */
static int unicode_escape(struct str text, size_t at)
{
    if (text.len - at < 6 || text.ptr[at] != '\\' || text.ptr[at + 1] != 'u')
        return -1;
    int unit = 0;
    for (size_t i = at + 2; i < at + 6; i++) {
        int digit = hex_value(text.ptr[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static void scan_escape(struct scanner *s)
{
    int unit = unicode_escape(s->text, s->at);
    if (unit < 0xD800 || unit > 0xDFFF) {
        s->at += MIN((size_t)2, s->text.len - s->at);
        return;
    }
    if (unit < 0xDC00) {
        int second = s->text.len - s->at > 6 ? unicode_escape(s->text, s->at + 6) : -1;
        if (second >= 0xDC00 && second <= 0xDFFF) {
            s->at += 12;
            return;
        }
    }
    replace(s, s->at, 6, "\\ufffd");
    s->at += 6;
}

static enum status scan_string(struct scanner *s)
{
    size_t start = ++s->at;
    while (s->at < s->text.len && s->text.ptr[s->at] != '"') {
        unsigned char c = (unsigned char)s->text.ptr[s->at];
        if (c == '\\') {
            scan_escape(s);
        } else if (c < 0x80) {
            s->at++;
        } else {
            uint32_t code_point;
            size_t n = utf8_decode(s->text.ptr + s->at, s->text.len - s->at, &code_point);
            if (code_point == UTF8_BAD && s->flags & JSON_STRICT_UTF8)
                return fail(s, STATUS_INVALID, s->at, "ill-formed UTF-8 in a string");
            if (code_point == UTF8_BAD)
                replace(s, s->at, n, "\xEF\xBF\xBD");
            s->at += n;
        }
    }
    s->last_string = str_slice(s->text, start, s->at);
    if (s->at < s->text.len)
        s->at++;
    return STATUS_OK;
}

/* jansson refuses integers beyond 63 bits: those of 64 bits become reals. */
static enum status scan_number(struct scanner *s)
{
    size_t start = s->at;
    bool integer = true;
    for (; s->at < s->text.len; s->at++) {
        char c = s->text.ptr[s->at];
        if (c == '.' || c == 'e' || c == 'E' || c == '+')
            integer = false;
        else if (c != '-' && (c < '0' || c > '9'))
            break;
    }
    struct str digits = str_slice(s->text, start, s->at);
    int64_t small;
    uint64_t large;
    if (!integer || digits.len < 19 || number_parse_i64(digits, &small))
        return STATUS_OK;
    if (number_parse_u64(digits, &large)) {
        replace(s, s->at, 0, ".0");
        return STATUS_OK;
    }
    size_t line, column;
    position_of(s, start, &line, &column);
    return error_set(s->err, STATUS_INVALID,
                     "JSON, line %zu, column %zu: \"%.*s\": the integer %.*s%s does not fit "
                     "64 bits", line, column, (int)MIN(s->last_string.len, (size_t)100),
                     s->last_string.ptr, (int)MIN(digits.len, (size_t)40), digits.ptr,
                     digits.len > 40 ? "..." : "");
}

/* Steps over what Python writes for numbers that JSON cannot hold; false: nothing of the kind. */
static bool scan_python_number(struct scanner *s)
{
    static const struct str words[] = { { "NaN", 3 }, { "Infinity", 8 }, { "-Infinity", 9 } };
    struct str rest = str_slice(s->text, s->at, s->text.len);
    if (!(s->flags & JSON_PYTHON_NUMBERS))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (str_starts(rest, words[i])) {
            replace(s, s->at, words[i].len, "null");
            s->at += words[i].len;
            return true;
        }
    }
    return false;
}

static enum status scan(struct scanner *s)
{
    if (str_starts(s->text, STR("\xEF\xBB\xBF"))) {
        replace(s, 0, 3, "");
        s->at = 3;
    }
    while (s->at < s->text.len) {
        char c = s->text.ptr[s->at];
        if (c == '"') {
            TRY(scan_string(s));
        } else if ((c == 'N' || c == 'I' || c == '-') && scan_python_number(s)) {
            continue;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            TRY(scan_number(s));
        } else {
            if (c == '[' || c == '{') {
                if (++s->depth > JSON_MAX_DEPTH)
                    return fail(s, STATUS_LIMIT, s->at, "nested deeper than 256 levels");
            } else if ((c == ']' || c == '}') && s->depth) {
                s->depth--;
            } else if ((unsigned char)c >= 0x80 || c == 0) {
                return fail(s, STATUS_INVALID, s->at, "unexpected byte outside of a string");
            }
            s->at++;
        }
    }
    if (s->repaired)
        replace(s, s->text.len, 0, "");
    return STATUS_OK;
}

enum status json_parse(struct str text, unsigned flags, json_t **out, struct error *err)
{
    *out = NULL;
    struct scanner s = { .text = text, .flags = flags, .err = err };
    strbuf_init(&s.out, SIZE_MAX);
    enum status status = scan(&s);
    if (status == STATUS_OK) {
        struct str good = s.repaired ? strbuf_str(&s.out) : text;
        size_t options = JSON_DECODE_ANY | JSON_ALLOW_NUL;
        if (flags & JSON_UNIQUE_KEYS)
            options |= JSON_REJECT_DUPLICATES;
        json_error_t e;
        *out = json_loadb(good.ptr ? good.ptr : "", good.len, options, &e);
        if (!*out)
            status = error_set(err, STATUS_INVALID, "JSON, line %d, column %d: %s", e.line,
                               e.column, e.text);
    }
    strbuf_release(&s.out);
    return status;
}

enum status json_parse_file(const char *path, size_t max_bytes, unsigned flags, json_t **out,
                            struct error *err)
{
    *out = NULL;
    struct strbuf text;
    strbuf_init(&text, max_bytes);
    enum status s = file_read(path, max_bytes, &text, err);
    if (s == STATUS_OK) {
        s = json_parse(strbuf_str(&text), flags, out, err);
        if (s != STATUS_OK)
            error_prefix(err, "%s", path);
    }
    strbuf_release(&text);
    return s;
}

void json_write_string(struct strbuf *out, struct str s)
{
    static const char short_escapes[] = "btn.fr"; /* 0x08 to 0x0D; 0x0B has none */
    size_t start = 0;
    strbuf_putc(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        strbuf_append(out, s.ptr + start, i - start);
        start = i + 1;
        if (c >= 0x20)
            strbuf_printf(out, "\\%c", c);
        else if (c >= 0x08 && c <= 0x0D && c != 0x0B)
            strbuf_printf(out, "\\%c", short_escapes[c - 0x08]);
        else
            strbuf_printf(out, "\\u%04x", c);
    }
    strbuf_append(out, s.ptr + start, s.len - start);
    strbuf_putc(out, '"');
}

static void write_object(struct strbuf *out, const json_t *object)
{
    strbuf_putc(out, '{');
    bool first = true;
    json_t *quiet = (json_t *)(uintptr_t)object; /* iterators are not const, yet only read */
    for (void *i = json_object_iter(quiet); i; i = json_object_iter_next(quiet, i)) {
        if (!first)
            strbuf_putc(out, ',');
        first = false;
        json_write_string(out, (struct str){ json_object_iter_key(i),
                                             json_object_iter_key_len(i) });
        strbuf_putc(out, ':');
        json_write(out, json_object_iter_value(i));
    }
    strbuf_putc(out, '}');
}

void json_write(struct strbuf *out, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(out, value);
        break;
    case JSON_ARRAY:
        strbuf_putc(out, '[');
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (i)
                strbuf_putc(out, ',');
            json_write(out, json_array_get(value, i));
        }
        strbuf_putc(out, ']');
        break;
    case JSON_STRING:
        json_write_string(out, json_str(value));
        break;
    case JSON_INTEGER:
        strbuf_printf(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        number_put_double(out, json_real_value(value));
        break;
    case JSON_TRUE:
        strbuf_puts(out, "true");
        break;
    case JSON_FALSE:
        strbuf_puts(out, "false");
        break;
    case JSON_NULL:
        strbuf_puts(out, "null");
        break;
    }
}

struct str json_str(const json_t *string_value)
{
    if (!json_is_string(string_value))
        return (struct str){ NULL, 0 };
    return (struct str){ json_string_value(string_value), json_string_length(string_value) };
}

/* Whether the raw text of a key (escapes and all) spells `key`. */
static bool raw_key_is(struct str raw, const char *key)
{
    if (str_find(raw, STR("\\"), 0) == STR_NONE)
        return str_is(raw, key);
    json_t *decoded = json_loadb(raw.ptr - 1, raw.len + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool same = str_is(json_str(decoded), key);
    json_decref(decoded);
    return same;
}

bool json_get_u64(struct str text, const json_t *object, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value)) {
        if (json_integer_value(value) < 0)
            return false;
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    if (!json_is_real(value) || json_real_value(value) < 0x1p63)
        return false;
    bool found = false; /* the last one wins, as in json_parse */
    struct scanner s = { .text = text };
    strbuf_init(&s.out, 0);
    while (s.at < text.len) {
        char c = text.ptr[s.at];
        if (c == '"') {
            if (scan_string(&s) != STATUS_OK)
                break;
            continue;
        }
        s.depth += c == '{' || c == '[';
        s.depth -= (c == '}' || c == ']') && s.depth;
        s.at++;
        if (c != ':' || s.depth != 1 || !raw_key_is(s.last_string, key))
            continue;
        while (s.at < text.len && strchr(" \t\r\n", text.ptr[s.at]))
            s.at++;
        size_t start = s.at;
        while (s.at < text.len && text.ptr[s.at] >= '0' && text.ptr[s.at] <= '9')
            s.at++;
        bool ends = s.at == text.len || strchr(" \t\r\n,}", text.ptr[s.at]);
        found = ends && number_parse_u64(str_slice(text, start, s.at), out);
    }
    strbuf_release(&s.out);
    return found;
}
