#include <stdio.h>

#include "cli/cli.h"
#include "cli/engine_setup.h"
#include "cli/prompt_input.h"
#include "engine/render_prompt.h"

static const struct option rows[] = {
    OPT_TEXT("--prompt -p", "TEXT", NULL, "the user's turn, or with --raw the text to go on with"),
    OPT_TEXT("--file -f", "FILE", NULL, "the same, read from a file (-: standard input)"),
    OPT_TEXT("--messages", "FILE", NULL, "a conversation: a JSON array of messages, or an object"),
    OPT_TEXT("--tokens", "FILE", NULL, "token ids, used as they are"),
    OPT_TEXT("--system -sys", "TEXT", NULL, "the system message"),
    OPT_FLAG("--raw", "off", "no chat template: the text is the prompt"),
    OPT_FLAG("--ids", "off", "print token ids instead of text"),
    OPT_FLAG("--stream", "on", "print while the answer is written"),
    OPT_FLAG("--json", "off", "one JSON object: text, ids, usage, timings"),
};
static const struct option_group generate_options =
    OPTION_GROUP("generate", "Generate", rows);

struct output {
    const struct options *o;
    bool ids, json, stream;
    struct token_list tokens;
    struct strbuf text;
    struct event done;
};

/* A prompt comes from one place. */
static int check_inputs(const struct options *o)
{
    static const char *const names[] = { "prompt", "file", "messages", "tokens" };
    const char *found = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!options_given(o, names[i]))
            continue;
        if (found)
            return cli_usage("generate: expected one prompt, found two: --%s and --%s", found,
                             names[i]);
        found = names[i];
    }
    if (!found)
        return cli_usage("generate: expected a prompt: one of --prompt, --file, --messages, "
                         "--tokens");
    return engine_setup_check(o, "generate");
}

static enum status read_prompt(const struct options *o, const struct engine_model_info *info,
                               struct token_list *out, struct error *err)
{
    if (options_given(o, "tokens"))
        return prompt_read_ids(options_text(o, "tokens"), out, err);
    struct strbuf text;
    strbuf_init(&text, 256u << 20);
    enum status status = STATUS_OK;
    if (options_given(o, "file"))
        status = prompt_read_text(options_text(o, "file"), &text, err);
    else if (options_given(o, "prompt"))
        strbuf_puts(&text, options_text(o, "prompt"));
    bool special = options_flag(o, "parse-special");
    if (status == STATUS_OK && options_flag(o, "raw")) {
        status = tokenizer_encode(info->tokenizer, strbuf_str(&text),
                                  TOKENIZER_ADD_SPECIAL | (special ? TOKENIZER_PARSE_SPECIAL : 0u),
                                  out, err);
    } else if (status == STATUS_OK) {
        json_t *request = NULL;
        status = prompt_conversation(o, strbuf_str(&text), options_text(o, "messages"), &request,
                                     err);
        if (status == STATUS_OK)
            status = render_prompt(info, request, special, out, err);
        json_decref(request);
    }
    strbuf_release(&text);
    return status;
}

static void take_event(struct output *out, const struct event *e)
{
    if (e->kind == EVENT_DONE)
        out->done = *e;
    if (e->kind != EVENT_TOKEN)
        return;
    if (e->token >= 0)
        token_list_add(&out->tokens, e->token);
    strbuf_add(&out->text, e->text);
    if (out->json || !out->stream)
        return;
    if (out->ids && e->token >= 0)
        printf(out->tokens.n > 1 ? " %d" : "%d", e->token);
    else if (!out->ids)
        cli_print(e->text);
    fflush(stdout);
}

/* Ctrl-C sets a flag: it is looked at between events and ten times a second. */
static void follow(struct request *r, struct output *out)
{
    struct event e = { .kind = EVENT_PROGRESS };
    while (e.kind != EVENT_DONE) {
        if (cli_interrupted())
            request_cancel(r);
        if (request_wait_for(r, &e, 100))
            take_event(out, &e);
        else
            e.kind = EVENT_PROGRESS;
    }
}

static const char *finish_name(enum finish_reason f)
{
    static const char *const names[] = { "stop", "length", "cancelled", "error" };
    return names[f];
}

static double per_second(double n, double ms)
{
    return ms > 0.0 ? n / ms * 1e3 : 0.0;
}

static json_t *usage_json(const struct request_usage *u)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "prompt_tokens", u->prompt_tokens, "cached_tokens",
                     u->cached_tokens, "completion_tokens", u->completion_tokens, "total_tokens",
                     u->prompt_tokens + u->completion_tokens);
}

static json_t *timings_json(const struct request_usage *u)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "prompt_ms", u->prompt_ms, "first_token_ms",
                     u->first_token_ms, "decode_ms", u->decode_ms, "prompt_per_second",
                     per_second(u->prompt_tokens, u->prompt_ms), "decode_per_second",
                     per_second(u->completion_tokens - 1, u->decode_ms));
}

static void print_json(const struct output *out, const struct token_list *prompt)
{
    json_t *ids = json_array(), *prompt_ids = json_array();
    for (size_t i = 0; i < out->tokens.n; i++)
        json_array_append_new(ids, json_integer(out->tokens.ids[i]));
    for (size_t i = 0; i < prompt->n; i++)
        json_array_append_new(prompt_ids, json_integer(prompt->ids[i]));
    struct str text = strbuf_str(&out->text);
    json_t *value = json_object();
    json_object_set_new(value, "text", json_stringn(text.ptr ? text.ptr : "", text.len));
    json_object_set_new(value, "ids", ids);
    json_object_set_new(value, "prompt_ids", prompt_ids);
    json_object_set_new(value, "finish_reason", json_string(finish_name(out->done.finish)));
    json_object_set_new(value, "seed", json_integer((json_int_t)out->done.seed));
    json_object_set_new(value, "usage", usage_json(&out->done.usage));
    json_object_set_new(value, "timings", timings_json(&out->done.usage));
    cli_print_json(value);
}

static void print_rest(const struct output *out, const struct token_list *prompt)
{
    if (out->json) {
        print_json(out, prompt);
        return;
    }
    for (size_t i = 0; !out->stream && out->ids && i < out->tokens.n; i++)
        printf(i ? " %d" : "%d", out->tokens.ids[i]);
    struct str text = strbuf_str(&out->text);
    if (!out->stream && !out->ids)
        cli_print(text);
    if (out->ids || text.len == 0 || text.ptr[text.len - 1] != '\n')
        putchar('\n');
    fflush(stdout);
}

static void print_summary(const struct options *o, const struct request_usage *u)
{
    if (options_flag(o, "quiet"))
        return;
    fprintf(stderr, "prompt %d tokens, %.1f tokens/s; answer %d tokens, %.1f tokens/s\n",
            u->prompt_tokens, per_second(u->prompt_tokens, u->prompt_ms), u->completion_tokens,
            per_second(u->completion_tokens - 1, u->decode_ms));
}

static struct request_options request_of(const struct engine_setup *s, struct engine_model *model,
                                         const struct token_list *prompt)
{
    const struct engine_model_info *info = engine_model_info(model);
    struct request_options r = {
        .model = model, .tokens = prompt->ids, .n_tokens = (int32_t)prompt->n,
        .sampling = info->defaults, .max_tokens = s->max_tokens, .min_tokens = s->min_tokens,
        .ignore_eos = s->ignore_eos, .stop = s->stop, .n_stop = s->n_stop, .n_logprobs = -1,
        .script = s->n_script > 0 ? &s->script[0] : NULL,
    };
    if (r.max_tokens == 0)
        r.max_tokens = info->default_max_tokens;
    sampling_merge(&r.sampling, &s->sampling);
    return r;
}

static enum status answer(const struct options *o, const struct engine_setup *s,
                          struct engine *engine, struct engine_model *model, struct output *out,
                          struct token_list *prompt, struct error *err)
{
    TRY(read_prompt(o, engine_model_info(model), prompt, err));
    struct request_options options = request_of(s, model, prompt);
    struct request *r;
    TRY(engine_submit(engine, &options, &r, err));
    cli_interrupt_catch();
    follow(r, out);
    request_drop(r);
    if (out->done.finish == FINISH_ERROR) {
        *err = out->done.error;
        return err->status;
    }
    print_rest(out, prompt);
    print_summary(o, &out->done.usage);
    if (out->done.finish == FINISH_CANCELLED)
        return error_set(err, STATUS_CANCELLED, "interrupted");
    return STATUS_OK;
}

static enum status generate(const struct options *o, struct engine_setup *s, struct error *err)
{
    const char *path;
    size_t n_used;
    TRY(cli_model(o, &path, &n_used, err));
    TRY(engine_setup_read(s, o, err));
    engine_setup_read_sampling(s, o);
    TRY(engine_setup_read_answer(s, o, err));
    struct output out = {
        .o = o, .ids = options_flag(o, "ids"), .json = options_flag(o, "json"),
        .stream = options_flag(o, "stream"),
    };
    strbuf_init(&out.text, 1u << 30);
    s->engine.max_sequences = 1;
    s->engine.no_text = options_given(o, "tokens") && out.ids && !out.json && s->n_stop == 0 &&
                        s->n_script == 0;
    struct engine *engine = NULL;
    struct engine_model *model;
    struct token_list prompt = { 0 };
    enum status status = engine_setup_load(s, o, path, &engine, &model, err);
    if (status == STATUS_OK)
        status = answer(o, s, engine, model, &out, &prompt, err);
    engine_free(engine);
    token_list_release(&prompt);
    token_list_release(&out.tokens);
    strbuf_release(&out.text);
    return status;
}

static int run_generate(const struct options *o)
{
    struct error err = { 0 };
    int state = check_inputs(o);
    if (state != CLI_OK)
        return state;
    struct engine_setup setup = { 0 };
    enum status status = generate(o, &setup, &err);
    engine_setup_release(&setup);
    if (status == STATUS_OK)
        return CLI_OK;
    if (status == STATUS_CANCELLED)
        return CLI_INTERRUPTED;
    err.status = status;
    return cli_fail(&err);
}

static const struct option_group *const groups[] = {
    &generate_options,   &model_options,  &template_options, &sampling_options, &answer_options,
    &engine_options, &device_options, &foreign_options,  NULL,
};

const struct cli_command cmd_generate = {
    .name = "generate",
    .summary = "one answer on standard output",
    .usage = "MODEL [-p TEXT | -f FILE | --messages FILE | --tokens FILE]",
    .groups = groups,
    .read_variables = true,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_generate,
    .example = "ingot generate model.gguf -p 'What is the capital city of France?'",
};
