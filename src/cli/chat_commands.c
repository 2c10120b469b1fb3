#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "cli/chat.h"
#include "cli/prompt_input.h"
#include "cli/term.h"
#include "text/template/chat_template.h"

static const char *const efforts[] = { "low", "medium", "high", "xhigh" };

static double per_second(double n, double ms)
{
    return ms > 0.0 ? n / ms * 1e3 : 0.0;
}

static enum status do_reset(struct chat *c, struct str argument, struct error *err)
{
    (void)argument;
    (void)err;
    struct str system = chat_system(c);
    json_t *kept = json_stringn(system.ptr, system.len);
    json_array_clear(chat_messages(c));
    chat_set_system(c, json_str(kept));
    json_decref(kept);
    cli_note(c->o, "a new conversation");
    return STATUS_OK;
}

static enum status do_system(struct chat *c, struct str argument, struct error *err)
{
    (void)err;
    struct str system = chat_system(c);
    if (argument.len == 0)
        printf("%.*s\n", STR_ARG(system.len ? system : STR("no system message")));
    else
        chat_set_system(c, str_is(argument, "-") ? (struct str){ "", 0 } : argument);
    return STATUS_OK;
}

static void list_settings(const struct chat *c)
{
#define SHOW_double(name) printf("  %-20s %g\n", #name, c->sampling.name);
#define SHOW_int32_t(name) printf("  %-20s %d\n", #name, c->sampling.name);
#define SHOW(name, type, value, low, high) SHOW_##type(name)
    SAMPLING_FIELDS(SHOW)
#undef SHOW
#undef SHOW_int32_t
#undef SHOW_double
    if (c->sampling.has_seed)
        printf("  %-20s %llu\n", "seed", (unsigned long long)c->sampling.seed);
    else
        printf("  %-20s random\n", "seed");
    printf("  %-20s %d%s\n", "max_tokens", c->max_tokens,
           c->max_tokens ? "" : " (until the model stops)");
}

/* True when `given` is `name`, with dashes or underscores. */
static bool is_setting(struct str given, const char *name)
{
    struct str want = str_of(name);
    if (given.len != want.len)
        return false;
    for (size_t i = 0; i < want.len; i++)
        if (given.ptr[i] != want.ptr[i] && !(given.ptr[i] == '-' && want.ptr[i] == '_'))
            return false;
    return true;
}

static enum status bad_value(const char *name, struct str value, double low, double high,
                             struct error *err)
{
    return error_set(err, STATUS_INVALID, "/set %s: expected a number from %g to %g, found '%.*s'",
                     name, low, high, STR_ARG(value));
}

static bool read_double(struct str text, double low, double high, double *out)
{
    double x;
    if (!number_parse_double(text, &x) || !(x >= low && x <= high))
        return false;
    *out = x;
    return true;
}

static bool read_int32_t(struct str text, double low, double high, int32_t *out)
{
    int64_t x;
    if (!number_parse_i64(text, &x) || (double)x < low || (double)x > high)
        return false;
    *out = (int32_t)x;
    return true;
}

static enum status set_seed(struct chat *c, struct str value, struct error *err)
{
    int64_t seed;
    bool random = str_is(value, "random");
    if (!random && (!number_parse_i64(value, &seed) || seed < 0))
        return error_set(err, STATUS_INVALID, "/set seed: expected a whole number or random, "
                         "found '%.*s'", STR_ARG(value));
    c->sampling.has_seed = !random;
    c->sampling.seed = random ? 0 : (uint64_t)seed;
    return STATUS_OK;
}

static enum status do_set(struct chat *c, struct str argument, struct error *err)
{
    size_t blank = str_find(argument, STR(" "), 0);
    if (argument.len == 0) {
        list_settings(c);
        return STATUS_OK;
    }
    if (blank == STR_NONE)
        return error_set(err, STATUS_INVALID, "/set: expected a name and a value");
    struct str name = str_slice(argument, 0, blank);
    struct str value = str_trim(str_slice(argument, blank, argument.len));
#define SET(field, type, builtin, low, high)                              \
    if (is_setting(name, #field))                                         \
        return read_##type(value, low, high, &c->sampling.field)          \
                   ? STATUS_OK                                            \
                   : bad_value(#field, value, low, high, err);
    SAMPLING_FIELDS(SET)
#undef SET
    if (is_setting(name, "max_tokens"))
        return read_int32_t(value, 0, 1e9, &c->max_tokens)
                   ? STATUS_OK : bad_value("max_tokens", value, 0, 1e9, err);
    if (is_setting(name, "seed"))
        return set_seed(c, value, err);
    return error_set(err, STATUS_INVALID, "/set: no setting '%.*s'; /set alone lists them",
                     STR_ARG(name));
}

static enum status do_thinking(struct chat *c, struct str argument, struct error *err)
{
    const struct chat_template_caps *caps = chat_template_caps(c->info->chat);
    bool on = str_is(argument, "on"), off = str_is(argument, "off");
    if (str_is(argument, "hide") || str_is(argument, "show")) {
        c->hides_thoughts = str_is(argument, "hide");
        return STATUS_OK;
    }
    bool effort = false;
    for (size_t i = 0; i < ARRAY_SIZE(efforts); i++)
        effort = effort || str_is(argument, efforts[i]);
    if (!on && !off && !effort)
        return error_set(err, STATUS_INVALID, "/thinking: expected on, off, low, medium, high, "
                         "xhigh, hide or show");
    json_object_del(c->request, "reasoning_effort");
    json_object_set_new(c->request, "enable_thinking", json_boolean(!off));
    if (effort)
        json_object_set_new(c->request, "reasoning_effort",
                            json_stringn(argument.ptr, argument.len));
    if (effort ? !caps->supports_effort : !caps->supports_thinking_switch)
        cli_note(c->o, "this model's template does not look at it");
    return STATUS_OK;
}

static enum status do_stats(struct chat *c, struct str argument, struct error *err)
{
    (void)argument;
    (void)err;
    const struct request_usage *u = &c->last;
    struct engine_status s;
    engine_status(c->engine, &s);
    printf("%s: %s, %s, context %d\n", c->info->name, c->info->family, c->info->type_name,
           c->info->context);
    printf("last answer: prompt %d tokens (%d of them kept from before) at %.1f tokens/s, answer "
           "%d tokens at %.1f tokens/s\n",
           u->prompt_tokens, u->cached_tokens,
           per_second(u->prompt_tokens - u->cached_tokens, u->prompt_ms), u->completion_tokens,
           per_second(u->completion_tokens - 1, u->decode_ms));
    double all = (double)c->prompt_tokens;
    printf("%d answer%s: %lld prompt tokens, %.0f %% of them kept, %lld answer tokens\n",
           c->n_answers, c->n_answers == 1 ? "" : "s", (long long)c->prompt_tokens,
           all > 0 ? 100.0 * (double)c->cached_tokens / all : 0.0,
           (long long)c->completion_tokens);
    printf("memory: weights %.1f MiB beside the mapped file, state %.1f MiB, %lld of %lld pages "
           "in use\n",
           (double)c->info->weight_bytes / 1048576.0, (double)c->info->kv_bytes / 1048576.0,
           (long long)s.pages_used, (long long)s.pages_all);
    return STATUS_OK;
}

static enum status do_tokens(struct chat *c, struct str argument, struct error *err)
{
    if (argument.len == 0) {
        size_t n;
        TRY(chat_count_tokens(c, &n, err));
        printf("%zu of %d tokens\n", n, c->info->context);
        return STATUS_OK;
    }
    struct token_list ids = { 0 };
    enum status status = tokenizer_encode(c->info->tokenizer, argument, 0, &ids, err);
    if (status == STATUS_OK) {
        printf("%zu tokens:", ids.n);
        for (size_t i = 0; i < ids.n; i++)
            printf(" %d", ids.ids[i]);
        putchar('\n');
    }
    token_list_release(&ids);
    return status;
}

static enum status do_save(struct chat *c, struct str argument, struct error *err)
{
    struct strbuf text;
    if (argument.len == 0)
        return error_set(err, STATUS_INVALID, "/save: expected a file name");
    strbuf_init(&text, SIZE_MAX / 2);
    json_write(&text, c->request);
    strbuf_putc(&text, '\n');
    enum status status = file_write(argument.ptr, text.ptr, text.len, err);
    strbuf_release(&text);
    if (status == STATUS_OK)
        cli_note(c->o, "%zu messages saved in %s", json_array_size(chat_messages(c)),
                 argument.ptr);
    return status;
}

static enum status do_load(struct chat *c, struct str argument, struct error *err)
{
    json_t *loaded;
    if (argument.len == 0)
        return error_set(err, STATUS_INVALID, "/load: expected a file name");
    TRY(prompt_read_messages(argument.ptr, &loaded, err));
    TRY(chat_take(c, argument.ptr, loaded, err));
    cli_note(c->o, "%zu messages from %s", json_array_size(chat_messages(c)), argument.ptr);
    return STATUS_OK;
}

static enum status do_regen(struct chat *c, struct str argument, struct error *err)
{
    (void)argument;
    return chat_regenerate(c, err);
}

static enum status do_edit(struct chat *c, struct str argument, struct error *err)
{
    if (argument.len > 0)
        return chat_replace(c, argument, err);
    if (chat_last_message(c).len == 0)
        return error_set(err, STATUS_INVALID, "/edit: there is no message yet");
    c->edits = true;
    return STATUS_OK;
}

static enum status do_undo(struct chat *c, struct str argument, struct error *err)
{
    (void)argument;
    if (!chat_undo(c))
        return error_set(err, STATUS_INVALID, "/undo: there is no turn to drop");
    cli_note(c->o, "%zu messages left", json_array_size(chat_messages(c)));
    return STATUS_OK;
}

static enum status do_quit(struct chat *c, struct str argument, struct error *err)
{
    (void)argument;
    (void)err;
    c->quit = true;
    return STATUS_OK;
}

static enum status do_help(struct chat *c, struct str argument, struct error *err);

static const struct {
    const char *name, *alias, *argument, *help;
    enum status (*run)(struct chat *c, struct str argument, struct error *err);
} commands[] = {
    { "help", "?", "", "this list", do_help },
    { "reset", "clear", "", "a new conversation, with the same system message", do_reset },
    { "system", NULL, "[TEXT]", "show or set the system message (-: none)", do_system },
    { "set", NULL, "[NAME VALUE]", "show or change a sampling setting", do_set },
    { "thinking", NULL, "WORD", "on, off, low, medium, high, xhigh; hide or show thoughts",
      do_thinking },
    { "stats", NULL, "", "tokens, speed, memory", do_stats },
    { "tokens", NULL, "[TEXT]", "tokens of the text, or of the conversation", do_tokens },
    { "save", NULL, "FILE", "write the conversation as JSON", do_save },
    { "load", NULL, "FILE", "go on with a saved conversation", do_load },
    { "regen", NULL, "", "answer the last message again", do_regen },
    { "edit", NULL, "[TEXT]", "another last message (alone: typed next), and its answer",
      do_edit },
    { "undo", NULL, "", "drop the last message and its answer", do_undo },
    { "quit", "exit", "", "end (also Ctrl-D)", do_quit },
};

static enum status do_help(struct chat *c, struct str argument, struct error *err)
{
    (void)argument;
    (void)err;
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        printf("/%-8s %-13s %s\n", commands[i].name, commands[i].argument, commands[i].help);
    puts("A line that ends with \\ goes on with the next one; // begins a message with a slash.\n"
         "Ctrl-C stops an answer; twice at the prompt it ends the program. Settings:");
    list_settings(c);
    return STATUS_OK;
}

bool chat_command(struct chat *c, struct str line, bool *failed, struct error *err)
{
    *failed = false;
    if (!str_starts(line, STR("/")) || str_starts(line, STR("//")))
        return false;
    size_t blank = str_find(line, STR(" "), 0);
    struct str word = str_slice(line, 1, blank == STR_NONE ? line.len : blank);
    struct str rest = blank == STR_NONE ? (struct str){ "", 0 }
                                        : str_trim(str_slice(line, blank, line.len));
    struct strbuf argument; /* with a NUL behind it, for names of files */
    strbuf_init(&argument, SIZE_MAX / 2);
    strbuf_add(&argument, rest);
    enum status status = STATUS_INVALID;
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(commands) && !known; i++) {
        known = str_is(word, commands[i].name) ||
                (commands[i].alias && str_is(word, commands[i].alias));
        if (known)
            status = commands[i].run(c, strbuf_str(&argument), err);
    }
    if (!known)
        (void)error_set(err, STATUS_INVALID, "no command /%.*s; /help lists them", STR_ARG(word));
    strbuf_release(&argument);
    fflush(stdout);
    *failed = status != STATUS_OK;
    return true;
}
