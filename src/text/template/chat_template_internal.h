/* chat_template_internal: shared by chat_template.c, chat_probe.c and chat_messages.c only. */
#ifndef TEXT_CHAT_TEMPLATE_INTERNAL_H
#define TEXT_CHAT_TEMPLATE_INTERNAL_H

#include "text/template/chat_template.h"

enum { CHAT_BOS, CHAT_EOS, CHAT_PAD, CHAT_UNK, CHAT_TOKENS };

struct chat_template {
    struct jinja_template *jinja;
    struct str source; /* owned, NUL-terminated; the fallback's own when there was none */
    bool is_fallback;
    char *tokens[CHAT_TOKENS]; /* NULL: the model has none */
    struct chat_template_caps caps;
    /* What only the repair of messages needs to know: */
    bool wants_parts;         /* prints no content that is plain text */
    bool fails_on_text_arguments;
    bool wants_text_arguments; /* prints objects as Python would, or not at all */
    bool wants_alternation;   /* two user turns in a row are refused */
    bool wants_short_ids;     /* ids of calls must be nine letters and digits */
};

/* The names of the tokens in the template's variables, in the order of the enum; ends with NULL. */
extern const char *const chat_token_names[];

/* Renders `variables` (changed: the tokens are put in) without any repair. */
MUST_CHECK enum status chat_render_raw(const struct chat_template *t, json_t *variables,
                                       int64_t now, struct jinja_output *out, struct error *err);

void chat_probe(struct chat_template *t); /* fills in what the template can do */

/* The messages as this template can read them: a new array. INVALID: malformed messages. */
MUST_CHECK enum status chat_messages_repair(const struct chat_template *t, const json_t *messages,
                                            json_t **out, struct error *err);

#endif
