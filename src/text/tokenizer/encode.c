/* From text to ids: added tokens, normalization, splitting, pieces. */
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

struct encoder {
    const struct tokenizer *t;
    struct tokenizer_scratch *scratch;
    struct added_query query;
    bool no_nfc;
    struct token_list *out;
    struct error *err;
};

static enum status take_piece(void *user, struct str piece, struct error *err)
{
    struct encoder *e = user;
    (void)err;
    bool values = e->query.from_template && !e->query.parse_control;
    tokenizer_encode_piece(e->t, e->scratch, piece, values, e->out);
    return STATUS_OK;
}

static enum status encode_plain(struct encoder *e, size_t from, size_t to)
{
    if (from == to)
        return STATUS_OK;
    struct str text = normalizer_run(&e->t->normalizer, str_slice(e->query.text, from, to),
                                     from == 0, e->no_nfc, e->scratch->normalized);
    return pretokenizer_split(&e->t->split, &e->scratch->split, text, take_piece, e, e->err);
}

/* Cuts the added tokens of a round out; what is left goes to the next round. */
static enum status encode_round(struct encoder *e, unsigned round, size_t from, size_t to)
{
    if (round == 2)
        return encode_plain(e, from, to);
    struct added_match match;
    while (from < to && added_tokens_next(&e->t->added, round, &e->query, from, to, &match)) {
        TRY(encode_round(e, round + 1, from, match.from));
        token_list_add(e->out, match.id);
        from = match.to;
    }
    return encode_round(e, round + 1, from, to);
}

/* Takes our prefix away again where the text brings its own. */
static void drop_double_prefix(const struct tokenizer *t, struct token_list *out, size_t base)
{
    size_t n = t->prefix.n;
    if (n == 0 || out->n - base < 2 * n ||
        memcmp(out->ids + base, out->ids + base + n, n * sizeof *out->ids) != 0)
        return;
    memmove(out->ids + base, out->ids + base + n, (out->n - base - n) * sizeof *out->ids);
    out->n -= n;
}

static enum status encode(const struct tokenizer *t, const struct added_query *query,
                          unsigned flags, struct token_list *out, struct error *err)
{
    if (query->text.len > TOKENIZER_MAX_TEXT)
        return error_set(err, STATUS_LIMIT, "tokenizer: a text of %zu bytes, at most %zu",
                         query->text.len, TOKENIZER_MAX_TEXT);
    if (!utf8_valid(query->text))
        return error_set(err, STATUS_INVALID, "tokenizer: the text is not valid UTF-8");
    size_t base = out->n;
    if (flags & TOKENIZER_ADD_SPECIAL)
        for (size_t i = 0; i < t->prefix.n; i++)
            token_list_add(out, t->prefix.ids[i]);
    struct encoder e = { .t = t,
                         .scratch = tokenizer_take_scratch(t),
                         .query = *query,
                         .no_nfc = flags & TOKENIZER_NO_NFC,
                         .out = out,
                         .err = err };
    enum status s = encode_round(&e, 0, 0, query->text.len);
    tokenizer_put_scratch(t, e.scratch);
    if (s != STATUS_OK) {
        out->n = base;
        return s;
    }
    if (flags & TOKENIZER_ADD_SPECIAL) {
        drop_double_prefix(t, out, base);
        for (size_t i = 0; i < t->suffix.n; i++)
            token_list_add(out, t->suffix.ids[i]);
    }
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *t, struct str text, unsigned flags,
                             struct token_list *out, struct error *err)
{
    struct added_query query = { .text = text, .parse_control = flags & TOKENIZER_PARSE_SPECIAL };
    return encode(t, &query, flags, out, err);
}

enum status tokenizer_encode_spans(const struct tokenizer *t, struct str text,
                                   const struct jinja_span *spans, size_t n_spans, unsigned flags,
                                   struct token_list *out, struct error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < n_spans; i++) {
        if (spans[i].from < at || spans[i].to < spans[i].from || spans[i].to > text.len)
            return error_set(err, STATUS_INVALID,
                             "tokenizer: span %zu is [%zu, %zu), the text has %zu bytes", i,
                             spans[i].from, spans[i].to, text.len);
        at = spans[i].to;
    }
    struct added_query query = { .text = text,
                                 .parse_control = flags & TOKENIZER_PARSE_SPECIAL,
                                 .from_template = true,
                                 .spans = spans,
                                 .n_spans = n_spans };
    return encode(t, &query, flags, out, err);
}
