#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "engine/load_text.h"
#include "formats/model_source.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

#define MAX_INPUT_BYTES (256u << 20)

static const struct option rows[] = {
    OPT_TEXT("--messages", "FILE", NULL,
             "the conversation: an array of messages, or an object {messages, tools, ...} whose "
             "other members go to the template"),
    OPT_TEXT("--template", "FILE", NULL, "render this Jinja template, without a model"),
    OPT_TEXT("--context", "FILE", NULL,
             "with --template: a JSON object, everything that the template sees"),
    OPT_TEXT("--tools", "FILE", NULL, "the tools: a JSON array"),
    OPT_FLAG("--generation-prompt", NULL, "end with the opening of the answer (on)"),
    OPT_TEXT("--now", "TIME", NULL, "the clock of the template, as 2025-03-09T14:05:07"),
};
static const struct option_group render_options = OPTION_GROUP("render", "Render", rows);

static void print_note(void *user, enum log_level level, struct str line)
{
    if (level <= LOG_INFO)
        cli_note(user, "%.*s", STR_ARG(line));
}

static enum status read_clock(const struct options *o, int64_t *now, struct error *err)
{
    const char *text = options_text(o, "now");
    *now = jinja_now();
    if (text && !jinja_parse_time(str_of(text), now))
        return error_set(err, STATUS_INVALID,
                         "--now: expected a time as 2025-03-09T14:05:07, found '%s'", text);
    return STATUS_OK;
}

/* --- a template and its context ------------------------------------------------------------ */

static enum status render_context(const struct options *o, struct str source, int64_t now,
                                  struct jinja_output *out, struct error *err)
{
    static const char *const own[] = { "bos_token", "eos_token", "pad_token", "unk_token", NULL };
    const struct jinja_options options = { .trusted = own, .now = now };
    struct jinja_template *template;
    json_t *context;
    TRY(json_parse_file(options_text(o, "context"), MAX_INPUT_BYTES, 0, &context, err));
    enum status status = jinja_compile(source, &template, err);
    if (status == STATUS_OK)
        status = jinja_render(template, context, &options, out, err);
    jinja_free(template);
    json_decref(context);
    return status == STATUS_OK ? status : error_prefix(err, "%s", options_text(o, "template"));
}

/* --- a conversation -------------------------------------------------------------------------- */

static enum status add_object(json_t *request, const char *text, struct error *err)
{
    json_t *more;
    TRY(json_parse(str_of(text), 0, &more, err));
    bool good = json_is_object(more);
    if (good)
        json_object_update(request, more);
    json_decref(more);
    return good ? STATUS_OK : error_set(err, STATUS_INVALID,
                                        "--chat-template-kwargs: expected a JSON object");
}

/* What flags say about the conversation goes before what the file says. */
static enum status add_flags(const struct options *o, json_t *request, struct error *err)
{
    const char *variables = options_text(o, "chat-template-kwargs");
    if (variables)
        TRY(add_object(request, variables, err));
    if (options_given(o, "tools")) {
        json_t *tools;
        TRY(json_parse_file(options_text(o, "tools"), MAX_INPUT_BYTES, 0, &tools, err));
        json_object_set_new(request, "tools", tools);
        if (!json_is_array(tools))
            return error_set(err, STATUS_INVALID, "%s: expected an array of tools",
                             options_text(o, "tools"));
    }
    if (options_given(o, "generation-prompt"))
        json_object_set_new(request, "add_generation_prompt",
                            json_boolean(options_flag(o, "generation-prompt")));
    if (options_given(o, "enable-thinking"))
        json_object_set_new(request, "enable_thinking",
                            json_boolean(options_flag(o, "enable-thinking")));
    return STATUS_OK;
}

static enum status render_messages(const struct options *o, const struct chat_template *chat,
                                   int64_t now, struct jinja_output *out, struct error *err)
{
    const char *path = options_text(o, "messages");
    json_t *request;
    TRY(json_parse_file(path, MAX_INPUT_BYTES, 0, &request, err));
    if (json_is_array(request))
        request = json_pack("{s:o}", "messages", request);
    enum status status = STATUS_OK;
    if (!json_is_array(json_object_get(request, "messages")))
        status = error_set(err, STATUS_INVALID,
                           "%s: expected an array of messages or an object with messages", path);
    if (status == STATUS_OK)
        status = add_flags(o, request, err);
    if (status == STATUS_OK)
        status = chat_template_render(chat, request, now, out, err);
    json_decref(request);
    return status;
}

static enum status render_with_model(const struct options *o, int64_t now,
                                     struct jinja_output *out, struct error *err)
{
    const char *path;
    size_t n_used;
    struct model_source *source;
    struct tokenizer *tokenizer = NULL;
    struct chat_template *chat = NULL;
    struct strbuf text;
    TRY(cli_model(o, &path, &n_used, err));
    /* A cast, because a sink may change what it writes to; this one does not. */
    struct log_sink log = { .write = print_note, .user = (void *)(uintptr_t)o,
                            .level = LOG_INFO };
    struct engine_options options = { .log = &log, .tokenizer_path = options_text(o, "tokenizer"),
                                      .chat_template = options_text(o, "chat-template") };
    strbuf_init(&text, JINJA_MAX_SOURCE_BYTES);
    enum status status = STATUS_OK;
    if (options_given(o, "chat-template-file")) {
        status = file_read(options_text(o, "chat-template-file"), JINJA_MAX_SOURCE_BYTES, &text,
                           err);
        options.chat_template = text.ptr;
    }
    if (status == STATUS_OK)
        status = model_source_open(&source, path, err);
    if (status == STATUS_OK) {
        status = load_text(&options, source, &tokenizer, &chat, err);
        model_source_free(source);
    }
    if (status == STATUS_OK)
        status = render_messages(o, chat, now, out, err);
    chat_template_free(chat);
    tokenizer_free(tokenizer);
    strbuf_release(&text);
    return status;
}

static enum status render_template(const struct options *o, int64_t now, struct jinja_output *out,
                                   struct error *err)
{
    const char *path = options_text(o, "template");
    struct chat_template *chat = NULL;
    struct strbuf source;
    strbuf_init(&source, JINJA_MAX_SOURCE_BYTES);
    enum status status = file_read(path, JINJA_MAX_SOURCE_BYTES, &source, err);
    if (status == STATUS_OK && options_given(o, "context")) {
        status = render_context(o, strbuf_str(&source), now, out, err);
    } else if (status == STATUS_OK) {
        status = chat_template_new(strbuf_str(&source), NULL, &chat, err);
        if (status != STATUS_OK)
            (void)error_prefix(err, "%s", path);
        else
            status = render_messages(o, chat, now, out, err);
    }
    chat_template_free(chat);
    strbuf_release(&source);
    return status;
}

static int run_render(const struct options *o)
{
    struct error err = { 0 };
    struct jinja_output out = { 0 };
    int64_t now;
    bool template = options_given(o, "template");
    if (options_given(o, "messages") == options_given(o, "context"))
        return cli_usage("render takes either --messages FILE, or --template FILE and "
                         "--context FILE");
    if (options_given(o, "context") && !template)
        return cli_usage("render: --context needs --template FILE");
    if (template && (o->n_arguments || options_given(o, "model")))
        return cli_usage("render takes either a MODEL or --template FILE");
    enum status status = read_clock(o, &now, &err);
    if (status != STATUS_OK) {
        (void)cli_fail(&err);
        return CLI_USAGE;
    }
    status = template ? render_template(o, now, &out, &err) : render_with_model(o, now, &out, &err);
    if (status == STATUS_OK)
        cli_print((struct str){ out.text, out.len });
    jinja_output_release(&out);
    return status == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static bool needs_model(const struct options *o)
{
    return !options_given(o, "template") && options_given(o, "messages");
}

static const struct option_group *const groups[] = { &render_options, &model_options,
                                                     &template_options, NULL };

const struct cli_command cmd_render = {
    .name = "render",
    .summary = "a conversation to the text of its prompt",
    .usage = "(MODEL --messages FILE | --template FILE --context FILE) [--now TIME]",
    .groups = groups,
    .max_arguments = 1,
    .model_argument = true,
    .needs_model = needs_model,
    .run = run_render,
    .example = "ingot render model.gguf --messages conversation.json",
};
