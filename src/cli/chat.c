#include "cli/chat.h"

#include "base/json.h"
#include "cli/prompt_input.h"

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
