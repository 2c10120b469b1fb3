/* ingot: the program. Finds the command, reads its flags, runs it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mapped_file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/help.h"

/* Output that could not be written is a failure, whatever the command thought. */
static int finish(int state)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && state == CLI_OK) {
        fprintf(stderr, "ingot: cannot write the output: %s\n", strerror(errno));
        return CLI_FAILED;
    }
    return state;
}

static int print_and_release(struct strbuf *text)
{
    cli_print(strbuf_str(text));
    strbuf_release(text);
    return finish(CLI_OK);
}

static int unknown_command(const char *given)
{
    struct str names[64];
    size_t n = 0;
    for (; cli_commands[n] && n < ARRAY_SIZE(names); n++)
        names[n] = str_of(cli_commands[n]->name);
    struct str near = suggest_nearest(str_of(given), names, n);
    if (near.len > 0)
        return cli_usage("unknown command \"%s\"; did you mean %.*s?", given, STR_ARG(near));
    return cli_usage("unknown command \"%s\"; ingot --help lists them", given);
}

/* Commands that have their place, but are not built: each is refused by its name. */
static const struct {
    const char *name, *reason;
} absent_commands[] = {
    { "grammar", "this version does not constrain answers" },
    { "parse", "this version does not read tool calls and reasoning out of answers" },
    { "imatrix", "this version reads importance matrices, it makes none" },
    { "probe", "bench, and generate --json, give the counters of this version" },
    { "transcript-audit", "this version writes no transcripts" },
    { "pull", "nothing is downloaded; fetch a model first, for example with hf download" },
    { "lens", "this version does not look inside of models" },
    { "image", "this version draws no images" },
    { "worker", "this version runs in one process" },
};

/* NULL: `given` is no such command. */
static const char *why_absent(struct str given)
{
    for (size_t i = 0; i < ARRAY_SIZE(absent_commands); i++)
        if (str_is(given, absent_commands[i].name))
            return absent_commands[i].reason;
    return NULL;
}

static int unknown_global_flag(const char *given)
{
    static const struct str names[] = { { "--help", 6 }, { "--version", 9 }, { "--man", 5 } };
    struct str near = suggest_nearest(str_of(given), names, ARRAY_SIZE(names));
    if (near.len > 0)
        return cli_usage("unknown flag %s; did you mean %.*s?", given, STR_ARG(near));
    return cli_usage("%s: expected a command first; ingot --help lists them", given);
}

static int show_help(const char *topic)
{
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    if (!topic) {
        help_overview(&text);
        return print_and_release(&text);
    }
    if (help_topic(&text, str_of(topic)))
        return print_and_release(&text);
    const char *reason = why_absent(str_of(topic));
    if (reason)
        return cli_usage("%s is not built yet: %s", topic, reason);
    help_topics(&text);
    int state = cli_usage("no help on \"%s\"; themes: %s; or a command", topic, text.ptr);
    strbuf_release(&text);
    return state;
}

static int show_man_page(void)
{
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    help_man_page(&text);
    return print_and_release(&text);
}

/* The command's groups with the common one in front of the foreign ones. */
static const struct option_group **all_groups(const struct cli_command *c)
{
    size_t n = 0;
    while (c->groups && c->groups[n])
        n++;
    const struct option_group **all = mem_array(const struct option_group *, n + 2);
    for (size_t i = 0; i < n; i++)
        all[i + 1] = c->groups[i];
    all[0] = &output_options;
    return all;
}

static int check_arguments(const struct cli_command *c, const struct options *o)
{
    size_t min = c->min_arguments, max = c->max_arguments;
    if (c->model_argument) {
        min = 0;
        if (options_given(o, "model"))
            max = max > 0 ? max - 1 : 0;
    }
    if (o->n_arguments < min)
        return cli_usage("%s: expected %s; see ingot %s --help", c->name, c->usage, c->name);
    if (o->n_arguments > max)
        return cli_usage("%s: unexpected argument \"%s\"; usage: ingot %s %s", c->name,
                         o->arguments[max], c->name, c->usage);
    struct error err;
    const char *path;
    size_t n_used;
    if (c->model_argument && (!c->needs_model || c->needs_model(o)) &&
        cli_model(o, &path, &n_used, &err) != STATUS_OK)
        return cli_usage("%s: %s", c->name, err.message);
    return CLI_OK;
}

/* A model file cut short while mapped, and an output past the limit on file sizes (ulimit -f), are
 * errors that the command reports, not signals that end it. */
static void tame_signals(void)
{
    mapped_file_install_guard();
    signal(SIGXFSZ, SIG_IGN);
}

static int run_command(const struct cli_command *c, int argc, char **argv)
{
    struct options o;
    struct error err;
    const struct option_group **groups = all_groups(c);
    enum status s = options_parse(&o, groups, c->read_variables, argc, argv, &err);
    int state = CLI_OK;
    if (s != STATUS_OK) {
        state = cli_usage("%s: %s", c->name, err.message);
    } else if (o.help) {
        state = show_help(c->name);
    } else {
        state = check_arguments(c, &o);
        if (state == CLI_OK && o.ignored.len > 0)
            cli_note(&o, "ignored, not needed here: %s", o.ignored.ptr);
        tame_signals();
        if (state == CLI_OK)
            state = c->run(&o);
    }
    options_release(&o);
    mem_free(groups);
    return finish(state);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return cli_usage("expected a command; ingot --help lists them");
    struct str first = str_of(argv[1]);
    if (str_is(first, "--version") || str_is(first, "-V")) {
        puts("ingot " INGOT_VERSION);
        return finish(CLI_OK);
    }
    if (str_is(first, "--help") || str_is(first, "-h") || str_is(first, "help"))
        return show_help(argc > 2 ? argv[2] : NULL);
    if (str_is(first, "--man"))
        return show_man_page();
    if (str_starts(first, STR("-")))
        return unknown_global_flag(argv[1]);
    const struct cli_command *command = cli_find_command(first);
    const char *reason = command ? NULL : why_absent(first);
    if (reason)
        return cli_usage("%s is not built yet: %s", argv[1], reason);
    if (!command)
        return unknown_command(argv[1]);
    return run_command(command, argc - 2, argv + 2);
}
