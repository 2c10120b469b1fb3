/* chat_template: a model's chat template and what it can do; conversations to prompts.
 *
 * A template is loaded once (compiled and probed), is immutable afterwards, and may be rendered
 * by any thread. Rendering takes a conversation in the form of the OpenAI API and repairs what
 * clients send and templates trip over, according to the template's capabilities:
 *   - arguments of tool calls that are JSON text become objects (text that does not parse stays);
 *   - content given as parts is joined to text unless the template handles parts; null content
 *     becomes "" where the template cannot read null;
 *   - leading system and developer messages become one system message; later ones stay where the
 *     template accepts them, else their text goes into the neighbouring user turn, order kept;
 *   - reasoning_content, reasoning and thinking of a message are copied to one another.
 * Ownership: new/free; render fills a jinja_output (text, value spans) that
 * the caller releases with jinja_output_release(). */
#ifndef TEXT_CHAT_TEMPLATE_H
#define TEXT_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "text/template/jinja.h"

struct chat_template;

/* Spellings of the special tokens that templates print; empty where the model has none. Copied. */
struct chat_template_tokens {
    struct str bos, eos, pad, unk;
};

/* Found by rendering small conversations when the template is loaded. */
struct chat_template_caps {
    bool handles_parts;           /* content may be an array of parts */
    bool wants_object_arguments;  /* fails on, or misprints, arguments given as text */
    bool wants_empty_content;     /* fails on, or prints, content that is null */
    bool supports_system_role;
    bool supports_late_system;    /* a system message that is not the first */
    bool supports_developer_role;
    bool supports_tools;          /* prints the tools it is given */
    bool supports_tool_calls;     /* prints the calls of an assistant turn */
    bool supports_tool_role;
    bool supports_parallel_calls; /* several calls in one turn */
    bool renders_reasoning;       /* prints reasoning_content of a turn after the last user's */
    bool keeps_reasoning;         /* ... and of earlier turns */
    bool supports_thinking_switch; /* enable_thinking changes the prompt */
    bool supports_effort;         /* reasoning_effort changes the prompt */
    bool prints_bos;              /* the prompt begins with the bos spelling */
    bool strips_content;          /* trims white space of a user's text */
};

/* An empty `source` (the model has none) gives the ChatML fallback: chat_template_is_fallback()
 * is then true and the caller says so to the user. INVALID: syntax, with line and reason. */
MUST_CHECK enum status chat_template_new(struct str source,
                                         const struct chat_template_tokens *tokens,
                                         struct chat_template **out, struct error *err);
void chat_template_free(struct chat_template *t); /* NULL is allowed */

bool chat_template_is_fallback(const struct chat_template *t);
const struct chat_template_caps *chat_template_caps(const struct chat_template *t);
struct str chat_template_source(const struct chat_template *t);


/* `request` is an object: messages (an array, required), tools, add_generation_prompt (true when
 * absent), enable_thinking, ...: whatever else it holds goes to the template as it is (the keys
 * of an API that are no template variables should be left out). It is not changed.
 * INVALID: the template refuses the conversation (out->failure == JINJA_FAILURE_RAISED: in its
 * own words), or `messages` is malformed. LIMIT: the template ran too long. */
MUST_CHECK enum status chat_template_render(const struct chat_template *t, const json_t *request,
                                            int64_t now, struct jinja_output *out,
                                            struct error *err);

#endif
