#include "text/tokenizer/added_tokens.h"

#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"

/* HTML that vocabularies (Gemma's) hold as added tokens: it is part of ordinary text. */
static const char *const html_elements[] = {
    "a",     "b",     "bbox", "blockquote", "body", "br",    "caption", "code",   "div",
    "em",    "footer", "h1",  "h2",         "h3",   "h4",    "h5",      "h6",     "head",
    "header", "hr",   "html", "i",          "iframe", "img", "li",      "nav",    "ol",
    "p",     "pre",   "s",    "section",    "span", "strong", "sub",    "sup",    "table",
    "tbody", "td",    "tfoot", "th",        "thead", "tr",   "u",       "ul",
};

static bool is_html(struct str name)
{
    if (name.len && name.ptr[0] == '/')
        name = str_slice(name, 1, name.len);
    for (size_t i = 0; i < ARRAY_SIZE(html_elements); i++)
        if (str_is(name, html_elements[i]))
            return true;
    return false;
}

bool added_token_is_markup(struct str text)
{
    if (text.len < 3)
        return false;
    char first = text.ptr[0], last = text.ptr[text.len - 1];
    if (first == '<' && last == '>')
        return !is_html(str_slice(text, 1, text.len - 1));
    return first == '[' && last == ']';
}

enum status added_tokens_init(struct added_tokens *a, const struct tokenizer_spec *spec,
                              struct error *err)
{
    a->rules = mem_array(struct added_rule, spec->n_added);
    a->empty[0] = a->empty[1] = true;
    byte_trie_init(&a->tries[0]);
    byte_trie_init(&a->tries[1]);
    for (size_t i = 0; i < spec->n_added; i++) {
        const struct added_token *t = &spec->added[i];
        if (t->text.len == 0)
            continue;
        /* A spelling of one byte may be followed by anything. */
        unsigned round = t->normalized, first = (unsigned)(uint8_t)t->text.ptr[0] << 8;
        for (unsigned second = 0; second < 256; second++)
            if (t->text.len == 1 || second == (uint8_t)t->text.ptr[1])
                a->starts[round][(first | second) / 64] |= (uint64_t)1 << (second % 64);
        a->rules[a->n] = (struct added_rule){ .id = t->id,
                                              .control = t->control,
                                              .markup = added_token_is_markup(t->text),
                                              .strip_left = t->strip_left,
                                              .strip_right = t->strip_right,
                                              .single_word = t->single_word };
        if (!byte_trie_insert(&a->tries[round], t->text, (int32_t)a->n))
            return error_set(err, STATUS_LIMIT, "tokenizer: the %zu added tokens are too long",
                             spec->n_added);
        a->empty[round] = false;
        a->n++;
    }
    return STATUS_OK;
}

void added_tokens_release(struct added_tokens *a)
{
    byte_trie_release(&a->tries[0]);
    byte_trie_release(&a->tries[1]);
    mem_free(a->rules);
    a->rules = NULL;
}

static bool touches_span(const struct added_query *q, size_t from, size_t to)
{
    size_t low = 0, high = q->n_spans; /* the first span that ends behind `from` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (q->spans[middle].to > from)
            high = middle;
        else
            low = middle + 1;
    }
    return low < q->n_spans && q->spans[low].from < to;
}

static bool is_allowed(const struct added_query *q, const struct added_rule *rule, size_t from,
                       size_t to)
{
    if (q->parse_control)
        return true;
    if (!q->from_template)
        return !rule->control;
    return !(rule->control || rule->markup) || !touches_span(q, from, to);
}

static uint32_t character_before(struct str text, size_t at, size_t *length)
{
    size_t from = at;
    do {
        from--;
    } while (from > 0 && at - from < 4 && ((uint8_t)text.ptr[from] & 0xC0) == 0x80);
    uint32_t c;
    *length = at - from;
    utf8_decode(text.ptr + from, at - from, &c);
    return c;
}

static bool is_word(uint32_t c)
{
    if (c == UTF8_BAD)
        return false;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

static bool is_white_space(uint32_t c)
{
    if (c <= 0x20)
        return c == 0x20 || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool stands_alone(struct str text, size_t from, size_t to)
{
    size_t length;
    uint32_t c;
    if (from > 0 && is_word(character_before(text, from, &length)))
        return false;
    if (to < text.len) {
        utf8_decode(text.ptr + to, text.len - to, &c);
        return !is_word(c);
    }
    return true;
}

static void strip_white_space(const struct added_rule *rule, struct str text, size_t lower,
                              size_t upper, struct added_match *m)
{
    while (rule->strip_left && m->from > lower) {
        size_t length;
        if (!is_white_space(character_before(text, m->from, &length)))
            break;
        m->from -= length;
    }
    while (rule->strip_right && m->to < upper) {
        uint32_t c;
        size_t length = utf8_decode(text.ptr + m->to, upper - m->to, &c);
        if (!is_white_space(c))
            break;
        m->to += length;
    }
}

/* The longest spelling that starts at `from`: -1 if there is none. With spans those that may not
 * be taken are passed over; without, as in the reference, they hide shorter ones. */
static int32_t longest_at(const struct byte_trie *trie, const struct added_tokens *a,
                          const struct added_query *q, size_t from, size_t to, size_t *end)
{
    uint32_t node = BYTE_TRIE_ROOT;
    int32_t best = -1;
    for (size_t i = from; i < to;) {
        node = byte_trie_step(trie, node, (uint8_t)q->text.ptr[i++]);
        if (node == BYTE_TRIE_NONE)
            break;
        int32_t value = trie->values[node];
        if (value >= 0 && (!q->from_template || is_allowed(q, &a->rules[value], from, i))) {
            best = value;
            *end = i;
        }
    }
    return best;
}

bool added_tokens_next(const struct added_tokens *a, unsigned round, const struct added_query *q,
                       size_t from, size_t to, struct added_match *match)
{
    if (a->empty[round])
        return false;
    const uint64_t *starts = a->starts[round];
    const uint8_t *p = (const uint8_t *)q->text.ptr;
    for (size_t i = from; i < to; i++) {
        unsigned pair = (unsigned)p[i] << 8 | (i + 1 < to ? p[i + 1] : 0u);
        if (!(starts[pair / 64] >> (pair % 64) & 1))
            continue;
        size_t end = 0;
        int32_t value = longest_at(&a->tries[round], a, q, i, to, &end);
        if (value < 0)
            continue;
        const struct added_rule *rule = &a->rules[value];
        if (!is_allowed(q, rule, i, end) ||
            (rule->single_word && !stands_alone(q->text, i, end))) {
            i = end - 1;
            continue;
        }
        *match = (struct added_match){ i, end, rule->id };
        strip_white_space(rule, q->text, from, to, match);
        return true;
    }
    return false;
}
