#include "cli/cli.h"
#include "cli/commands.h"

#define DECLARE(name) extern const struct cli_command cmd_##name;
CLI_COMMANDS(DECLARE)
#undef DECLARE

const struct cli_command *const cli_commands[] = {
#define ENTRY(name) &cmd_##name,
    CLI_COMMANDS(ENTRY)
#undef ENTRY
    NULL,
};

const struct cli_command *cli_find_command(struct str name)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (str_is(name, cli_commands[i]->name))
            return cli_commands[i];
    return NULL;
}
