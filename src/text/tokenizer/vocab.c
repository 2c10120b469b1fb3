#include "text/tokenizer/vocab.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

/* Printable Latin-1 stands for itself, the other 68 bytes are U+0100 and up in their order. */
static bool stands_for_itself(uint32_t b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

static uint32_t alphabet_code_point(uint8_t byte)
{
    if (stands_for_itself(byte))
        return byte;
    uint32_t n = 0;
    for (uint32_t b = 0; b < byte; b++)
        n += !stands_for_itself(b);
    return 0x100 + n;
}

size_t byte_alphabet_encode(uint8_t byte, char out[4])
{
    return utf8_encode_one(alphabet_code_point(byte), out);
}

#define ALPHABET_SIZE (0x100 + 68)

/* Undoes the alphabet. 0 if a character is not part of it. */
static size_t alphabet_decode(const int16_t table[ALPHABET_SIZE], struct str text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        uint32_t c = (uint8_t)text.ptr[i];
        if (c < 0x80) {
            i++;
        } else if ((c & 0xFC) == 0xC4 || (c & 0xFC) == 0xC0) { /* U+0080 to U+01FF */
            if (i + 1 >= text.len || ((uint8_t)text.ptr[i + 1] & 0xC0) != 0x80)
                return 0;
            c = (c & 0x1F) << 6 | ((uint8_t)text.ptr[i + 1] & 0x3F);
            i += 2;
        } else {
            return 0;
        }
        if (c >= ALPHABET_SIZE || table[c] < 0)
            return 0;
        out[n++] = (char)table[c];
    }
    return n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* The NN of <0xNN>, or -1. */
static int byte_token_value(struct str text)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>')
        return -1;
    int high = hex_digit(text.ptr[3]), low = hex_digit(text.ptr[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static size_t meta_space_decode(struct str text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        const char *p = text.ptr + i;
        if (*p == '\xE2' && text.len - i >= 3 && p[1] == '\x96' && p[2] == '\x81') {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = *p;
            i++;
        }
    }
    return n;
}

/* No byte string is longer than its spelling, so one buffer of the same size is enough. */
static void decode_bytes(struct vocab *v, const struct tokenizer_spec *spec)
{
    int16_t table[ALPHABET_SIZE];
    for (size_t i = 0; i < ALPHABET_SIZE; i++)
        table[i] = -1;
    for (unsigned b = 0; b < 256; b++)
        table[alphabet_code_point((uint8_t)b)] = (int16_t)b;

    uint32_t at = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        struct str text = vocab_text(v, (int32_t)id);
        char *out = v->bytes + at;
        size_t n = 0;
        bool added = v->types[id] == TOKEN_CONTROL || v->types[id] == TOKEN_USER_DEFINED;
        if (v->types[id] == TOKEN_BYTE && byte_token_value(text) >= 0) {
            out[0] = (char)byte_token_value(text);
            n = 1;
        } else if (spec->kind == TOKENIZER_BPE_BYTES && !added) {
            n = alphabet_decode(table, text, out);
        } else if (spec->meta_space && memchr(text.ptr, 0xE2, text.len)) {
            n = meta_space_decode(text, out);
        }
        if (n == 0 && text.len) {
            memcpy(out, text.ptr, text.len);
            n = text.len;
        }
        v->bytes_at[id] = at;
        at += (uint32_t)n;
    }
    v->bytes_at[v->n] = at;
}

static void copy_types(struct vocab *v, const struct tokenizer_spec *spec)
{
    v->types = mem_alloc(v->n);
    for (uint32_t id = 0; id < v->n; id++) {
        uint8_t type = spec->types ? spec->types[id] : TOKEN_NORMAL;
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            type = TOKEN_NORMAL;
        if (!spec->types && spec->byte_fallback && byte_token_value(spec->tokens[id]) >= 0)
            type = TOKEN_BYTE;
        v->types[id] = type;
    }
    for (size_t i = 0; i < spec->n_added && !spec->types; i++) {
        const struct added_token *a = &spec->added[i];
        v->types[a->id] = a->control ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    }
}

/* A spelling that occurs twice keeps its first id. */
static void insert_all(struct vocab *v)
{
    enum { BATCH = 16 };
    uint64_t hashes[BATCH];
    for (uint32_t from = 0; from < v->n; from += BATCH) {
        uint32_t n = MIN(v->n - from, (uint32_t)BATCH);
        for (uint32_t i = 0; i < n; i++) {
            hashes[i] = vocab_hash(v, vocab_text(v, (int32_t)(from + i)));
            __builtin_prefetch(&v->slots[hashes[i] & v->mask], 1);
        }
        if (v->hashes)
            memcpy(v->hashes + from, hashes, n * sizeof *hashes);
        for (uint32_t i = 0; i < n; i++) {
            struct str text = vocab_text(v, (int32_t)(from + i));
            size_t at = hashes[i] & v->mask;
            uint32_t tag = (uint32_t)(hashes[i] >> 32);
            while (v->slots[at].id != TOKEN_NONE &&
                   !(v->slots[at].tag == tag && str_eq(vocab_text(v, v->slots[at].id), text)))
                at = (at + 1) & v->mask;
            if (v->slots[at].id == TOKEN_NONE)
                v->slots[at] = (struct vocab_slot){ tag, (int32_t)(from + i) };
        }
    }
}

enum status vocab_init(struct vocab *v, const struct tokenizer_spec *spec, struct error *err)
{
    if (spec->n_tokens == 0)
        return error_set(err, STATUS_INVALID, "tokenizer: the vocabulary is empty");
    if (spec->n_tokens > TOKENIZER_MAX_TOKENS)
        return error_set(err, STATUS_LIMIT, "tokenizer: %zu tokens, at most %zu are supported",
                         spec->n_tokens, TOKENIZER_MAX_TOKENS);
    size_t total = 0;
    for (size_t i = 0; i < spec->n_tokens; i++) {
        total += spec->tokens[i].len;
        if (spec->tokens[i].len > UINT16_MAX || total > UINT32_MAX / 2)
            return error_set(err, STATUS_LIMIT,
                             "tokenizer: token %zu has %zu bytes (at most %d), all up to it %zu",
                             i, spec->tokens[i].len, UINT16_MAX, total);
        v->max_len = MAX(v->max_len, (uint32_t)spec->tokens[i].len);
    }
    for (size_t i = 0; i < spec->n_added; i++)
        if (spec->added[i].id < 0 || (size_t)spec->added[i].id >= spec->n_tokens)
            return error_set(err, STATUS_INVALID,
                             "tokenizer: added token \"%.*s\" has id %d, the vocabulary %zu tokens",
                             STR_ARG(spec->added[i].text), spec->added[i].id, spec->n_tokens);
    v->n = (uint32_t)spec->n_tokens;
    v->key = token_hash_key();
    v->text = mem_alloc(total);
    v->bytes = mem_alloc(total);
    v->text_at = mem_alloc((v->n + 1) * sizeof *v->text_at);
    v->bytes_at = mem_alloc((v->n + 1) * sizeof *v->bytes_at);
    uint32_t at = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        v->text_at[id] = at;
        if (spec->tokens[id].len)
            memcpy(v->text + at, spec->tokens[id].ptr, spec->tokens[id].len);
        at += (uint32_t)spec->tokens[id].len;
    }
    v->text_at[v->n] = at;
    if (spec->scores)
        v->scores = mem_copy(spec->scores, v->n * sizeof *v->scores);
    if (spec->kind == TOKENIZER_BPE_BYTES || spec->kind == TOKENIZER_BPE_CHARS)
        v->hashes = mem_alloc(v->n * sizeof *v->hashes);
    copy_types(v, spec);
    decode_bytes(v, spec);

    size_t n_slots = 16;
    while (n_slots < (size_t)v->n * 2)
        n_slots *= 2;
    v->mask = n_slots - 1;
    v->slots = mem_alloc(n_slots * sizeof *v->slots);
    memset(v->slots, 0xFF, n_slots * sizeof *v->slots);
    insert_all(v);
    return STATUS_OK;
}

void vocab_release(struct vocab *v)
{
    mem_free(v->text);
    mem_free(v->bytes);
    mem_free(v->text_at);
    mem_free(v->bytes_at);
    mem_free(v->types);
    mem_free(v->scores);
    mem_free(v->hashes);
    mem_free(v->slots);
    *v = (struct vocab){ 0 };
}

int32_t vocab_find_byte(const struct vocab *v, uint8_t byte, bool alphabet)
{
    char text[8];
    if (alphabet)
        return vocab_find(v, (struct str){ text, byte_alphabet_encode(byte, text) });
    snprintf(text, sizeof text, "<0x%02X>", byte);
    int32_t id = vocab_find(v, str_of(text));
    return id != TOKEN_NONE && v->types[id] == TOKEN_BYTE ? id : TOKEN_NONE;
}
