#include "cli/chat.h"

#include "base/json.h"
#include "cli/prompt_input.h"

enum status chat_take(struct chat *c, const char *label, json_t *request, struct error *err)
{
    size_t i;
    json_t *messages = json_object_get(request, "messages"), *message;
    enum status status = json_is_array(messages) ? STATUS_OK : STATUS_INVALID;
    if (status != STATUS_OK)
        (void)error_set(err, status, "%s: expected an object with messages", label);
    json_array_foreach(messages, i, message)
    {
        if (status == STATUS_OK && !json_is_string(json_object_get(message, "role")))
            status = error_set(err, STATUS_INVALID,
                               "%s: messages[%zu]: expected an object with a role", label, i);
    }
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    json_decref(c->request);
    c->request = request;
    return STATUS_OK;
}

/* Goes on with what the session holds; one that is not there yet begins. */
static enum status resume(struct chat *c, struct error *err)
{
    json_t *session;
    enum status status = engine_session_show(c->engine, c->session, &session, err);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    TRY(status);
    json_t *kept = json_incref(json_object_get(session, "client"));
    if (json_object_get(session, "damaged"))
        status = error_set(err, STATUS_INVALID, "session %s: %s", c->session,
                           json_string_value(json_object_get(session, "damaged")));
    else if (!kept)
        status = error_set(err, STATUS_INVALID,
                           "session %s: it has no transcript: a server made it, and its client has "
                           "the text",
                           c->session);
    json_decref(session);
    if (status != STATUS_OK) {
        json_decref(kept);
        return status;
    }
    TRY(chat_take(c, c->session, kept, err));
    cli_note(c->o, "session %s: %zu messages", c->session, json_array_size(chat_messages(c)));
    return STATUS_OK;
}

enum status chat_init(struct chat *c, const struct options *o, const struct engine_setup *setup,
                      struct engine *engine, struct engine_model *model, struct error *err)
{
    *c = (struct chat){ .o = o, .setup = setup, .engine = engine, .model = model };
    c->info = engine_model_info(model);
    c->sampling = c->info->defaults;
    sampling_merge(&c->sampling, &setup->sampling);
    c->sampling.has_seed = setup->sampling.has_seed;
    c->sampling.seed = setup->sampling.seed;
    c->sampling.bias = setup->sampling.bias;
    c->sampling.n_bias = setup->sampling.n_bias;
    c->max_tokens = setup->max_tokens ? setup->max_tokens : c->info->default_max_tokens;
    c->request = json_pack("{s:[]}", "messages");
    c->session = options_text(o, "session");
    if (c->session)
        TRY(resume(c, err));
    const char *system = options_text(o, "system");
    if (system)
        chat_set_system(c, str_of(system));
    return prompt_take_kwargs(o, c->request, err);
}

void chat_release(struct chat *c)
{
    json_decref(c->request);
}

json_t *chat_messages(const struct chat *c)
{
    return json_object_get(c->request, "messages");
}

static bool has_role(const json_t *message, const char *role)
{
    return str_is(json_str(json_object_get(message, "role")), role);
}

struct str chat_system(const struct chat *c)
{
    const json_t *first = json_array_get(chat_messages(c), 0);
    if (!first || !has_role(first, "system"))
        return (struct str){ "", 0 };
    return json_str(json_object_get(first, "content"));
}

void chat_set_system(struct chat *c, struct str text)
{
    json_t *messages = chat_messages(c), *first = json_array_get(messages, 0);
    if (first && has_role(first, "system"))
        json_array_remove(messages, 0);
    if (text.len > 0)
        json_array_insert_new(messages, 0, json_pack("{s:s, s:s%}", "role", "system", "content",
                                                     text.ptr, text.len));
}

struct str chat_last_message(const struct chat *c)
{
    const json_t *messages = chat_messages(c);
    for (size_t i = json_array_size(messages); i > 0; i--) {
        const json_t *message = json_array_get(messages, i - 1);
        if (has_role(message, "user") && json_is_string(json_object_get(message, "content")))
            return json_str(json_object_get(message, "content"));
    }
    return (struct str){ "", 0 };
}

bool chat_undo(struct chat *c)
{
    json_t *messages = chat_messages(c);
    for (size_t i = json_array_size(messages); i > 0; i--) {
        if (!has_role(json_array_get(messages, i - 1), "user"))
            continue;
        while (json_array_size(messages) >= i)
            json_array_remove(messages, json_array_size(messages) - 1);
        return true;
    }
    return false;
}
