/* The man page, in the man macros of roff (groff_man(7)). */
#include "cli/help.h"

/* Text with what roff would interpret made harmless: "\", "-", a leading "." or "'". */
static void put_text(struct strbuf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool line_start = i == 0 || text.ptr[i - 1] == '\n';
        if (line_start && (c == '.' || c == '\''))
            strbuf_puts(out, "\\&");
        if (c == '\\')
            strbuf_puts(out, "\\e");
        else if (c == '-')
            strbuf_puts(out, "\\-");
        else
            strbuf_putc(out, c);
    }
}

static void put_row(struct strbuf *out, const struct option *row)
{
    struct str name;
    strbuf_puts(out, ".TP\n");
    for (size_t i = 0; option_name(row, i, &name); i++) {
        strbuf_puts(out, i > 0 ? ", \\fB" : "\\fB");
        put_text(out, name);
        strbuf_puts(out, "\\fR");
    }
    if (row->value_name)
        strbuf_printf(out, " \\fI%s\\fR", row->value_name);
    if (row->words) {
        strbuf_puts(out, row->value_name ? "|" : " ");
        put_text(out, str_of(row->words));
    }
    strbuf_putc(out, '\n');
    put_text(out, str_of(row->help));
    if (row->fallback) {
        strbuf_puts(out, "; default ");
        put_text(out, str_of(row->fallback));
    }
    strbuf_puts(out, ".\n");
}

static void put_group(const struct option_group *group, void *context)
{
    struct strbuf *out = context;
    strbuf_printf(out, ".SS %s\n", group->title);
    for (size_t i = 0; i < group->n_rows; i++)
        if (group->rows[i].kind < OPTION_IGNORED)
            put_row(out, &group->rows[i]);
}

static bool is_shared(const struct option_group *group)
{
    for (size_t i = 0; help_shared_groups[i]; i++)
        if (group == help_shared_groups[i])
            return true;
    return false;
}

static void put_own_group(const struct option_group *group, void *context)
{
    struct strbuf *out = context;
    if (is_shared(group))
        return;
    for (size_t i = 0; i < group->n_rows; i++)
        if (group->rows[i].kind < OPTION_IGNORED)
            put_row(out, &group->rows[i]);
}

static void put_command(struct strbuf *out, const struct cli_command *command)
{
    strbuf_printf(out, ".SS ingot ");
    put_text(out, str_of(command->name));
    strbuf_putc(out, '\n');
    strbuf_puts(out, "\\fBingot ");
    put_text(out, str_of(command->name));
    strbuf_puts(out, "\\fR ");
    put_text(out, str_of(command->usage));
    strbuf_puts(out, "\n.br\n");
    put_text(out, str_of(command->summary));
    strbuf_puts(out, ".\n");
    help_each_group(command, put_own_group, out);
}

void help_man_page(struct strbuf *out)
{
    strbuf_puts(out, ".TH INGOT 1 \"\" \"ingot " INGOT_VERSION "\" \"User Commands\"\n"
                     ".SH NAME\ningot \\- run language models from GGUF and safetensors files\n"
                     ".SH SYNOPSIS\n\\fBingot\\fR \\fICOMMAND\\fR [\\fIMODEL\\fR] [\\fIFLAGS\\fR]\n"
                     ".SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i]; i++)
        put_command(out, cli_commands[i]);
    strbuf_puts(out, ".SH SHARED FLAGS\nA command lists those that it takes with \\fB\\-\\-help"
                     "\\fR.\n");
    for (size_t i = 0; help_shared_groups[i]; i++)
        put_group(help_shared_groups[i], out);
    strbuf_puts(out,
                ".SH ENVIRONMENT\n"
                "Each flag of serve, generate and chat can be set by a variable: INGOT_ and its "
                "name in capitals, dashes as underscores (INGOT_CONTEXT=8192, INGOT_NO_MMAP=1). "
                "A flag wins over "
                "a variable.\n.br\n"
                "NO_COLOR and TERM=dumb switch colour off.\n"
                ".SH EXIT STATUS\n"
                ".TP\n0\ndone\n"
                ".TP\n1\nthe work failed\n"
                ".TP\n2\nthe command line is wrong\n"
                ".TP\n130\ninterrupted\n");
}
