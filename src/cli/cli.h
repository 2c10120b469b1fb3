/* cli: what a command is, and the few things that every command does the same way.
 *
 * Adding a command: src/cli/cmd_NAME.c defines `const struct cli_command cmd_NAME`, and
 * commands.h gets one line. Results go to stdout, everything else to stderr; an error is one
 * line. A command's run() returns an exit state and never calls exit().
 * Threads: the main thread. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"
#include "cli/option_groups.h"
#include "cli/options.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,        /* bad file, bad model, cannot bind, out of memory */
    CLI_USAGE = 2,         /* the command line is wrong */
    CLI_REFUSED = 3,       /* `grammar` alone: the schema or grammar is refused */
    CLI_INTERRUPTED = 130, /* Ctrl-C */
};

struct cli_command {
    const char *name;    /* "generate" */
    const char *summary; /* one line for the list of commands */
    const char *usage;   /* what follows the name: "MODEL [-p TEXT | -f FILE]" */
    const struct option_group *const *groups; /* ends with NULL; output_options comes by itself */
    bool read_variables; /* INGOT_* are read: generate, chat, serve */
    size_t min_arguments, max_arguments; /* those that are no flags */
    int (*run)(const struct options *o);
    const char *example; /* one command line for its help; NULL: none */
    bool model_argument; /* the first argument is MODEL, and may come from --model instead */
    bool (*needs_model)(const struct options *o); /* NULL: a model_argument is always needed */
};

/* All commands, in the order of help; ends with NULL. */
extern const struct cli_command *const cli_commands[];
const struct cli_command *cli_find_command(struct str name); /* NULL: none of that name */

/* "ingot: MESSAGE" on stderr; returns CLI_FAILED, or CLI_INTERRUPTED for STATUS_CANCELLED. */
int cli_fail(const struct error *err);
/* "ingot: TEXT" on stderr; returns CLI_USAGE. */
int cli_usage(const char *format, ...) PRINTF_LIKE(1, 2);
/* A notice on stderr ("note: TEXT"), not printed under --quiet. */
void cli_note(const struct options *o, const char *format, ...) PRINTF_LIKE(2, 3);

/* The MODEL of a command with model_argument: the argument or --model, else ./model.gguf or
 * ./gguf/model.gguf; NOT_FOUND lists what was looked for (main.c has asked, and made it a usage
 * error, before a command runs that needs one). With --model set, the arguments that
 * are no flags begin at *n_used = 0, else at 1. */
MUST_CHECK enum status cli_model(const struct options *o, const char **path, size_t *n_used,
                                 struct error *err);

/* One JSON value and a line end on stdout. Takes over the reference. */
void cli_print_json(json_t *value);
void cli_print(struct str text); /* bytes as they are, on stdout */

/* From the first call on, Ctrl-C sets a flag instead of ending the process; a second Ctrl-C
 * before cli_interrupt_clear() ends it with status 130. */
void cli_interrupt_catch(void);
bool cli_interrupted(void);
void cli_interrupt_clear(void);

#endif
