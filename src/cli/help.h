/* help: the texts that are made from the option tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "base/strbuf.h"
#include "cli/cli.h"

void help_overview(struct strbuf *out);
void help_command(struct strbuf *out, const struct cli_command *command);
/* false: neither a theme nor a command */
bool help_topic(struct strbuf *out, struct str topic);
void help_topics(struct strbuf *out); /* "model, sampling, ..." */
void help_man_page(struct strbuf *out); /* roff with man macros: docs/ingot.1 */

/* Flags of several commands, each group a theme of its own; ends with NULL. */
extern const struct option_group *const help_shared_groups[];

/* Calls visit() once for each shown group of the command, the output group last. */
void help_each_group(const struct cli_command *command,
                     void (*visit)(const struct option_group *group, void *context),
                     void *context);

#endif
