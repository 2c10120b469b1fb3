/* ingot completion: the script that makes a shell complete commands and flags. */
#include "cli/cli.h"
#include "cli/help.h"

static void put_flags(const struct option_group *group, void *context)
{
    struct strbuf *out = context;
    for (size_t i = 0; i < group->n_rows; i++) {
        struct str name;
        option_name(&group->rows[i], 0, &name);
        if (group->rows[i].kind < OPTION_IGNORED && str_starts(name, STR("--"))) {
            strbuf_add(out, name);
            strbuf_putc(out, ' ');
        }
    }
}

static void put_names(struct strbuf *out)
{
    for (size_t i = 0; cli_commands[i]; i++)
        strbuf_printf(out, "%s%s", i > 0 ? " " : "", cli_commands[i]->name);
}

static void put_bash(struct strbuf *out)
{
    strbuf_puts(out, "_ingot()\n{\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} flags=\n"
                     "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                     "        COMPREPLY=($(compgen -W \"");
    put_names(out);
    strbuf_puts(out, " --help --version\" -- \"$cur\"))\n        return\n    fi\n"
                     "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        strbuf_printf(out, "    %s) flags=\"", cli_commands[i]->name);
        help_each_group(cli_commands[i], put_flags, out);
        strbuf_puts(out, "--help\" ;;\n");
    }
    strbuf_puts(out, "    esac\n"
                     "    case $cur in\n"
                     "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")) ;;\n"
                     "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
                     "    esac\n}\ncomplete -o filenames -F _ingot ingot\n");
}

static void put_zsh(struct strbuf *out)
{
    strbuf_puts(out, "#compdef ingot\n_ingot()\n{\n    local -a flags\n"
                     "    if (( CURRENT == 2 )); then\n        compadd -- ");
    put_names(out);
    strbuf_puts(out, " --help --version\n        return\n    fi\n    case $words[2] in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        strbuf_printf(out, "    %s) flags=(", cli_commands[i]->name);
        help_each_group(cli_commands[i], put_flags, out);
        strbuf_puts(out, "--help) ;;\n");
    }
    strbuf_puts(out, "    esac\n"
                     "    if [[ $PREFIX == -* ]]; then\n        compadd -- $flags\n"
                     "    else\n        _files\n    fi\n}\ncompdef _ingot ingot\n");
}

/* One line of fish: a flag of one command with its sentence. */
static void put_fish_flags(const struct option_group *group, void *context)
{
    struct strbuf *out = ((void **)context)[0];
    const char *command = ((void **)context)[1];
    for (size_t i = 0; i < group->n_rows; i++) {
        const struct option *row = &group->rows[i];
        struct str name;
        option_name(row, 0, &name);
        if (row->kind >= OPTION_IGNORED || !str_starts(name, STR("--")))
            continue;
        strbuf_printf(out, "complete -c ingot -n '__fish_seen_subcommand_from %s' -l %.*s", command,
                      STR_ARG(str_slice(name, 2, name.len)));
        if (option_takes_value(row))
            strbuf_puts(out, " -r");
        strbuf_puts(out, " -d '");
        for (const char *c = row->help; *c; c++) {
            if (*c == '\'' || *c == '\\')
                strbuf_putc(out, '\\');
            strbuf_putc(out, *c);
        }
        strbuf_puts(out, "'\n");
    }
}

static void put_fish(struct strbuf *out)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *c = cli_commands[i];
        strbuf_printf(out, "complete -c ingot -n __fish_use_subcommand -f -a %s -d '%s'\n",
                      c->name, c->summary);
        void *context[] = { out, (void *)(uintptr_t)c->name };
        help_each_group(c, put_fish_flags, context);
    }
}

static int run_completion(const struct options *o)
{
    const char *shell = options_argument(o, 0);
    struct str name = str_of(shell);
    struct strbuf out;
    strbuf_init(&out, 1 << 20);
    if (str_is(name, "bash"))
        put_bash(&out);
    else if (str_is(name, "zsh"))
        put_zsh(&out);
    else if (str_is(name, "fish"))
        put_fish(&out);
    else
        return cli_usage("completion: expected bash, zsh or fish, found \"%s\"", shell);
    cli_print(strbuf_str(&out));
    strbuf_release(&out);
    return CLI_OK;
}

const struct cli_command cmd_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .usage = "bash|zsh|fish",
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run_completion,
    .example = "source <(ingot completion bash)",
};
