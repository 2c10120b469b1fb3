/* Filters of texts, and the table of all filters. Those of numbers and of sequences have files of
 * their own. */
#include "text/template/jinja_filters.h"

#include <stdio.h>

#include "base/utf8.h"
#include "text/template/jinja_unicode.h"

#define TEXT_FILTER(name, expression)                                      \
    static struct jv name(struct jinja *r, struct jv self, struct jv *arg) \
    {                                                                      \
        (void)arg;                                                         \
        JV_TRY(text, jv_to_string(r, self));                               \
        return expression;                                                 \
    }

TEXT_FILTER(filter_upper, jtext_upper(r, text.s))
TEXT_FILTER(filter_lower, jtext_lower(r, text.s))
TEXT_FILTER(filter_capitalize, jtext_capitalize(r, text.s))
TEXT_FILTER(filter_title, jtext_title_words(r, text.s))
TEXT_FILTER(filter_string, text)
TEXT_FILTER(filter_escape, text.s->markup ? text : jtext_escape(r, text.s))
TEXT_FILTER(filter_force_escape, jtext_escape(r, text.s))

static struct jv filter_safe(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    JV_TRY(text, jv_to_string(r, self));
    struct jstr *copy = jinja_alloc(r, 1, sizeof *copy);
    if (!copy)
        return jv_no_memory(r);
    *copy = *text.s;
    copy->markup = true;
    return jv_of_str(copy);
}

static struct jv filter_trim(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(text, jv_to_string(r, self));
    if (!jarg_given(arg[0]) || arg[0].kind == JV_NONE)
        return jtext_strip(r, text.s, NULL, true, true);
    JV_TRY(chars, jarg_string(r, arg[0], "trim: chars"));
    return jtext_strip(r, text.s, chars.s, true, true);
}

static struct jv filter_replace(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t count = -1;
    JV_TRY(text, jv_to_string(r, self));
    JV_TRY(from, jv_to_string(r, arg[0]));
    JV_TRY(to, jv_to_string(r, arg[1]));
    if (jarg_given(arg[2]) && arg[2].kind != JV_NONE) {
        JV_TRY(ok, jarg_integer(r, arg[2], &count));
    }
    return jtext_replace(r, text.s, from.s, to.s, count);
}

static struct jv filter_default(struct jinja *r, struct jv self, struct jv *arg)
{
    bool boolean = jarg_given(arg[1]) && jv_truth(arg[1]);
    if (self.kind != JV_UNDEFINED && !(boolean && !jv_truth(self)))
        return self;
    return jarg_given(arg[0]) ? arg[0] : jv_literal(r, "");
}

static struct jv filter_attr(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(name, jv_to_string(r, arg[0]));
    if (self.kind != JV_DICT)
        return jinja_attribute(r, self, name.s);
    /* Not the keys of a dict: an empty one has the same methods. */
    struct jdict *none = jdict_new(r, 0);
    if (!none)
        return jv_no_memory(r);
    struct jv empty = { .kind = JV_DICT, .dict = none };
    JV_TRY(found, jinja_attribute(r, empty, name.s));
    return found.kind == JV_UNDEFINED ? found : jinja_attribute(r, self, name.s);
}

/* --- layout of text ------------------------------------------------------------------------- */

static struct jv filter_truncate(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t length = 255, leeway = 5;
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &length));
    }
    struct jv end = jarg_given(arg[2]) ? jarg_string(r, arg[2], "truncate: end")
                                       : jv_literal(r, "...");
    if (JV_IS_FAILURE(end))
        return end;
    if (jarg_given(arg[3]) && arg[3].kind != JV_NONE) {
        JV_TRY(ok, jarg_integer(r, arg[3], &leeway));
    }
    int64_t end_chars = (int64_t)jstr_chars(end.s);
    if (length < end_chars || leeway < 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "truncate: expected length >= %lld, got %lld",
                       (long long)end_chars, (long long)length);
    JV_TRY(n, jv_length(r, self));
    if (n.i <= length + leeway)
        return self;
    JV_TRY(text, jarg_string(r, self, "truncate: the value"));
    size_t cut = jstr_offset(text.s, (size_t)(length - end_chars));
    if (!jarg_given(arg[1]) || !jv_truth(arg[1])) {
        size_t blank = cut;
        while (blank > 0 && text.s->ptr[blank - 1] != ' ')
            blank--;
        cut = blank ? blank - 1 : cut;
    }
    JV_TRY(head, jv_slice(r, text.s, 0, cut));
    return jv_concat(r, (struct jstr *[]){ head.s, end.s }, 2);
}

static struct jv filter_indent(struct jinja *r, struct jv self, struct jv *arg)
{
    JV_TRY(text, jarg_string(r, self, "indent: the value"));
    bool first = jarg_given(arg[1]) && jv_truth(arg[1]);
    bool blank = jarg_given(arg[2]) && jv_truth(arg[2]);
    struct jv indent = jarg_given(arg[0]) ? arg[0] : jv_int(4);
    if (indent.kind != JV_STRING) {
        int64_t width;
        JV_TRY(ok, jarg_integer(r, indent, &width));
        JV_TRY(none, jv_literal(r, ""));
        indent = jtext_pad(r, none.s, width > 0 ? (size_t)width : 0, 0, ' ');
        if (JV_IS_FAILURE(indent))
            return indent;
    }
    JV_TRY(lines, jtext_lines(r, text.s, false));
    struct jlist *l = lines.list;
    /* A final newline opens one more, empty line. */
    char last = text.s->len ? text.s->ptr[text.s->len - 1] : '\n';
    if (last == '\n' || last == '\r') {
        JV_TRY(empty, jv_literal(r, ""));
        if (!jlist_push(r, l, empty))
            return jv_no_memory(r);
    }
    struct jbuild b;
    jbuild_init(&b, r, text.s->len);
    for (size_t i = 0; i < l->n && !b.failed; i++) {
        if (i)
            jbuild_puts(&b, "\n", false);
        if (i ? blank || l->items[i].s->len : first)
            jbuild_str(&b, indent.s);
        jbuild_str(&b, l->items[i].s);
    }
    return jbuild_finish(&b);
}

static struct jv filter_center(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t width = 80;
    JV_TRY(text, jv_to_string(r, self));
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &width));
    }
    int64_t missing = width - (int64_t)jstr_chars(text.s);
    if (missing <= 0)
        return text;
    size_t left = (size_t)(missing / 2 + (missing & width & 1));
    return jtext_pad(r, text.s, left, (size_t)missing - left, ' ');
}

static struct jv filter_word_count(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    JV_TRY(text, jv_to_string(r, self));
    int64_t n = 0;
    bool inside = false;
    for (size_t at = 0; at < text.s->len;) {
        uint32_t c;
        at += utf8_decode(text.s->ptr + at, text.s->len - at, &c);
        bool word = c == '_' || junicode_is_alpha(c) || junicode_is_numeric(c);
        n += word && !inside;
        inside = word;
    }
    return jv_int(n);
}

/* One paragraph, its words filled into lines; words longer than a line are cut. */
static struct jv wrap_line(struct jinja *r, struct jbuild *b, struct jstr *line, size_t width,
                           bool cut, const struct jstr *newline)
{
    JV_TRY(words, jtext_words(r, line));
    size_t used = 0;
    for (size_t i = 0; i < words.list->n && !b->failed; i++) {
        struct jstr *word = words.list->items[i].s;
        size_t n = jstr_chars(word), at = 0;
        if (used && used + 1 + n <= width) {
            jbuild_puts(b, " ", false);
            used++;
        } else if (used && !(cut && n > width && used + 1 < width)) {
            jbuild_str(b, newline);
            used = 0;
        } else if (used) {
            jbuild_puts(b, " ", false);
            used++;
        }
        while (cut && n - at > width - used) {
            size_t part = width - used;
            jbuild_add(b, word, jstr_offset(word, at), jstr_offset(word, at + part));
            jbuild_str(b, newline);
            at += part;
            used = 0;
        }
        jbuild_add(b, word, jstr_offset(word, at), word->len);
        used += n - at;
    }
    return jv_none();
}

/* arg: width, break_long_words, wrapstring, break_on_hyphens */
static struct jv filter_word_wrap(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t width = 79;
    JV_TRY(text, jarg_string(r, self, "wordwrap: the value"));
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &width));
    }
    if (width <= 0)
        return jv_fail(r, JINJA_FAILURE_VALUE, "invalid width %lld (must be > 0)",
                       (long long)width);
    bool cut = !jarg_given(arg[1]) || jv_truth(arg[1]);
    struct jv newline = jarg_given(arg[2]) && arg[2].kind == JV_STRING ? arg[2]
                                                                       : jv_literal(r, "\n");
    if (JV_IS_FAILURE(newline))
        return newline;
    JV_TRY(lines, jtext_lines(r, text.s, false));
    struct jbuild b;
    jbuild_init(&b, r, text.s->len);
    for (size_t i = 0; i < lines.list->n && !b.failed; i++) {
        if (i)
            jbuild_str(&b, newline.s);
        JV_TRY(done, wrap_line(r, &b, lines.list->items[i].s, (size_t)width, cut, newline.s));
    }
    return jbuild_finish(&b);
}

static struct jv filter_strip_tags(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    JV_TRY(text, jv_to_string(r, self));
    struct jbuild b;
    jbuild_init(&b, r, text.s->len);
    struct str s = jstr_str(text.s);
    for (size_t at = 0; at < s.len && !b.failed;) {
        bool comment = str_starts(str_slice(s, at, s.len), STR("<!--"));
        size_t end = s.ptr[at] != '<' ? STR_NONE
                     : comment        ? str_find(s, STR("-->"), at)
                                      : str_find(s, STR(">"), at);
        if (end != STR_NONE) {
            at = end + (comment ? 3 : 1);
            continue;
        }
        jbuild_add(&b, text.s, at, at + 1);
        at++;
    }
    JV_TRY(bare, jbuild_finish(&b));
    JV_TRY(words, jtext_words(r, bare.s));
    jbuild_init(&b, r, bare.s->len);
    for (size_t i = 0; i < words.list->n && !b.failed; i++) {
        if (i)
            jbuild_puts(&b, " ", false);
        jbuild_str(&b, words.list->items[i].s);
    }
    JV_TRY(plain, jbuild_finish(&b));
    static const char *const entities[][2] = { { "&lt;", "<" }, { "&gt;", ">" }, { "&#34;", "\"" },
                                               { "&quot;", "\"" }, { "&#39;", "'" },
                                               { "&amp;", "&" } };
    for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
        JV_TRY(from, jv_literal(r, entities[i][0]));
        JV_TRY(to, jv_literal(r, entities[i][1]));
        plain = jtext_replace(r, plain.s, from.s, to.s, -1);
        if (JV_IS_FAILURE(plain))
            return plain;
    }
    return plain;
}

static struct jv filter_format(struct jinja *r, struct jv self, const struct jargs *args)
{
    JV_TRY(text, jv_to_string(r, self));
    if (args->n && args->n_named)
        return jv_fail(r, JINJA_FAILURE_VALUE,
                       "can't handle positional and keyword arguments at the same time");
    if (args->n_named) {
        struct jdict *d = jdict_new(r, args->n_named);
        for (size_t i = 0; d && i < args->n_named; i++)
            (void)jdict_set(r, d, jv_of_str(args->names[i]), args->named[i]);
        return d ? jformat_percent(r, text.s, (struct jv){ .kind = JV_DICT, .dict = d })
                 : jv_no_memory(r);
    }
    struct jlist *l = jlist_new(r, args->n);
    for (size_t i = 0; l && i < args->n; i++)
        l->items[l->n++] = args->positional[i];
    return l ? jformat_percent(r, text.s, (struct jv){ .kind = JV_TUPLE, .list = l })
             : jv_no_memory(r);
}

static void put_url(struct jbuild *b, const struct jstr *s, bool query)
{
    for (size_t i = 0; i < s->len && !b->failed; i++) {
        unsigned char c = (unsigned char)s->ptr[i];
        size_t until;
        bool is_value = jstr_value_at(s, i, &until);
        bool plain = c < 0x80 && (junicode_is_alpha(c) || junicode_is_decimal(c) ||
                                  (c && strchr(query ? "_.-~" : "_.-~/", c)));
        char text[4];
        (void)snprintf(text, sizeof text, plain ? "%c" : query && c == ' ' ? "+" : "%%%02X", c);
        jbuild_puts(b, text, is_value);
    }
}

static struct jv put_pair(struct jinja *r, struct jbuild *b, struct jv key, struct jv value)
{
    JV_TRY(name, jv_to_string(r, key));
    JV_TRY(text, jv_to_string(r, value));
    if (b->len)
        jbuild_puts(b, "&", false);
    put_url(b, name.s, true);
    jbuild_puts(b, "=", false);
    put_url(b, text.s, true);
    return jv_none();
}

static struct jv filter_url_encode(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    struct jbuild b;
    jbuild_init(&b, r, 0);
    if (self.kind == JV_STRING || !jv_is_iterable(self)) {
        JV_TRY(text, jv_to_string(r, self));
        put_url(&b, text.s, false);
        return jbuild_finish(&b);
    }
    if (self.kind == JV_DICT)
        self.kind = JV_ITEMS;
    struct jiter it;
    struct jv pair;
    JV_TRY(started, jiter_init(r, &it, self));
    while (jiter_next(r, &it, &pair)) {
        JV_TRY(list, jv_list_of(r, pair));
        if (list.list->n != 2)
            return jv_fail(r, JINJA_FAILURE_VALUE, "urlencode: expected pairs, got %zu values",
                           list.list->n);
        JV_TRY(put, put_pair(r, &b, list.list->items[0], list.list->items[1]));
    }
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jbuild_finish(&b);
}

static struct jv filter_xml_attr(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jbuild b;
    bool space = !jarg_given(arg[0]) || jv_truth(arg[0]);
    if (self.kind != JV_DICT)
        return jv_fail(r, JINJA_FAILURE_VALUE, "xmlattr: expected a mapping, got %s",
                       jv_type_name(self));
    jbuild_init(&b, r, 0);
    for (size_t i = 0; i < self.dict->n && !b.failed; i++) {
        struct jentry e = self.dict->entries[i];
        if (e.value.kind == JV_NONE || e.value.kind == JV_UNDEFINED)
            continue;
        JV_TRY(key, jv_to_string(r, e.key));
        for (size_t k = 0; k < key.s->len; k++)
            if (strchr(" \t\n\r\f\v/>=", key.s->ptr[k]))
                return jv_fail(r, JINJA_FAILURE_VALUE,
                               "Invalid character in attribute name: '%.*s'",
                               STR_ARG(jstr_str(key.s)));
        JV_TRY(name, jtext_escape(r, key.s));
        JV_TRY(text, jv_to_string(r, e.value));
        JV_TRY(value, text.s->markup ? text : jtext_escape(r, text.s));
        if (b.len || space)
            jbuild_puts(&b, " ", false);
        jbuild_str(&b, name.s);
        jbuild_puts(&b, "=\"", false);
        jbuild_str(&b, value.s);
        jbuild_puts(&b, "\"", false);
    }
    return jbuild_finish(&b);
}

static struct jv filter_pprint(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    struct jbuild b;
    jbuild_init(&b, r, 0);
    jformat_repr(&b, self, false);
    return jbuild_finish(&b);
}

/* Whether the word would become a link: a host name with a top-level domain behind a scheme. */
static bool is_link(struct str word)
{
    size_t at = str_starts(word, STR("http://"))    ? 7
                : str_starts(word, STR("https://")) ? 8
                : str_starts(word, STR("www."))     ? 4
                                                    : 0;
    size_t label = 0;
    if (at == 0)
        return str_starts(word, STR("mailto:")) || str_find(word, STR("@"), 1) != STR_NONE;
    for (; at < word.len; at++) {
        char c = word.ptr[at];
        if (c == '.')
            label = 0;
        else if (junicode_is_alpha((unsigned char)c) || junicode_is_decimal((unsigned char)c) ||
                 c == '-' || c == '_')
            label++;
        else
            break;
    }
    return label >= 2;
}

static struct jv filter_urlize(struct jinja *r, struct jv self, const struct jargs *args)
{
    (void)args;
    JV_TRY(text, jv_to_string(r, self));
    JV_TRY(words, jtext_words(r, text.s));
    for (size_t i = 0; i < words.list->n; i++)
        if (is_link(jstr_str(words.list->items[i].s)))
            return jv_fail(r, JINJA_FAILURE_VALUE, "urlize of text with links is not supported");
    JV_TRY(escaped, jtext_escape(r, text.s));
    escaped.s->markup = false;
    return escaped;
}

static struct jv filter_from_json(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return jinja_parse_json(r, self);
}

#define SIMPLE(filter_name, function) { .name = filter_name, .run = function }

static const struct jinja_callable filters[] = {
    SIMPLE("abs", filter_abs),
    { .name = "attr", .run = filter_attr, .n_required = 1, .parameters = { "name" } },
    { .name = "batch", .run = filter_batch, .n_required = 1,
      .parameters = { "linecount", "fill_with" } },
    SIMPLE("capitalize", filter_capitalize),
    { .name = "center", .run = filter_center, .parameters = { "width" } },
    SIMPLE("count", filter_length),
    { .name = "d", .run = filter_default, .parameters = { "default_value", "boolean" } },
    { .name = "default", .run = filter_default, .parameters = { "default_value", "boolean" } },
    { .name = "dictsort", .run = filter_dict_sort,
      .parameters = { "case_sensitive", "by", "reverse" } },
    SIMPLE("e", filter_escape),
    SIMPLE("escape", filter_escape),
    { .name = "filesizeformat", .run = filter_file_size, .parameters = { "binary" } },
    SIMPLE("first", filter_first),
    { .name = "float", .run = filter_float, .parameters = { "default" } },
    SIMPLE("forceescape", filter_force_escape),
    { .name = "format", .run_all = filter_format },
    SIMPLE("from_json", filter_from_json),
    { .name = "groupby", .run = filter_group_by, .n_required = 1,
      .parameters = { "attribute", "default", "case_sensitive" } },
    { .name = "indent", .run = filter_indent, .parameters = { "width", "first", "blank" } },
    { .name = "int", .run = filter_int, .parameters = { "default", "base" } },
    SIMPLE("items", filter_items),
    { .name = "join", .run = filter_join, .parameters = { "d", "attribute" } },
    SIMPLE("last", filter_last),
    SIMPLE("length", filter_length),
    SIMPLE("list", filter_list),
    SIMPLE("lower", filter_lower),
    { .name = "map", .run_all = filter_map },
    { .name = "max", .run = filter_max, .parameters = { "case_sensitive", "attribute" } },
    { .name = "min", .run = filter_min, .parameters = { "case_sensitive", "attribute" } },
    SIMPLE("pprint", filter_pprint),
    SIMPLE("random", filter_random),
    { .name = "reject", .run_all = filter_reject },
    { .name = "rejectattr", .run_all = filter_reject_attr },
    { .name = "replace", .run = filter_replace, .n_required = 2,
      .parameters = { "old", "new", "count" } },
    SIMPLE("reverse", filter_reverse),
    { .name = "round", .run = filter_round, .parameters = { "precision", "method" } },
    SIMPLE("safe", filter_safe),
    { .name = "select", .run_all = filter_select },
    { .name = "selectattr", .run_all = filter_select_attr },
    { .name = "slice", .run = filter_slice, .n_required = 1,
      .parameters = { "slices", "fill_with" } },
    { .name = "sort", .run = filter_sort,
      .parameters = { "reverse", "case_sensitive", "attribute" } },
    SIMPLE("string", filter_string),
    SIMPLE("striptags", filter_strip_tags),
    { .name = "sum", .run = filter_sum, .parameters = { "attribute", "start" } },
    SIMPLE("title", filter_title),
    { .name = "tojson", .run = jinja_to_json,
      .parameters = { "ensure_ascii", "indent", "separators", "sort_keys" } },
    { .name = "trim", .run = filter_trim, .parameters = { "chars" } },
    { .name = "truncate", .run = filter_truncate,
      .parameters = { "length", "killwords", "end", "leeway" } },
    { .name = "unique", .run = filter_unique, .parameters = { "case_sensitive", "attribute" } },
    SIMPLE("upper", filter_upper),
    SIMPLE("urlencode", filter_url_encode),
    { .name = "urlize", .run_all = filter_urlize },
    SIMPLE("wordcount", filter_word_count),
    { .name = "wordwrap", .run = filter_word_wrap,
      .parameters = { "width", "break_long_words", "wrapstring", "break_on_hyphens" } },
    { .name = "xmlattr", .run = filter_xml_attr, .parameters = { "autospace" } },
};

const struct jinja_callable *jinja_filter_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
        if (str_is(name, filters[i].name))
            return &filters[i];
    return NULL;
}
