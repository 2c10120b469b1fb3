#include "cli/cli.h"
#include "cli/prompt_input.h"
#include "engine/load_tokenizer.h"

static const struct option rows[] = {
    OPT_TEXT("--ids", "FILE", NULL, "read whitespace-separated ids from here; - is standard input"),
    OPT_FLAG("--json", "off", "print the text as a JSON string"),
};
static const struct option_group detokenize_options =
    OPTION_GROUP("detokenize", "Detokenize", rows);

static enum status detokenize(const struct options *o, struct error *err)
{
    const char *path;
    size_t n_used;
    struct tokenizer *t = NULL;
    struct token_list ids = { 0 };
    struct strbuf text, notice;
    TRY(cli_model(o, &path, &n_used, err));
    if (options_given(o, "tokenizer"))
        path = options_text(o, "tokenizer");
    strbuf_init(&text, (size_t)4 << 30);
    strbuf_init(&notice, 65536);
    enum status s = load_tokenizer_path(path, &t, &notice, err);
    if (s == STATUS_OK)
        s = prompt_read_ids(options_text(o, "ids"), &ids, err);
    if (s == STATUS_OK)
        s = tokenizer_decode(t, ids.ids, ids.n, &text, err);
    if (s == STATUS_OK && options_flag(o, "json"))
        cli_print_json(json_stringn(text.ptr ? text.ptr : "", text.len));
    else if (s == STATUS_OK)
        cli_print(strbuf_str(&text));
    token_list_release(&ids);
    strbuf_release(&text);
    strbuf_release(&notice);
    tokenizer_free(t);
    return s;
}

static int run_detokenize(const struct options *o)
{
    struct error err = { 0 };
    if (!options_given(o, "ids"))
        return cli_usage("detokenize needs --ids FILE");
    return detokenize(o, &err) == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static const struct option_group *const groups[] = { &detokenize_options, &model_options, NULL };

const struct cli_command cmd_detokenize = {
    .name = "detokenize",
    .summary = "token ids to text, exactly, nothing added",
    .usage = "MODEL --ids FILE",
    .groups = groups,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_detokenize,
    .example = "ingot tokenize m.gguf --text hi | ingot detokenize m.gguf --ids -",
};
