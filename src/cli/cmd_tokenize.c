#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/prompt_input.h"
#include "engine/load_tokenizer.h"

#define MAX_OUTPUT ((size_t)4 << 30)

static const struct option rows[] = {
    OPT_TEXT("--text", "TEXT", NULL, "the text"),
    OPT_TEXT("--file -f", "FILE", NULL, "read the text from this file; - is standard input"),
    OPT_FLAG("--ids", "off", "print the ids on one line (the default)"),
    OPT_FLAG("--pieces", "off", "print one token per line: id and text"),
    OPT_FLAG("--plain", "off", "spellings of special tokens are text"),
    OPT_FLAG("--special", "on", "what belongs around a text (BOS, EOS)"),
    OPT_FLAG("--nfc", "on", "Unicode normalization, where the tokenizer asks for it"),
    OPT_FLAG("--json", "off", "print a JSON array of ids, or of {id, piece} with --pieces"),
};
static const struct option_group tokenize_options = OPTION_GROUP("tokenize", "Tokenize", rows);

static void print_ids(const struct token_list *ids)
{
    struct strbuf line;
    strbuf_init(&line, MAX_OUTPUT);
    for (size_t i = 0; i < ids->n; i++)
        strbuf_printf(&line, i ? " %d" : "%d", ids->ids[i]);
    strbuf_putc(&line, '\n');
    cli_print(strbuf_str(&line));
    strbuf_release(&line);
}

/* The bytes of a token as text: U+FFFD for what is no whole character. */
static json_t *piece_text(const struct tokenizer *t, int32_t id)
{
    struct strbuf text;
    strbuf_init(&text, MAX_OUTPUT);
    utf8_repair(&text, tokenizer_bytes(t, id));
    json_t *value = json_stringn(text.ptr ? text.ptr : "", text.len);
    strbuf_release(&text);
    return value;
}

static void print_pieces(const struct tokenizer *t, const struct token_list *ids)
{
    struct strbuf lines;
    strbuf_init(&lines, MAX_OUTPUT);
    for (size_t i = 0; i < ids->n; i++) {
        json_t *piece = piece_text(t, ids->ids[i]);
        strbuf_printf(&lines, "%d\t", ids->ids[i]);
        json_write(&lines, piece);
        strbuf_putc(&lines, '\n');
        json_decref(piece);
    }
    cli_print(strbuf_str(&lines));
    strbuf_release(&lines);
}

static void print_json(const struct tokenizer *t, const struct token_list *ids, bool pieces)
{
    json_t *array = json_array();
    for (size_t i = 0; i < ids->n; i++) {
        json_t *id = json_integer(ids->ids[i]);
        if (pieces)
            id = json_pack("{s:o, s:o}", "id", id, "piece", piece_text(t, ids->ids[i]));
        json_array_append_new(array, id);
    }
    cli_print_json(array);
}

static enum status read_text(const struct options *o, struct strbuf *text, struct error *err)
{
    if (options_given(o, "file"))
        return prompt_read_text(options_text(o, "file"), text, err);
    utf8_repair(text, str_of(options_text(o, "text")));
    return STATUS_OK;
}

static enum status tokenize(const struct options *o, struct error *err)
{
    const char *path;
    size_t n_used;
    struct tokenizer *t = NULL;
    struct token_list ids = { 0 };
    struct strbuf text, notice;
    TRY(cli_model(o, &path, &n_used, err));
    if (options_given(o, "tokenizer"))
        path = options_text(o, "tokenizer");
    strbuf_init(&text, (size_t)2 << 30);
    strbuf_init(&notice, 65536);
    enum status s = load_tokenizer_path(path, &t, &notice, err);
    if (notice.len)
        cli_note(o, "%.*s", (int)notice.len - 1, notice.ptr);
    if (s == STATUS_OK)
        s = read_text(o, &text, err);
    unsigned flags = (options_flag(o, "plain") ? 0u : (unsigned)TOKENIZER_PARSE_SPECIAL) |
                     (options_flag(o, "special") ? (unsigned)TOKENIZER_ADD_SPECIAL : 0u) |
                     (options_flag(o, "nfc") ? 0u : (unsigned)TOKENIZER_NO_NFC);
    if (s == STATUS_OK)
        s = tokenizer_encode(t, strbuf_str(&text), flags, &ids, err);
    bool pieces = options_flag(o, "pieces");
    if (s == STATUS_OK && options_flag(o, "json"))
        print_json(t, &ids, pieces);
    else if (s == STATUS_OK && pieces)
        print_pieces(t, &ids);
    else if (s == STATUS_OK)
        print_ids(&ids);
    token_list_release(&ids);
    strbuf_release(&text);
    strbuf_release(&notice);
    tokenizer_free(t);
    return s;
}

static int run_tokenize(const struct options *o)
{
    struct error err = { 0 };
    if (options_given(o, "text") == options_given(o, "file"))
        return cli_usage("tokenize takes either --text TEXT or --file FILE");
    return tokenize(o, &err) == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static const struct option_group *const groups[] = { &tokenize_options, &model_options, NULL };

const struct cli_command cmd_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids",
    .usage = "MODEL (--text TEXT | --file FILE) [--plain] [--no-special] [--ids]",
    .groups = groups,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_tokenize,
    .example = "ingot tokenize model.gguf --text 'Hello, world' --ids",
};
