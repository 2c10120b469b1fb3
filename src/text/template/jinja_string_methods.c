/* Methods of strings. */
#include "base/utf8.h"
#include "text/template/jinja_methods.h"
#include "text/template/jinja_unicode.h"

#define CASE_METHOD(name, function)                                        \
    static struct jv name(struct jinja *r, struct jv self, struct jv *arg) \
    {                                                                      \
        (void)arg;                                                         \
        return function(r, self.s);                                        \
    }

CASE_METHOD(method_upper, jtext_upper)
CASE_METHOD(method_lower, jtext_lower)
CASE_METHOD(method_fold, jtext_fold)
CASE_METHOD(method_swap_case, jtext_swap_case)
CASE_METHOD(method_capitalize, jtext_capitalize)
CASE_METHOD(method_title, jtext_title)

static struct jv strip(struct jinja *r, struct jv self, struct jv chars, bool left, bool right)
{
    if (!jarg_given(chars) || chars.kind == JV_NONE)
        return jtext_strip(r, self.s, NULL, left, right);
    JV_TRY(set, jarg_string(r, chars, "the characters to strip"));
    return jtext_strip(r, self.s, set.s, left, right);
}

static struct jv method_strip(struct jinja *r, struct jv self, struct jv *arg)
{
    return strip(r, self, arg[0], true, true);
}

static struct jv method_lstrip(struct jinja *r, struct jv self, struct jv *arg)
{
    return strip(r, self, arg[0], true, false);
}

static struct jv method_rstrip(struct jinja *r, struct jv self, struct jv *arg)
{
    return strip(r, self, arg[0], false, true);
}

static struct jv method_replace(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t count = -1;
    JV_TRY(from, jarg_string(r, arg[0], "replace() argument 1"));
    JV_TRY(to, jarg_string(r, arg[1], "replace() argument 2"));
    if (jarg_given(arg[2])) {
        JV_TRY(ok, jarg_integer(r, arg[2], &count));
    }
    return jtext_replace(r, self.s, from.s, to.s, count);
}

/* --- splitting and joining ------------------------------------------------------------------ */

struct split {
    struct jv separator; /* NONE: white space */
    int64_t limit;       /* of splits; negative: none */
};

static struct jv split_arguments(struct jinja *r, struct jv *arg, struct split *out)
{
    *out = (struct split){ jv_none(), -1 };
    if (jarg_given(arg[0]) && arg[0].kind != JV_NONE) {
        out->separator = jarg_string(r, arg[0], "the separator");
        if (JV_IS_FAILURE(out->separator))
            return out->separator;
        if (out->separator.s->len == 0)
            return jv_fail(r, JINJA_FAILURE_VALUE, "empty separator");
    }
    return jarg_given(arg[1]) ? jarg_integer(r, arg[1], &out->limit) : jv_none();
}

static bool push_slice(struct jinja *r, struct jlist *l, struct jstr *s, size_t from, size_t to)
{
    struct jv part = jv_slice(r, s, from, to);
    return !JV_IS_FAILURE(part) && jinja_step(r, 1) && jlist_push(r, l, part);
}

static struct jv split_at(struct jinja *r, struct jstr *s, const struct split *how)
{
    struct jlist *l = jlist_new(r, 4);
    struct str text = jstr_str(s), separator = jstr_str(how->separator.s);
    size_t at = 0;
    if (!l || !jinja_step(r, s->len / 256))
        return (struct jv){ .kind = JV_FAILURE };
    for (int64_t n = 0; how->limit < 0 || n < how->limit; n++) {
        size_t found = str_find(text, separator, at);
        if (found == STR_NONE)
            break;
        if (!push_slice(r, l, s, at, found))
            return (struct jv){ .kind = JV_FAILURE };
        at = found + separator.len;
    }
    return push_slice(r, l, s, at, s->len) ? jv_of_list(l) : (struct jv){ .kind = JV_FAILURE };
}

static size_t find_last(struct str s, struct str needle, size_t end)
{
    if (needle.len > end)
        return STR_NONE;
    for (size_t at = end - needle.len + 1; at-- > 0;)
        if (memcmp(s.ptr + at, needle.ptr, needle.len) == 0)
            return at;
    return STR_NONE;
}

static void reverse(struct jlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jv swap = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = swap;
    }
}

static struct jv split_from_end(struct jinja *r, struct jstr *s, const struct split *how)
{
    struct jlist *l = jlist_new(r, 4);
    struct str text = jstr_str(s), separator = jstr_str(how->separator.s);
    size_t end = s->len;
    if (!l || !jinja_step(r, s->len / 256))
        return (struct jv){ .kind = JV_FAILURE };
    for (int64_t n = 0; how->limit < 0 || n < how->limit; n++) {
        size_t found = find_last(text, separator, end);
        if (found == STR_NONE)
            break;
        if (!push_slice(r, l, s, found + separator.len, end))
            return (struct jv){ .kind = JV_FAILURE };
        end = found;
    }
    if (!push_slice(r, l, s, 0, end))
        return (struct jv){ .kind = JV_FAILURE };
    reverse(l);
    return jv_of_list(l);
}

/* At most `limit` words, then the rest as it is; from the end when `last`. */
static struct jv split_words(struct jinja *r, struct jstr *s, int64_t limit, bool last)
{
    JV_TRY(words, jtext_words(r, s));
    struct jlist *all = words.list;
    if (limit < 0 || (int64_t)all->n <= limit)
        return words;
    struct jlist *l = jlist_new(r, (size_t)limit + 1);
    if (!l)
        return jv_no_memory(r);
    size_t n = (size_t)limit;
    if (last) {
        const struct jstr *end = all->items[all->n - n - 1].s;
        if (!push_slice(r, l, s, 0, (size_t)(end->ptr + end->len - s->ptr)))
            return jv_no_memory(r);
        JV_TRY(head, jtext_strip(r, l->items[0].s, NULL, false, true));
        l->items[0] = head;
        for (size_t i = all->n - n; i < all->n; i++)
            if (!jlist_push(r, l, all->items[i]))
                return jv_no_memory(r);
        return jv_of_list(l);
    }
    for (size_t i = 0; i < n; i++)
        if (!jlist_push(r, l, all->items[i]))
            return jv_no_memory(r);
    size_t from = (size_t)(all->items[n].s->ptr - s->ptr);
    return push_slice(r, l, s, from, s->len) ? jv_of_list(l) : jv_no_memory(r);
}

static struct jv method_split(struct jinja *r, struct jv self, struct jv *arg)
{
    struct split how;
    JV_TRY(ok, split_arguments(r, arg, &how));
    return how.separator.kind == JV_NONE ? split_words(r, self.s, how.limit, false)
                                         : split_at(r, self.s, &how);
}

static struct jv method_rsplit(struct jinja *r, struct jv self, struct jv *arg)
{
    struct split how;
    JV_TRY(ok, split_arguments(r, arg, &how));
    return how.separator.kind == JV_NONE ? split_words(r, self.s, how.limit, true)
                                         : split_from_end(r, self.s, &how);
}

static struct jv method_split_lines(struct jinja *r, struct jv self, struct jv *arg)
{
    return jtext_lines(r, self.s, jarg_given(arg[0]) && jv_truth(arg[0]));
}

static struct jv partition(struct jinja *r, struct jv self, struct jv *arg, bool last)
{
    JV_TRY(separator, jarg_string(r, arg[0], "the separator"));
    struct str text = jstr_str(self.s), needle = jstr_str(separator.s);
    struct jlist *l = jlist_new(r, 3);
    if (!l)
        return jv_no_memory(r);
    if (needle.len == 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "empty separator");
    size_t at = last ? find_last(text, needle, text.len) : str_find(text, needle, 0);
    if (at == STR_NONE) {
        JV_TRY(empty, jv_literal(r, ""));
        l->items[0] = l->items[1] = l->items[2] = empty;
        l->items[last ? 2 : 0] = self;
        l->n = 3;
    } else if (!push_slice(r, l, self.s, 0, at) ||
               !push_slice(r, l, self.s, at, at + needle.len) ||
               !push_slice(r, l, self.s, at + needle.len, text.len)) {
        return jv_no_memory(r);
    }
    return (struct jv){ .kind = JV_TUPLE, .list = l };
}

static struct jv method_partition(struct jinja *r, struct jv self, struct jv *arg)
{
    return partition(r, self, arg, false);
}

static struct jv method_rpartition(struct jinja *r, struct jv self, struct jv *arg)
{
    return partition(r, self, arg, true);
}

static struct jv method_join(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jiter it;
    struct jv item;
    struct jbuild b;
    JV_TRY(started, jiter_init(r, &it, arg[0]));
    jbuild_init(&b, r, 0);
    for (size_t i = 0; jiter_next(r, &it, &item); i++) {
        if (item.kind != JV_STRING)
            return jv_fail(r, JINJA_FAILURE_VALUE,
                           "sequence item %zu: expected str instance, %s found", i,
                           jv_type_name(item));
        if (i)
            jbuild_str(&b, self.s);
        jbuild_str(&b, item.s);
        if (b.failed)
            break;
    }
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jbuild_finish(&b);
}

/* --- searching ------------------------------------------------------------------------------ */

/* The window [start, end) of characters, in bytes; false: it is empty beyond the text. */
static struct jv window(struct jinja *r, struct jstr *s, struct jv *arg, size_t *from, size_t *to,
                        bool *outside)
{
    int64_t n = (int64_t)jstr_chars(s), start = 0, end = n;
    if (jarg_given(arg[0]) && arg[0].kind != JV_NONE) {
        JV_TRY(ok, jarg_integer(r, arg[0], &start));
        start = start < 0 ? MAX(start + n, 0) : start;
    }
    if (jarg_given(arg[1]) && arg[1].kind != JV_NONE) {
        JV_TRY(ok, jarg_integer(r, arg[1], &end));
        end = end < 0 ? MAX(end + n, 0) : MIN(end, n);
    }
    *outside = start > end;
    *from = jstr_offset(s, (size_t)MIN(start, n));
    *to = MAX(jstr_offset(s, (size_t)end), *from);
    return jv_none();
}

static struct jv affix(struct jinja *r, struct jv self, struct jv *arg, bool at_start)
{
    size_t from, to;
    bool outside;
    JV_TRY(ok, window(r, self.s, arg + 1, &from, &to, &outside));
    struct str text = str_slice(jstr_str(self.s), from, to);
    struct jv one = arg[0];
    const struct jv *items = one.kind == JV_TUPLE ? one.list->items : &one;
    size_t n = one.kind == JV_TUPLE ? one.list->n : 1;
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind != JV_STRING)
            return jv_fail(r, JINJA_FAILURE_VALUE,
                           "%s first arg must be str or a tuple of str, not %s",
                           at_start ? "startswith" : "endswith", jv_type_name(items[i]));
        struct str s = jstr_str(items[i].s);
        if (!outside && (at_start ? str_starts(text, s) : str_ends(text, s)))
            return jv_bool(true);
    }
    return jv_bool(false);
}

static struct jv method_starts_with(struct jinja *r, struct jv self, struct jv *arg)
{
    return affix(r, self, arg, true);
}

static struct jv method_ends_with(struct jinja *r, struct jv self, struct jv *arg)
{
    return affix(r, self, arg, false);
}

static struct jv search(struct jinja *r, struct jv self, struct jv *arg, bool last, bool must)
{
    size_t from, to, at = STR_NONE;
    bool outside;
    JV_TRY(needle, jarg_string(r, arg[0], "the text to find"));
    JV_TRY(ok, window(r, self.s, arg + 1, &from, &to, &outside));
    struct str text = str_slice(jstr_str(self.s), from, to);
    if (!jinja_step(r, text.len / 256))
        return (struct jv){ .kind = JV_FAILURE };
    if (!outside)
        at = last ? find_last(text, jstr_str(needle.s), text.len)
                  : str_find(text, jstr_str(needle.s), 0);
    if (at == STR_NONE)
        return must ? jv_fail(r, JINJA_FAILURE_VALUE, "substring not found") : jv_int(-1);
    return jv_size(utf8_count(str_slice(jstr_str(self.s), 0, from + at)));
}

static struct jv method_find(struct jinja *r, struct jv self, struct jv *arg)
{
    return search(r, self, arg, false, false);
}

static struct jv method_rfind(struct jinja *r, struct jv self, struct jv *arg)
{
    return search(r, self, arg, true, false);
}

static struct jv method_index(struct jinja *r, struct jv self, struct jv *arg)
{
    return search(r, self, arg, false, true);
}

static struct jv method_rindex(struct jinja *r, struct jv self, struct jv *arg)
{
    return search(r, self, arg, true, true);
}

static struct jv method_count(struct jinja *r, struct jv self, struct jv *arg)
{
    size_t from, to;
    bool outside;
    JV_TRY(needle, jarg_string(r, arg[0], "the text to count"));
    JV_TRY(ok, window(r, self.s, arg + 1, &from, &to, &outside));
    struct str text = str_slice(jstr_str(self.s), from, to), s = jstr_str(needle.s);
    if (!jinja_step(r, text.len / 256))
        return (struct jv){ .kind = JV_FAILURE };
    if (outside)
        return jv_int(0);
    if (s.len == 0)
        return jv_size(utf8_count(text) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = str_find(text, s, at)) != STR_NONE; at += s.len)
        n++;
    return jv_int(n);
}

static struct jv method_remove_prefix(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(prefix, jarg_string(r, arg[0], "removeprefix() argument"));
    bool found = str_starts(jstr_str(self.s), jstr_str(prefix.s));
    return found ? jv_slice(r, self.s, prefix.s->len, self.s->len) : self;
}

static struct jv method_remove_suffix(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(suffix, jarg_string(r, arg[0], "removesuffix() argument"));
    bool found = suffix.s->len && str_ends(jstr_str(self.s), jstr_str(suffix.s));
    return found ? jv_slice(r, self.s, 0, self.s->len - suffix.s->len) : self;
}

/* --- padding -------------------------------------------------------------------------------- */

static struct jv padding(struct jinja *r, struct jv self, struct jv *arg, size_t *missing,
                         int64_t *width, uint32_t *fill)
{
    *fill = ' ';
    JV_TRY(ok, jarg_integer(r, arg[0], width));
    if (jarg_given(arg[1])) {
        JV_TRY(text, jarg_string(r, arg[1], "the fill character"));
        if (jstr_chars(text.s) != 1)
            return jv_fail(r, JINJA_FAILURE_VALUE,
                           "The fill character must be exactly one character long");
        (void)utf8_decode(text.s->ptr, text.s->len, fill);
    }
    int64_t n = (int64_t)jstr_chars(self.s);
    *missing = *width > n ? (size_t)(*width - n) : 0;
    return jv_none();
}

static struct jv method_ljust(struct jinja *r, struct jv self, struct jv *arg)
{
    size_t missing = 0;
    int64_t width = 0;
    uint32_t fill;
    JV_TRY(ok, padding(r, self, arg, &missing, &width, &fill));
    return missing ? jtext_pad(r, self.s, 0, missing, fill) : self;
}

static struct jv method_rjust(struct jinja *r, struct jv self, struct jv *arg)
{
    size_t missing = 0;
    int64_t width = 0;
    uint32_t fill;
    JV_TRY(ok, padding(r, self, arg, &missing, &width, &fill));
    return missing ? jtext_pad(r, self.s, missing, 0, fill) : self;
}

static struct jv method_center(struct jinja *r, struct jv self, struct jv *arg)
{
    size_t missing = 0;
    int64_t width = 0;
    uint32_t fill;
    JV_TRY(ok, padding(r, self, arg, &missing, &width, &fill));
    size_t left = missing / 2 + (missing & (size_t)width & 1);
    return missing ? jtext_pad(r, self.s, left, missing - left, fill) : self;
}

static struct jv method_zfill(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t width;
    JV_TRY(ok, jarg_integer(r, arg[0], &width));
    int64_t n = (int64_t)jstr_chars(self.s);
    if (width <= n)
        return self;
    bool sign = self.s->len && (self.s->ptr[0] == '-' || self.s->ptr[0] == '+');
    JV_TRY(digits, jv_slice(r, self.s, sign, self.s->len));
    JV_TRY(padded, jtext_pad(r, digits.s, (size_t)(width - n), 0, '0'));
    if (!sign)
        return padded;
    JV_TRY(first, jv_slice(r, self.s, 0, 1));
    return jv_concat(r, (struct jstr *[]){ first.s, padded.s }, 2);
}

static struct jv method_expand_tabs(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t size = 8;
    struct jbuild b;
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &size));
    }
    if (size > 1000)
        return jv_fail(r, JINJA_FAILURE_VALUE, "expandtabs: a size of %lld is too large",
                       (long long)size);
    jbuild_init(&b, r, self.s->len);
    int64_t column = 0;
    for (size_t i = 0; i < self.s->len && !b.failed; i++) {
        char c = self.s->ptr[i];
        if (c == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            for (int64_t k = 0; k < n; k++)
                jbuild_puts(&b, " ", false);
            column += n;
            continue;
        }
        jbuild_add(&b, self.s, i, i + 1);
        column = c == '\n' || c == '\r' ? 0 : column + (((unsigned char)c & 0xC0) != 0x80);
    }
    return jbuild_finish(&b);
}

/* --- the rest ------------------------------------------------------------------------------- */

static struct jv method_format(struct jinja *r, struct jv self, const struct jargs *args)
{
    return jformat_method(r, self.s, args);
}

static struct jv method_format_map(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jargs args = { 0 };
    if (arg[0].kind != JV_DICT)
        return jv_fail(r, JINJA_FAILURE_VALUE, "format_map: expected a mapping, got %s",
                       jv_type_name(arg[0]));
    const struct jdict *d = arg[0].dict;
    args.names = jinja_alloc(r, d->n, sizeof *args.names);
    args.named = args.names ? jinja_alloc(r, d->n, sizeof *args.named) : NULL;
    if (!args.named)
        return jv_no_memory(r);
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i].key.kind == JV_STRING) {
            args.names[args.n_named] = d->entries[i].key.s;
            args.named[args.n_named++] = d->entries[i].value;
        }
    return jformat_method(r, self.s, &args);
}

static struct jv method_encode(struct jinja *r, struct jv self, struct jv *arg)
{
    if (jarg_given(arg[0])) {
        JV_TRY(name, jarg_string(r, arg[0], "the encoding"));
        JV_TRY(lower, jtext_lower(r, name.s));
        struct str s = jstr_str(lower.s);
        bool ascii = str_is(s, "ascii") && jv_truth(method_is_ascii(r, self, arg));
        if (!str_is(s, "utf-8") && !str_is(s, "utf8") && !ascii)
            return jv_fail(r, JINJA_FAILURE_VALUE, "encode: '%.*s' is not supported", STR_ARG(s));
    }
    self.kind = JV_BYTES;
    return self;
}

static struct jv method_translate(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jbuild b;
    if (arg[0].kind != JV_DICT)
        return jv_fail(r, JINJA_FAILURE_VALUE, "translate: expected a mapping, got %s",
                       jv_type_name(arg[0]));
    jbuild_init(&b, r, self.s->len);
    for (size_t at = 0; at < self.s->len && !b.failed && jinja_step(r, 1);) {
        uint32_t c;
        struct jv v;
        size_t n = utf8_decode(self.s->ptr + at, self.s->len - at, &c), until;
        if (!jdict_get(r, arg[0].dict, jv_int((int64_t)c), &v))
            jbuild_add(&b, self.s, at, at + n);
        else if (v.kind == JV_STRING)
            jbuild_str(&b, v.s);
        else if (jv_is_integer(v))
            jbuild_char(&b, (uint32_t)jv_integer(v), jstr_value_at(self.s, at, &until));
        else if (v.kind != JV_NONE)
            return jv_fail(r, JINJA_FAILURE_VALUE,
                           "character mapping must return integer, None or str");
        at += n;
    }
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jbuild_finish(&b);
}

#define METHOD(method_name, function, required, ...) \
    { .name = method_name, .run = function, .n_required = required, .parameters = { __VA_ARGS__ } }

static const struct jinja_callable methods[] = {
    METHOD("upper", method_upper, 0, NULL),
    METHOD("lower", method_lower, 0, NULL),
    METHOD("casefold", method_fold, 0, NULL),
    METHOD("swapcase", method_swap_case, 0, NULL),
    METHOD("capitalize", method_capitalize, 0, NULL),
    METHOD("title", method_title, 0, NULL),
    METHOD("strip", method_strip, 0, "chars"),
    METHOD("lstrip", method_lstrip, 0, "chars"),
    METHOD("rstrip", method_rstrip, 0, "chars"),
    METHOD("replace", method_replace, 2, "old", "new", "count"),
    METHOD("split", method_split, 0, "sep", "maxsplit"),
    METHOD("rsplit", method_rsplit, 0, "sep", "maxsplit"),
    METHOD("splitlines", method_split_lines, 0, "keepends"),
    METHOD("partition", method_partition, 1, "sep"),
    METHOD("rpartition", method_rpartition, 1, "sep"),
    METHOD("join", method_join, 1, "iterable"),
    METHOD("startswith", method_starts_with, 1, "prefix", "start", "end"),
    METHOD("endswith", method_ends_with, 1, "suffix", "start", "end"),
    METHOD("find", method_find, 1, "sub", "start", "end"),
    METHOD("rfind", method_rfind, 1, "sub", "start", "end"),
    METHOD("index", method_index, 1, "sub", "start", "end"),
    METHOD("rindex", method_rindex, 1, "sub", "start", "end"),
    METHOD("count", method_count, 1, "sub", "start", "end"),
    METHOD("removeprefix", method_remove_prefix, 1, "prefix"),
    METHOD("removesuffix", method_remove_suffix, 1, "suffix"),
    METHOD("ljust", method_ljust, 1, "width", "fillchar"),
    METHOD("rjust", method_rjust, 1, "width", "fillchar"),
    METHOD("center", method_center, 1, "width", "fillchar"),
    METHOD("zfill", method_zfill, 1, "width"),
    METHOD("expandtabs", method_expand_tabs, 0, "tabsize"),
    METHOD("isalpha", method_is_alpha, 0, NULL),
    METHOD("isdigit", method_is_digit, 0, NULL),
    METHOD("isdecimal", method_is_decimal, 0, NULL),
    METHOD("isnumeric", method_is_numeric, 0, NULL),
    METHOD("isalnum", method_is_alnum, 0, NULL),
    METHOD("isspace", method_is_space, 0, NULL),
    METHOD("isprintable", method_is_printable, 0, NULL),
    METHOD("isascii", method_is_ascii, 0, NULL),
    METHOD("isupper", method_is_upper, 0, NULL),
    METHOD("islower", method_is_lower, 0, NULL),
    METHOD("istitle", method_is_title, 0, NULL),
    METHOD("isidentifier", method_is_identifier, 0, NULL),
    { .name = "format", .run_all = method_format },
    METHOD("format_map", method_format_map, 1, "mapping"),
    METHOD("encode", method_encode, 0, "encoding", "errors"),
    METHOD("translate", method_translate, 1, "table"),
};

const struct jinja_callable *jinja_string_method_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (str_is(name, methods[i].name))
            return &methods[i];
    return NULL;
}
