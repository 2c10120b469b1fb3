/* Any text through a small byte-level tokenizer that has all 256 bytes: decoding the ids gives the
 * text back, spans never let a control token through, and a list of random ids decodes to valid
 * UTF-8 whether at once or as a stream. */
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template/jinja.h"
#include "text/tokenizer/tokenizer_spec.h"
#include "text/tokenizer/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_BYTES = 256, N_PIECES = 262 };

static struct tokenizer *make(void)
{
    static char letters[N_BYTES][4];
    static struct str tokens[N_PIECES];
    static const struct str merges[] = { { "t h", 3 }, { "th e", 4 }, { "a a", 3 },
                                         { "aa aa", 5 } };
    static const struct added_token added[] = { { .text = { "<s>", 3 }, .id = 260,
                                                  .control = true },
                                                { .text = { "<t>", 3 }, .id = 261 } };
    for (unsigned b = 0; b < N_BYTES; b++)
        tokens[b] = (struct str){ letters[b], byte_alphabet_encode((uint8_t)b, letters[b]) };
    tokens[256] = STR("th");
    tokens[257] = STR("the");
    tokens[258] = STR("aa");
    tokens[259] = STR("aaaa");
    tokens[260] = added[0].text;
    tokens[261] = added[1].text;
    struct tokenizer_spec spec;
    tokenizer_spec_init(&spec);
    spec.tokens = tokens;
    spec.n_tokens = N_PIECES;
    spec.merges = merges;
    spec.n_merges = sizeof merges / sizeof *merges;
    spec.added = added;
    spec.n_added = 2;
    const struct pretokenizer_name *names = pretokenizer_find(STR("gpt-4o"));
    spec.split_steps = names->steps;
    spec.n_split_steps = names->n_steps;
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_new(&spec, &t, &err) != STATUS_OK)
        __builtin_trap();
    return t;
}

static void check_round_trip(const struct tokenizer *t, struct str text, unsigned flags)
{
    struct error err;
    struct token_list ids = { 0 };
    struct strbuf back;
    strbuf_init(&back, 1 << 24);
    if (tokenizer_encode(t, text, flags, &ids, &err) != STATUS_OK ||
        tokenizer_decode(t, ids.ids, ids.n, &back, &err) != STATUS_OK ||
        !str_eq(strbuf_str(&back), text))
        __builtin_trap();
    struct jinja_span all = { 0, text.len };
    ids.n = 0;
    if (tokenizer_encode_spans(t, text, &all, text.len > 0, 0, &ids, &err) != STATUS_OK)
        __builtin_trap();
    for (size_t i = 0; i < ids.n; i++)
        if (ids.ids[i] >= 260)
            __builtin_trap();
    strbuf_release(&back);
    token_list_release(&ids);
}

static void check_stream(const struct tokenizer *t, const uint8_t *data, size_t size)
{
    struct strbuf whole, stream;
    struct detokenizer d;
    struct error err;
    struct token_list ids = { 0 };
    strbuf_init(&whole, 1 << 24);
    strbuf_init(&stream, 1 << 24);
    detokenizer_init(&d, t, true, false);
    for (size_t i = 0; i < size; i++) {
        token_list_add(&ids, data[i]);
        detokenizer_push(&d, data[i], &stream);
        if (!utf8_valid(strbuf_str(&stream)))
            __builtin_trap();
    }
    detokenizer_flush(&d, &stream);
    if (tokenizer_decode(t, ids.ids, ids.n, &whole, &err) != STATUS_OK ||
        !str_eq(strbuf_str(&whole), strbuf_str(&stream)))
        __builtin_trap();
    /* The stream must equal the repair of all bytes. */
    struct strbuf bytes, repaired;
    strbuf_init(&bytes, 1 << 24);
    strbuf_init(&repaired, 1 << 24);
    for (size_t i = 0; i < size; i++)
        strbuf_add(&bytes, tokenizer_bytes(t, data[i]));
    utf8_repair(&repaired, strbuf_str(&bytes));
    if (!str_eq(strbuf_str(&repaired), strbuf_str(&whole)))
        __builtin_trap();
    strbuf_release(&bytes);
    strbuf_release(&repaired);
    strbuf_release(&whole);
    strbuf_release(&stream);
    token_list_release(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *t;
    if (!t)
        t = make();
    struct strbuf text;
    strbuf_init(&text, 1 << 24);
    utf8_repair(&text, (struct str){ (const char *)data, size });
    check_round_trip(t, strbuf_str(&text), 0);
    check_round_trip(t, strbuf_str(&text), TOKENIZER_PARSE_SPECIAL);
    check_stream(t, data, size);
    strbuf_release(&text);
    return 0;
}
