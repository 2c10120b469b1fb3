#include "server/chat_prompt.h"

#include <string.h>

#include "engine/render_prompt.h"
#include "server/request_fields.h"
#include "server/server_state.h"

static enum status check_parts(size_t index, const json_t *parts, struct error *err)
{
    size_t i;
    json_t *part;
    json_array_foreach(parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!json_is_object(part) || !type)
            return error_set(err, STATUS_INVALID,
                             "messages[%zu].content[%zu]: expected an object with a type", index,
                             i);
        if (strcmp(type, "text") == 0 && !json_is_string(json_object_get(part, "text")))
            return error_set(err, STATUS_INVALID,
                             "messages[%zu].content[%zu].text: expected a string", index, i);
    }
    return STATUS_OK;
}

static enum status check_messages(const json_t *messages, struct error *err)
{
    static const char *const roles[] = { "system",    "developer", "user",
                                         "assistant", "tool",      "function" };
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return error_set(err, STATUS_INVALID,
                         "messages: expected a list with at least one message");
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        const json_t *content = field_get(message, "content");
        if (!json_is_object(message) || !role)
            return error_set(err, STATUS_INVALID, "messages[%zu]: expected an object with a role",
                             i);
        bool known = false;
        for (size_t r = 0; r < ARRAY_SIZE(roles); r++)
            known = known || strcmp(role, roles[r]) == 0;
        if (!known)
            return error_set(err, STATUS_INVALID,
                             "messages[%zu].role: expected system, developer, user, assistant or "
                             "tool; found '%s'",
                             i, role);
        if (content && !json_is_string(content) && !json_is_array(content))
            return error_set(err, STATUS_INVALID,
                             "messages[%zu].content: expected a string or a list of parts", i);
        TRY(check_parts(i, content, err));
    }
    return STATUS_OK;
}

/* What the template sees: the conversation, the server's variables, and over them the
 * client's. */
static json_t *template_variables(const struct server *s, const json_t *body)
{
    json_t *variables = json_object();
    if (s->options.template_defaults)
        json_object_update(variables, s->options.template_defaults);
    const json_t *extra = field_get(body, "chat_template_kwargs");
    if (json_is_object(extra))
        json_object_update(variables, (json_t *)extra);
    static const char *const passed[] = { "enable_thinking", "reasoning_effort", "documents" };
    for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
        const json_t *value = field_get(body, passed[i]);
        if (value)
            json_object_set(variables, passed[i], (json_t *)value);
    }
    json_object_set(variables, "messages", json_object_get(body, "messages"));
    const json_t *generation = field_get(body, "add_generation_prompt");
    json_object_set_new(variables, "add_generation_prompt",
                        json_boolean(!generation || json_is_true(generation)));
    return variables;
}

enum status chat_prompt_tokens(const struct exchange *x, const json_t *body, struct token_list *out,
                               const char **param, struct error *err)
{
    const struct server *s = x->server;
    *param = "messages";
    TRY(check_messages(field_get(body, "messages"), err));
    const json_t *extra = field_get(body, "chat_template_kwargs");
    if (extra && !json_is_object(extra)) {
        *param = "chat_template_kwargs";
        return error_set(err, STATUS_INVALID, "chat_template_kwargs: expected an object");
    }
    json_t *variables = template_variables(s, body);
    enum status status =
        render_prompt(exchange_model(x), variables, s->options.parse_special, out, err);
    json_decref(variables);
    return status;
}
