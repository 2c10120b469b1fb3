#include "cli/help.h"

#define HELP_COLUMN 30 /* where the sentences begin */
#define HELP_WIDTH 96

const struct option_group *const help_shared_groups[] = {
    &model_options,  &template_options, &sampling_options,
    &answer_options, &engine_options,   &device_options,
    &server_options, &output_options,   NULL,
};

void help_each_group(const struct cli_command *command,
                     void (*visit)(const struct option_group *group, void *context), void *context)
{
    for (size_t i = 0; command->groups && command->groups[i]; i++)
        if (!command->groups[i]->hidden)
            visit(command->groups[i], context);
    visit(&output_options, context);
}

/* Words of `text` from column `column` on, broken at HELP_WIDTH. */
static void put_wrapped(struct strbuf *out, const char *text, size_t column)
{
    size_t at = column;
    struct str rest = str_of(text);
    while (rest.len > 0) {
        size_t end = str_find(rest, STR(" "), 0);
        struct str word = end == STR_NONE ? rest : str_slice(rest, 0, end);
        rest = end == STR_NONE ? (struct str){ NULL, 0 } : str_slice(rest, end + 1, rest.len);
        if (at > column && at + 1 + word.len > HELP_WIDTH) {
            strbuf_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            strbuf_putc(out, ' ');
            at++;
        }
        strbuf_add(out, word);
        at += word.len;
    }
    strbuf_putc(out, '\n');
}

/* "-t, --threads N|auto": the canonical name and the first short one. */
static void put_spelling(struct strbuf *out, const struct option *row)
{
    struct str name, canonical;
    option_name(row, 0, &canonical);
    for (size_t i = 1; option_name(row, i, &name); i++) {
        if (name.len <= 2) {
            strbuf_add(out, name);
            strbuf_puts(out, ", ");
            break;
        }
    }
    if (row->kind == OPTION_FLAG && row->fallback && str_is(str_of(row->fallback), "on")) {
        strbuf_puts(out, "--no-");
        canonical = str_slice(canonical, 2, canonical.len);
    }
    strbuf_add(out, canonical);
    if (row->value_name || row->words)
        strbuf_putc(out, ' ');
    if (row->value_name)
        strbuf_puts(out, row->value_name);
    if (row->value_name && row->words)
        strbuf_putc(out, '|');
    if (row->words)
        strbuf_puts(out, row->words);
}

static bool shows_default(const struct option *row)
{
    return row->fallback && row->kind != OPTION_FLAG;
}

static void put_row(struct strbuf *out, const struct option *row)
{
    struct strbuf text;
    strbuf_init(&text, 4096);
    size_t start = out->len;
    strbuf_puts(out, "  ");
    put_spelling(out, row);
    size_t used = out->len - start;
    if (used + 2 > HELP_COLUMN) {
        strbuf_putc(out, '\n');
        used = 0;
    }
    strbuf_printf(out, "%*s", (int)(HELP_COLUMN - used), "");
    if (row->kind == OPTION_FLAG && row->fallback && str_is(str_of(row->fallback), "on"))
        strbuf_printf(&text, "do without: %s", row->help);
    else
        strbuf_puts(&text, row->help);
    if (shows_default(row))
        strbuf_printf(&text, " (%s)", row->fallback);
    put_wrapped(out, text.ptr, HELP_COLUMN);
    strbuf_release(&text);
}

static void put_group(const struct option_group *group, void *context)
{
    struct strbuf *out = context;
    strbuf_printf(out, "\n%s\n", group->title);
    for (size_t i = 0; i < group->n_rows; i++)
        if (group->rows[i].kind < OPTION_IGNORED)
            put_row(out, &group->rows[i]);
}

void help_topics(struct strbuf *out)
{
    for (size_t i = 0; help_shared_groups[i]; i++)
        strbuf_printf(out, "%s%s", i > 0 ? ", " : "", help_shared_groups[i]->theme);
}

void help_overview(struct strbuf *out)
{
    strbuf_puts(out, "ingot runs language models: GGUF and safetensors files, from the command "
                     "line and over HTTP.\n\n"
                     "usage: ingot COMMAND [MODEL] [FLAGS]\n\nCommands\n");
    for (size_t i = 0; cli_commands[i]; i++)
        strbuf_printf(out, "  %-14s%s\n", cli_commands[i]->name, cli_commands[i]->summary);
    strbuf_puts(out, "\nMore\n"
                     "  ingot COMMAND --help    the flags of one command\n"
                     "  ingot --version         the version\n"
                     "  ingot --help THEME      the flags of one theme:\n    ");
    help_topics(out);
    strbuf_putc(out, '\n');
}

void help_command(struct strbuf *out, const struct cli_command *command)
{
    strbuf_printf(out, "%s\n\nusage: ingot %s %s\n", command->summary, command->name,
                  command->usage);
    if (command->example)
        strbuf_printf(out, "example: %s\n", command->example);
    help_each_group(command, put_group, out);
    if (command->read_variables)
        strbuf_puts(out, "\nEvery flag can also be set by a variable: INGOT_ and its name in "
                         "capitals (INGOT_THREADS=4,\nINGOT_NO_MMAP=1).\n");
}

bool help_topic(struct strbuf *out, struct str topic)
{
    const struct cli_command *command = cli_find_command(topic);
    if (command) {
        help_command(out, command);
        return true;
    }
    for (size_t i = 0; help_shared_groups[i]; i++) {
        if (str_is(topic, help_shared_groups[i]->theme)) {
            put_group(help_shared_groups[i], out);
            return true;
        }
    }
    return false;
}
