/* prompt_input: from what a command line names (text, conversation, ids) to the ids of a prompt.
 * Threads: the main thread. */
#ifndef CLI_PROMPT_INPUT_H
#define CLI_PROMPT_INPUT_H

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

/* Whitespace-separated ids, used as they are. */
MUST_CHECK enum status prompt_read_ids(const char *path, struct token_list *out,
                                       struct error *err);
/* A text file, ill-formed UTF-8 repaired. */
MUST_CHECK enum status prompt_read_text(const char *path, struct strbuf *out, struct error *err);
/* A JSON file with an array of messages, or an object that has the member messages: an object. */
MUST_CHECK enum status prompt_read_messages(const char *path, json_t **out, struct error *err);
/* --enable-thinking and --chat-template-kwargs become members of the request. */
MUST_CHECK enum status prompt_take_kwargs(const struct options *o, json_t *request,
                                          struct error *err);
/* The request object that a chat template renders; the caller's reference. `text` is the user's
 * turn; `messages` is an array, or an object with a member of that name. */
MUST_CHECK enum status prompt_conversation(const struct options *o, struct str text,
                                           const char *messages_path, json_t **out,
                                           struct error *err);

#endif
