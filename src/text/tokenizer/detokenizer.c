#include "base/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, bool at_start,
                      bool skip_control)
{
    *d = (struct detokenizer){ .tokenizer = t,
                               .strip_space = at_start && t->strip_first_space,
                               .skip_control = skip_control };
}

/* The first two bytes of an encoded surrogate. They cannot become a character, but the reference
 * (CPython's incremental decoder) waits for the third before it gives them up. */
static bool is_half_surrogate(const char *p, size_t n)
{
    return n == 2 && p[0] == '\xED' && (uint8_t)p[1] >= 0xA0 && (uint8_t)p[1] <= 0xBF;
}

/* Completes the pending character with bytes of `in`, byte by byte; returns how many it took. */
static size_t finish_pending(struct detokenizer *d, struct str in, struct strbuf *out)
{
    size_t taken = 0;
    while (d->n_pending && taken < in.len) {
        d->pending[d->n_pending++] = in.ptr[taken++];
        if (is_half_surrogate(d->pending, d->n_pending))
            continue;
        uint32_t c;
        size_t n = utf8_decode(d->pending, d->n_pending, &c);
        if (c == UTF8_BAD && n == d->n_pending)
            continue;
        if (c == UTF8_BAD) { /* the last byte may begin something of its own */
            d->n_pending--;
            taken--;
        }
        utf8_repair(out, (struct str){ d->pending, d->n_pending });
        d->n_pending = 0;
    }
    return taken;
}

static void push_bytes(struct detokenizer *d, struct str in, struct strbuf *out)
{
    in = str_slice(in, finish_pending(d, in, out), in.len);
    size_t whole = utf8_complete(in);
    if (whole >= 2 && whole == in.len && is_half_surrogate(in.ptr + whole - 2, 2))
        whole -= 2;
    utf8_repair(out, str_slice(in, 0, whole));
    for (size_t i = whole; i < in.len; i++)
        d->pending[d->n_pending++] = in.ptr[i];
}

void detokenizer_push(struct detokenizer *d, int32_t id, struct strbuf *out)
{
    struct str bytes = tokenizer_bytes(d->tokenizer, id);
    if (bytes.len == 0 || (d->skip_control && tokenizer_is_control(d->tokenizer, id)))
        return;
    if (d->strip_space && bytes.ptr[0] == ' ')
        bytes = str_slice(bytes, 1, bytes.len);
    d->strip_space = false;
    push_bytes(d, bytes, out);
}

void detokenizer_flush(struct detokenizer *d, struct strbuf *out)
{
    if (d->n_pending)
        utf8_repair(out, (struct str){ d->pending, d->n_pending });
    d->n_pending = 0;
}

enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                             struct strbuf *out, struct error *err)
{
    struct detokenizer d;
    detokenizer_init(&d, t, true, false);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->vocab.n)
            return error_set(err, STATUS_INVALID, "token %d: the vocabulary has ids 0 to %u",
                             ids[i], t->vocab.n - 1);
        detokenizer_push(&d, ids[i], out);
    }
    detokenizer_flush(&d, out);
    return STATUS_OK;
}
