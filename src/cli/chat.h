/* chat: a conversation with a model: what was said, how the next answer is asked for, and the
 * commands of the person.
 *
 * The conversation is an object as generate --messages takes it: {"messages": [...]} and what the
 * template is told (enable_thinking, ...). Answers leave on stdout while they are written.
 * Ownership: chat_init/chat_release; options, setup, engine and model are borrowed.
 * Threads: the main thread. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/engine_setup.h"

struct chat {
    const struct options *o;
    const struct engine_setup *setup;
    struct engine *engine;
    struct engine_model *model;
    const struct engine_model_info *info;
    json_t *request;
    const char *session;           /* it is kept there after each answer; NULL: nowhere */
    struct sampling sampling;      /* complete */
    int32_t max_tokens;            /* of an answer; 0: until stop or context end */
    bool hides_thoughts;
    bool quit;
    bool lost;                     /* an answer could not be kept in the session */
    bool edits;                    /* the next message replaces the user's last one */
    int32_t n_answers;
    struct request_usage last;     /* of the newest answer */
    int64_t prompt_tokens, cached_tokens, completion_tokens; /* of all answers */
};

MUST_CHECK enum status chat_init(struct chat *c, const struct options *o,
                                 const struct engine_setup *setup, struct engine *engine,
                                 struct engine_model *model, struct error *err);
void chat_release(struct chat *c);

/* Another conversation, taken over in any case; INVALID: it is none. `label`: where it is from. */
MUST_CHECK enum status chat_take(struct chat *c, const char *label, json_t *request,
                                 struct error *err);
json_t *chat_messages(const struct chat *c);            /* borrowed */
void chat_set_system(struct chat *c, struct str text);  /* empty: none */
struct str chat_system(const struct chat *c);           /* empty: none */
/* The user's last message; empty: there is none. */
struct str chat_last_message(const struct chat *c);
/* Drops the newest messages back to and without the last of the user; false: there is none. */
bool chat_undo(struct chat *c);

/* chat_answer.c. A user's message, then the answer. What fails leaves the conversation as it was;
 * an interrupted answer stays as far as it went. */
MUST_CHECK enum status chat_say(struct chat *c, struct str text, struct error *err);
/* Another text for the user's last message, and its answer. */
MUST_CHECK enum status chat_replace(struct chat *c, struct str text, struct error *err);
MUST_CHECK enum status chat_regenerate(struct chat *c, struct error *err);
/* Tokens that the conversation takes as a prompt. */
MUST_CHECK enum status chat_count_tokens(const struct chat *c, size_t *n, struct error *err);

/* chat_commands.c. True: the line was a command ("/word ...") and is done; its failure is in
 * *err and *failed. "//" at the start makes a message that begins with one slash. */
bool chat_command(struct chat *c, struct str line, bool *failed, struct error *err);

#endif
