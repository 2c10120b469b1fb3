/* ingot chat: a conversation at the terminal, or one message a line from a pipe. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/chat.h"
#include "cli/chat_input.h"
#include "cli/state_folder.h"
#include "cli/term.h"
#include "engine/session_file.h"

#define MESSAGE_MAX_BYTES (256u << 20)

static const struct option rows[] = {
    OPT_TEXT("--system -sys", "TEXT", NULL, "the system message"),
    OPT_TEXT("--session", "NAME", NULL,
             "go on with the session of this name, or begin it; it is kept in --session-dir, else "
             "--cache-dir, else ~/.local/state/ingot/sessions"),
    OPT_FLAG("--session-strict", "off",
             "refuse what does not go on from the session, instead of branching off"),
};
static const struct option_group chat_options = OPTION_GROUP("chat", "Chat", rows);

/* Where the session is kept if no flag says it. */
static enum status find_session_folder(struct engine_setup *s, struct error *err)
{
    char *path = state_folder_path("sessions");
    if (!path)
        return error_set(err, STATUS_NOT_FOUND,
                         "--session: no home folder is known: expected --session-dir FOLDER");
    s->engine.session_dir = arena_str(&s->arena, str_of(path)).ptr;
    mem_free(path);
    return STATUS_OK;
}

static void greet(const struct chat *c)
{
    if (options_flag(c->o, "quiet"))
        return;
    printf("%s%s, context %d; /help lists the commands%s\n", term_style(stdout, TERM_DIM),
           c->info->name, c->info->context, term_style(stdout, TERM_PLAIN));
}

/* True: it went well. */
static bool take_line(struct chat *c, struct str line, bool is_terminal)
{
    struct error err = { 0 };
    bool failed;
    if (chat_command(c, line, &failed, &err)) {
        if (failed)
            cli_fail(&err);
        return !failed;
    }
    bool edited = c->edits;
    c->edits = false;
    if (str_trim(line).len == 0)
        return true;
    if (str_starts(line, STR("//")))
        line = str_slice(line, 1, line.len);
    enum status status = edited ? chat_replace(c, line, &err) : chat_say(c, line, &err);
    if (status == STATUS_CANCELLED && is_terminal) {
        cli_note(c->o, "%s", err.message);
        return true;
    }
    if (status != STATUS_OK) {
        err.status = status;
        cli_fail(&err);
    }
    return status == STATUS_OK;
}

/* Until the end of input; the exit state. */
static int converse(struct chat *c, bool is_terminal)
{
    struct strbuf line;
    struct chat_input *in = chat_input_new(is_terminal);
    int state = CLI_OK, n_interrupts = 0;
    strbuf_init(&line, MESSAGE_MAX_BYTES);
    while (!c->quit) {
        if (c->edits)
            chat_input_offer(in, chat_last_message(c));
        enum chat_input_result result = chat_input_read(in, &line);
        if (result == CHAT_INPUT_END)
            break;
        if (result == CHAT_INPUT_INTERRUPTED) {
            cli_interrupt_clear();
            c->edits = false;
            if (!is_terminal || ++n_interrupts == 2) {
                state = CLI_INTERRUPTED;
                break;
            }
            cli_note(c->o, "Ctrl-C once more ends the program");
            continue;
        }
        n_interrupts = 0;
        if (!take_line(c, strbuf_str(&line), is_terminal) && !is_terminal)
            state = CLI_FAILED;
    }
    chat_input_free(in);
    strbuf_release(&line);
    return state;
}

static enum status chat(const struct options *o, struct engine_setup *s, int *state,
                        struct error *err)
{
    const char *path;
    size_t n_used;
    TRY(cli_model(o, &path, &n_used, err));
    TRY(engine_setup_read(s, o, err));
    engine_setup_read_sampling(s, o);
    TRY(engine_setup_read_answer(s, o, err));
    if (options_text(o, "session") && !s->engine.session_dir && !s->engine.cache_dir)
        TRY(find_session_folder(s, err));
    s->engine.max_sequences = 1;
    struct engine *engine = NULL;
    struct engine_model *model;
    struct chat c = { 0 };
    TRY(engine_setup_load(s, o, path, &engine, &model, err));
    enum status status = chat_init(&c, o, s, engine, model, err);
    bool is_terminal = term_is_terminal(stdin) && term_is_terminal(stdout);
    if (status == STATUS_OK) {
        umask(077); /* what is saved is nobody else's */
        cli_interrupt_catch();
        if (is_terminal)
            greet(&c);
        *state = converse(&c, is_terminal);
        if (c.lost && *state == CLI_OK)
            *state = CLI_FAILED;
    }
    chat_release(&c);
    engine_free(engine);
    return status;
}

static int run_chat(const struct options *o)
{
    struct error err = { 0 };
    struct engine_setup setup = { 0 };
    int state = engine_setup_check(o, "chat");
    if (state != CLI_OK)
        return state;
    const char *session = options_text(o, "session");
    if (!session && options_flag(o, "session-strict"))
        return cli_usage("--session-strict needs --session NAME");
    if (session && session_name_check(str_of(session), &err) != STATUS_OK)
        return cli_usage("--%s", err.message);
    enum status status = chat(o, &setup, &state, &err);
    engine_setup_release(&setup);
    return status == STATUS_OK ? state : cli_fail(&err);
}

static const struct option_group *const groups[] = {
    &chat_options,     &model_options,   &template_options,
    &sampling_options, &answer_options,  &engine_options,
    &device_options,   &foreign_options, NULL,
};

const struct cli_command cmd_chat = {
    .name = "chat",
    .summary = "a conversation at the terminal",
    .usage = "MODEL [--system TEXT] [--session NAME]",
    .groups = groups,
    .read_variables = true,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_chat,
    .example = "ingot chat model.gguf",
};
