/* A piece of text to ids, by each of the four models. */
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

static size_t character_length(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* Unknown text: its bytes where all have tokens, else the unknown token, else nothing. */
static void add_unknown(const struct tokenizer *t, struct str text, bool fuse,
                        struct token_list *out, size_t base)
{
    bool all = t->byte_fallback;
    for (size_t i = 0; i < text.len && all; i++)
        all = t->byte_ids[(uint8_t)text.ptr[i]] != TOKEN_NONE;
    if (all) {
        for (size_t i = 0; i < text.len; i++)
            token_list_add(out, t->byte_ids[(uint8_t)text.ptr[i]]);
        return;
    }
    int32_t unknown = t->roles[TOKEN_ROLE_UNKNOWN];
    if (unknown == TOKEN_NONE || (fuse && out->n > base && out->ids[out->n - 1] == unknown))
        return;
    token_list_add(out, unknown);
}

static void encode_unigram(const struct tokenizer *t, struct tokenizer_scratch *s, struct str piece,
                           bool values, struct token_list *out)
{
    size_t base = out->n;
    unigram_run(&t->unigram, &t->vocab, &s->unigram, piece, values);
    const struct unigram_node *nodes = s->unigram.nodes;
    for (size_t at = 0; at < piece.len;) {
        size_t end = nodes[at].from;
        if (nodes[at].id != TOKEN_NONE) {
            token_list_add(out, nodes[at].id);
        } else {
            while (end < piece.len && nodes[end].id == TOKEN_NONE)
                end = nodes[end].from;
            add_unknown(t, str_slice(piece, at, end), true, out, base);
        }
        at = end;
    }
}

static void add_byte_symbols(const struct tokenizer *t, struct merger *m, struct str piece)
{
    int32_t unknown = t->roles[TOKEN_ROLE_UNKNOWN];
    bool after_unknown = false;
    for (size_t i = 0; i < piece.len; i++) {
        int32_t id = t->byte_ids[(uint8_t)piece.ptr[i]];
        bool known = id != TOKEN_NONE;
        if (known)
            merger_add(m, id);
        else if (unknown != TOKEN_NONE && !(t->fuse_unknown && after_unknown))
            merger_add(m, unknown);
        after_unknown = !known;
    }
}

/* A character that has no piece becomes byte tokens, which nothing is joined to. */
static void add_character_symbols(const struct tokenizer *t, struct merger *m, struct str piece)
{
    int32_t unknown = t->roles[TOKEN_ROLE_UNKNOWN];
    bool after_unknown = false;
    for (size_t i = 0; i < piece.len;) {
        size_t n = MIN(character_length((uint8_t)piece.ptr[i]), piece.len - i);
        struct str character = str_slice(piece, i, i + n);
        int32_t id = n == 1 ? t->ascii_ids[(uint8_t)piece.ptr[i] & 0x7F]
                            : vocab_find(&t->vocab, character);
        bool bytes = id == TOKEN_NONE && t->byte_fallback;
        for (size_t k = i; k < i + n && bytes; k++)
            bytes = t->byte_ids[(uint8_t)piece.ptr[k]] != TOKEN_NONE;
        if (id != TOKEN_NONE)
            merger_add(m, id);
        else if (bytes)
            for (size_t k = i; k < i + n; k++)
                merger_add(m, t->byte_ids[(uint8_t)piece.ptr[k]]);
        else if (unknown != TOKEN_NONE && !(t->fuse_unknown && after_unknown))
            merger_add(m, unknown);
        after_unknown = id == TOKEN_NONE && !bytes;
        i += n;
    }
}

static void encode_merged(const struct tokenizer *t, struct tokenizer_scratch *s, struct str piece,
                          struct token_list *out)
{
    struct merge_rules rules = { t->kind == TOKENIZER_BPE_SCORES ? NULL : &t->merges, &t->vocab };
    merger_clear(&s->merger);
    merger_reserve(&s->merger, piece.len);
    if (t->kind == TOKENIZER_BPE_BYTES)
        add_byte_symbols(t, &s->merger, piece);
    else
        add_character_symbols(t, &s->merger, piece);
    merger_run(&s->merger, &rules);
    for (size_t i = 0; i < s->merger.n; i++)
        token_list_add(out, s->merger.symbols[i].id);
}

/* ignore_merges: the token that a whole piece is, if any. */
static int32_t find_whole(const struct tokenizer *t, struct tokenizer_scratch *s, struct str piece)
{
    if (piece.len > t->vocab.max_len)
        return TOKEN_NONE;
    struct str text = piece;
    if (t->kind == TOKENIZER_BPE_BYTES) {
        struct text_buffer *b = &s->spelled;
        b->len = 0;
        for (size_t i = 0; i < piece.len; i++) {
            const struct alphabet_entry *a = &t->alphabet[(uint8_t)piece.ptr[i]];
            text_buffer_add(b, a->bytes, a->n);
        }
        text = (struct str){ b->ptr, b->len };
    }
    int32_t id = vocab_find(&t->vocab, text);
    return id != TOKEN_NONE && t->vocab.types[id] == TOKEN_NORMAL ? id : TOKEN_NONE;
}

static void encode_chunk(const struct tokenizer *t, struct tokenizer_scratch *s, struct str piece,
                         bool values, struct token_list *out)
{
    uint64_t hash = 0;
    struct piece_entry *entry = piece_cache_entry(&s->cache, piece, &hash);
    if (entry && piece_entry_holds(entry, hash, piece, values)) {
        for (unsigned i = 0; i < entry->n_ids; i++)
            token_list_add(out, entry->ids[i]);
        return;
    }
    size_t from = out->n;
    int32_t whole = t->ignore_merges ? find_whole(t, s, piece) : TOKEN_NONE;
    if (whole != TOKEN_NONE)
        token_list_add(out, whole);
    else if (t->kind == TOKENIZER_UNIGRAM)
        encode_unigram(t, s, piece, values, out);
    else
        encode_merged(t, s, piece, out);
    if (entry)
        piece_entry_store(entry, hash, piece, values, out, from);
}

/* Two chunks that are unknown on both sides of their boundary count as one unknown run. */
static void fuse_boundary(const struct tokenizer *t, struct token_list *out, size_t start,
                          size_t boundary)
{
    int32_t unknown = t->roles[TOKEN_ROLE_UNKNOWN];
    if (unknown == TOKEN_NONE || boundary == start || boundary == out->n ||
        out->ids[boundary - 1] != unknown || out->ids[boundary] != unknown)
        return;
    memmove(out->ids + boundary, out->ids + boundary + 1,
            (out->n - boundary - 1) * sizeof *out->ids);
    out->n--;
}

void tokenizer_encode_piece(const struct tokenizer *t, struct tokenizer_scratch *s,
                            struct str piece, bool values, struct token_list *out)
{
    if (!tokenizer_splits_by_bigrams(t)) {
        encode_chunk(t, s, piece, values, out);
        return;
    }
    size_t start = out->n;
    while (piece.len) {
        size_t n = bigram_set_chunk(&t->bigrams, piece), boundary = out->n;
        encode_chunk(t, s, str_slice(piece, 0, n), values, out);
        if (t->fuse_unknown || t->kind == TOKENIZER_UNIGRAM)
            fuse_boundary(t, out, start, boundary);
        piece = str_slice(piece, n, piece.len);
    }
}
