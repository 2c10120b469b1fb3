/* chat_input: messages from a person (line editing, history) or from a pipe (one a line).
 *
 * A backslash at the end of a line goes on with the next one; a paste of several lines is one
 * message (bracketed paste). The history is STATE/history, mode 0600, where STATE is
 * $XDG_STATE_HOME/ingot, else ~/.local/state/ingot; where it cannot be kept, it is forgotten.
 * Ownership: new/free. Threads: the main thread. */
#ifndef CLI_CHAT_INPUT_H
#define CLI_CHAT_INPUT_H

#include <stdbool.h>

#include "base/strbuf.h"

struct chat_input;

enum chat_input_result {
    CHAT_INPUT_MESSAGE,
    CHAT_INPUT_END,         /* end of the file, Ctrl-D */
    CHAT_INPUT_INTERRUPTED, /* Ctrl-C while waiting */
};

struct chat_input *chat_input_new(bool edits); /* edits: a person types at a terminal */
void chat_input_free(struct chat_input *in);   /* saves the history */
/* The next line begins with this text, for the person to change; without an editor: no effect. */
void chat_input_offer(struct chat_input *in, struct str text);
/* Replaces *out by the next message, without its line end, in valid UTF-8. */
enum chat_input_result chat_input_read(struct chat_input *in, struct strbuf *out);

#endif
