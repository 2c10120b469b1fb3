#include "text/template/chat_template_internal.h"

#include "base/mem.h"

const char *const chat_token_names[] = { "bos_token", "eos_token", "pad_token", "unk_token", NULL };

/* For models that bring no template: plain ChatML. */
static const char fallback_source[] =
    "{%- for m in messages %}"
    "{{- '<|im_start|>' ~ m.role ~ '\\n' ~ (m.content or '') ~ '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is not none %}"
    "{{- '<think>\\n' if enable_thinking else '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}"
    "{%- endif %}";

enum status chat_template_new(struct str source, const struct chat_template_tokens *tokens,
                              struct chat_template **out, struct error *err)
{
    struct chat_template *t = mem_new(struct chat_template);
    *out = NULL;
    t->is_fallback = source.len == 0;
    if (t->is_fallback)
        source = str_of(fallback_source);
    t->source = (struct str){ mem_string(source.ptr, source.len), source.len };
    if (tokens) {
        const struct str given[CHAT_TOKENS] = { tokens->bos, tokens->eos, tokens->pad,
                                                tokens->unk };
        for (int i = 0; i < CHAT_TOKENS; i++)
            if (given[i].len)
                t->tokens[i] = mem_string(given[i].ptr, given[i].len);
    }
    enum status status = jinja_compile(t->source, &t->jinja, err);
    if (status != STATUS_OK) {
        chat_template_free(t);
        return status;
    }
    chat_probe(t);
    *out = t;
    return STATUS_OK;
}

void chat_template_free(struct chat_template *t)
{
    if (!t)
        return;
    jinja_free(t->jinja);
    mem_free((char *)(uintptr_t)t->source.ptr); /* ours, see chat_template_new() */
    for (int i = 0; i < CHAT_TOKENS; i++)
        mem_free(t->tokens[i]);
    mem_free(t);
}

bool chat_template_is_fallback(const struct chat_template *t)
{
    return t->is_fallback;
}

const struct chat_template_caps *chat_template_caps(const struct chat_template *t)
{
    return &t->caps;
}

struct str chat_template_source(const struct chat_template *t)
{
    return t->source;
}

enum status chat_render_raw(const struct chat_template *t, json_t *variables, int64_t now,
                            struct jinja_output *out, struct error *err)
{
    const struct jinja_options options = { .trusted = chat_token_names, .now = now };
    for (int i = 0; i < CHAT_TOKENS; i++) {
        /* Never the caller's: what stands under these names counts as the template's own text. */
        (void)json_object_del(variables, chat_token_names[i]);
        if (t->tokens[i])
            json_object_set_new(variables, chat_token_names[i], json_string(t->tokens[i]));
        else if (i == CHAT_BOS || i == CHAT_EOS)
            json_object_set_new(variables, chat_token_names[i], json_string(""));
    }
    return jinja_render(t->jinja, variables, &options, out, err);
}

/* A tools list that is null or empty counts as none. */
static void drop_empty_tools(json_t *variables)
{
    const json_t *tools = json_object_get(variables, "tools");
    if (tools && (json_is_null(tools) || json_array_size(tools) == 0))
        (void)json_object_del(variables, "tools");
}

enum status chat_template_render(const struct chat_template *t, const json_t *request, int64_t now,
                                 struct jinja_output *out, struct error *err)
{
    json_t *messages;
    *out = (struct jinja_output){ 0 };
    if (!json_is_object(request))
        return error_set(err, STATUS_INVALID, "a conversation must be an object with messages");
    TRY(chat_messages_repair(t, json_object_get(request, "messages"), &messages, err));
    json_t *variables = json_copy((json_t *)(uintptr_t)request); /* shallow; takes no const */
    json_object_set_new(variables, "messages", messages);
    if (!json_object_get(variables, "add_generation_prompt"))
        json_object_set_new(variables, "add_generation_prompt", json_true());
    drop_empty_tools(variables);
    enum status status = chat_render_raw(t, variables, now, out, err);
    json_decref(variables);
    return status == STATUS_OK ? status : error_prefix(err, "chat template");
}
