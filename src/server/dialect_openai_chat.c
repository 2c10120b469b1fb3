#include "server/dialect_openai_chat.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/chat_prompt.h"
#include "server/openai_common.h"
#include "server/server_state.h"

static json_t *chunk(const struct exchange *x, const struct generation *g, json_t *choices)
{
    json_t *value =
        json_pack("{s:s,s:s,s:I,s:s,s:s,s:o}", "id", g->id, "object", "chat.completion.chunk",
                  "created", (json_int_t)g->created, "model", x->served->id, "system_fingerprint",
                  "ingot-" INGOT_VERSION, "choices", choices);
    if (g->fields.include_usage)
        json_object_set_new(value, "usage", json_null());
    return value;
}

/* One chunk of one choice. `delta`, `logprobs` are taken over. */
static void send_delta(struct exchange *x, const struct generation *g, int32_t choice,
                       json_t *delta, json_t *logprobs, const char *finish)
{
    json_t *value =
        chunk(x, g,
              json_pack("[{s:i,s:o,s:o,s:s?}]", "index", choice, "delta", delta, "logprobs",
                        logprobs ? logprobs : json_null(), "finish_reason", finish));
    exchange_frame(x, NULL, value);
    json_decref(value);
}

static void start_choice(struct exchange *x, struct generation *g, int32_t i)
{
    if (g->choice[i].started)
        return;
    g->choice[i].started = true;
    send_delta(x, g, i, json_pack("{s:s,s:s}", "role", "assistant", "content", ""), NULL, NULL);
}

static void on_token(struct exchange *x, struct generation *g, int32_t i, const struct event *e)
{
    struct generation_choice *c = &g->choice[i];
    json_t *logprob = g->n_logprobs >= 0 && e->token >= 0 ? openai_logprob(x, e) : NULL;
    if (g->fields.stream) {
        start_choice(x, g, i);
        if (e->text.len == 0 && !logprob)
            return;
        send_delta(x, g, i, json_pack("{s:o}", "content", openai_text(e->text)),
                   logprob ? json_pack("{s:[o],s:n}", "content", logprob, "refusal") : NULL, NULL);
        return;
    }
    strbuf_add(&c->text, e->text);
    if (logprob && !c->logprobs)
        c->logprobs = json_array();
    if (logprob)
        json_array_append_new(c->logprobs, logprob);
}

static void on_choice_end(struct exchange *x, struct generation *g, int32_t i)
{
    if (!g->fields.stream)
        return;
    start_choice(x, g, i);
    send_delta(x, g, i, json_object(), NULL, generation_finish_name(g->choice[i].finish));
}

static void end_stream(struct exchange *x, struct generation *g)
{
    if (g->fields.include_usage) {
        json_t *value = chunk(x, g, json_array());
        json_object_set_new(value, "usage", generation_usage_json(g));
        json_object_set_new(value, "timings", generation_timings_json(g));
        exchange_frame(x, NULL, value);
        json_decref(value);
    }
    exchange_frame_text(x, "[DONE]");
    x->stream_ended = true;
}

static void on_end(struct exchange *x, struct generation *g)
{
    if (g->fields.stream) {
        end_stream(x, g);
        return;
    }
    json_t *choices = json_array();
    for (int32_t i = 0; i < g->n_choices; i++) {
        struct generation_choice *c = &g->choice[i];
        json_t *logprobs =
            c->logprobs ? json_pack("{s:O,s:n}", "content", c->logprobs, "refusal") : json_null();
        json_array_append_new(choices, json_pack("{s:i,s:{s:s,s:o,s:n},s:o,s:s}", "index", i,
                                                 "message", "role", "assistant", "content",
                                                 openai_text(strbuf_str(&c->text)), "refusal",
                                                 "logprobs", logprobs, "finish_reason",
                                                 generation_finish_name(c->finish)));
    }
    json_t *value =
        json_pack("{s:s,s:s,s:I,s:s,s:s,s:o,s:o,s:o}", "id", g->id, "object", "chat.completion",
                  "created", (json_int_t)g->created, "model", x->served->id, "system_fingerprint",
                  "ingot-" INGOT_VERSION, "choices", choices, "usage", generation_usage_json(g),
                  "timings", generation_timings_json(g));
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

static const struct generation_dialect dialect = { NULL, on_token, on_choice_end, on_end };

static bool refuse(struct exchange *x, const char *param, const char *text)
{
    exchange_error(x, 400, param, NULL, "%s: %s", param, text);
    return false;
}

/* Fields whose meaning would be lost are refused, their neutral values pass. */
static bool check_unsupported(struct exchange *x)
{
    const json_t *body = x->json;
    const json_t *tools = field_get(body, "tools"), *choice = field_get(body, "tool_choice");
    const json_t *functions = field_get(body, "functions");
    bool none = json_is_string(choice) && strcmp(json_string_value(choice), "none") == 0;
    if (tools && !json_is_array(tools))
        return refuse(x, "tools", "expected a list");
    if (json_array_size(tools) > 0 && !none)
        return refuse(x, "tools",
                      "tool calls are not supported by this version; tool_choice \"none\" is");
    if (json_array_size(functions) > 0)
        return refuse(x, "functions", "tool calls are not supported by this version");
    const json_t *format = field_get(body, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && (!type || strcmp(type, "text") != 0))
        return refuse(x, "response_format",
                      "only {\"type\": \"text\"} is supported by this version");
    const json_t *modalities = field_get(body, "modalities");
    size_t i;
    json_t *mode;
    json_array_foreach(modalities, i, mode)
    {
        if (!json_is_string(mode) || strcmp(json_string_value(mode), "text") != 0)
            return refuse(x, "modalities", "only [\"text\"] is supported");
    }
    return true;
}

static bool read_logprobs(struct exchange *x, struct generation *g)
{
    struct error err = { 0 };
    bool wanted = false;
    int64_t top = 0;
    const char *param = "logprobs";
    enum status status = field_bool(x->json, param, &wanted, &err);
    if (status == STATUS_OK) {
        param = "top_logprobs";
        status = field_int(x->json, param, 0, LIMIT_TOP_LOGPROBS, &top, &err);
    }
    if (status != STATUS_OK) {
        exchange_error(x, 400, param, NULL, "%s", err.message);
        return false;
    }
    if (top > 0 && !wanted)
        return refuse(x, "top_logprobs", "needs logprobs: true");
    g->n_logprobs = wanted ? (int32_t)top : -1;
    return true;
}

/* The turn to replay under --script: counted by the assistant turns of the conversation. */
static void take_script(const struct exchange *x, struct generation *g)
{
    size_t turn = 0, i;
    json_t *message;
    json_array_foreach(json_object_get(x->json, "messages"), i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        turn += role && strcmp(role, "assistant") == 0;
    }
    if (turn < x->server->options.n_script)
        g->script = x->server->options.script[turn];
}

void openai_chat_handle(struct exchange *x)
{
    struct error err = { 0 };
    struct generation *g = generation_new(x, &dialect, "chatcmpl-");
    if (!check_unsupported(x) || !openai_read_fields(x, g) || !read_logprobs(x, g))
        return;
    g->prompts = mem_array(struct token_list, 1);
    g->n_prompts = 1;
    const char *param = NULL;
    if (chat_prompt_tokens(x, x->json, &g->prompts[0], &param, &err) != STATUS_OK) {
        exchange_error(x, 400, param, NULL, "%s", err.message);
        return;
    }
    take_script(x, g);
    generation_start(x, g);
}
