#include "server/dialect_openai_completions.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/openai_common.h"
#include "server/server_state.h"

#define MAX_PROMPTS 64

static json_t *envelope(const struct exchange *x, const struct generation *g, json_t *choices)
{
    return json_pack("{s:s,s:s,s:I,s:s,s:s,s:o}", "id", g->id, "object", "text_completion",
                     "created", (json_int_t)g->created, "model", x->served->id,
                     "system_fingerprint", "ingot-" INGOT_VERSION, "choices", choices);
}

/* {tokens, token_logprobs, top_logprobs, text_offset}: columns, one entry per token. */
static json_t *new_columns(void)
{
    return json_pack("{s:[],s:[],s:[],s:[]}", "tokens", "token_logprobs", "top_logprobs",
                     "text_offset");
}

static void add_columns(const struct exchange *x, json_t *columns, const struct event *e,
                        size_t offset)
{
    json_t *top = json_object();
    for (int32_t i = 0; i < e->n_top; i++) {
        json_t *name = openai_token_text(x, e->top[i].token);
        json_object_set_new_nocheck(top, json_string_value(name), json_real(e->top[i].logprob));
        json_decref(name);
    }
    json_array_append_new(json_object_get(columns, "tokens"), openai_token_text(x, e->token));
    json_array_append_new(json_object_get(columns, "token_logprobs"),
                          isfinite(e->drawn.logprob) ? json_real(e->drawn.logprob) : json_null());
    json_array_append_new(json_object_get(columns, "top_logprobs"), top);
    json_array_append_new(json_object_get(columns, "text_offset"),
                          json_integer((json_int_t)offset));
}

static void send_text(struct exchange *x, const struct generation *g, int32_t i, struct str text,
                      json_t *logprobs, const char *finish)
{
    json_t *value =
        envelope(x, g,
                 json_pack("[{s:i,s:o,s:o,s:s?}]", "index", i, "text", openai_text(text),
                           "logprobs", logprobs ? logprobs : json_null(), "finish_reason", finish));
    if (g->fields.include_usage)
        json_object_set_new(value, "usage", json_null());
    exchange_frame(x, NULL, value);
    json_decref(value);
}

/* echo: the prompt's own text comes before the first token. */
static void start_choice(struct exchange *x, struct generation *g, int32_t i)
{
    struct generation_choice *c = &g->choice[i];
    if (c->started)
        return;
    c->started = true;
    if (!g->echo)
        return;
    const struct token_list *prompt = &g->prompts[c->prompt];
    struct error err;
    if (tokenizer_decode(exchange_model(x)->tokenizer, prompt->ids, prompt->n,
                         &c->text, &err) != STATUS_OK)
        strbuf_clear(&c->text);
    if (!g->echo_logprobs)
        c->logprob_offset = utf8_count(strbuf_str(&c->text));
    if (g->fields.stream)
        send_text(x, g, i, strbuf_str(&c->text), NULL, NULL);
}

static void on_prompt(struct exchange *x, struct generation *g, int32_t i, const struct event *e)
{
    struct generation_choice *c = &g->choice[i];
    start_choice(x, g, i);
    if (!c->logprobs)
        c->logprobs = new_columns();
    add_columns(x, c->logprobs, e, c->logprob_offset);
    c->logprob_offset +=
        utf8_count(tokenizer_bytes(exchange_model(x)->tokenizer, e->token));
}

/* In a stream the prompt's columns go out in one frame before the first token. */
static void send_prompt_columns(struct exchange *x, struct generation *g, int32_t i)
{
    struct generation_choice *c = &g->choice[i];
    if (!g->fields.stream || !c->logprobs)
        return;
    send_text(x, g, i, STR(""), c->logprobs, NULL);
    c->logprobs = NULL;
}

static void on_token(struct exchange *x, struct generation *g, int32_t i, const struct event *e)
{
    struct generation_choice *c = &g->choice[i];
    start_choice(x, g, i);
    send_prompt_columns(x, g, i);
    bool logprobs = g->n_logprobs >= 0 && e->token >= 0;
    if (g->fields.stream) {
        json_t *columns = logprobs ? new_columns() : NULL;
        if (columns)
            add_columns(x, columns, e, c->logprob_offset);
        if (e->text.len || columns)
            send_text(x, g, i, e->text, columns, NULL);
    } else {
        if (logprobs && !c->logprobs)
            c->logprobs = new_columns();
        if (logprobs)
            add_columns(x, c->logprobs, e, c->logprob_offset);
        strbuf_add(&c->text, e->text);
    }
    c->logprob_offset += utf8_count(e->text);
}

static void on_choice_end(struct exchange *x, struct generation *g, int32_t i)
{
    start_choice(x, g, i);
    if (g->fields.stream)
        send_text(x, g, i, STR(""), NULL, generation_finish_name(g->choice[i].finish));
}

static void on_end(struct exchange *x, struct generation *g)
{
    if (g->fields.stream) {
        if (g->fields.include_usage) {
            json_t *value = envelope(x, g, json_array());
            json_object_set_new(value, "usage", generation_usage_json(g));
            exchange_frame(x, NULL, value);
            json_decref(value);
        }
        exchange_frame_text(x, "[DONE]");
        x->stream_ended = true;
        return;
    }
    json_t *choices = json_array();
    for (int32_t i = 0; i < g->n_choices; i++) {
        struct generation_choice *c = &g->choice[i];
        json_t *logprobs = c->logprobs ? json_incref(c->logprobs) : json_null();
        json_array_append_new(choices,
                              json_pack("{s:i,s:o,s:o,s:s}", "index", i, "text",
                                        openai_text(strbuf_str(&c->text)), "logprobs", logprobs,
                                        "finish_reason", generation_finish_name(c->finish)));
    }
    json_t *value = envelope(x, g, choices);
    json_object_set_new(value, "usage", generation_usage_json(g));
    json_object_set_new(value, "timings", generation_timings_json(g));
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

static const struct generation_dialect dialect = { on_prompt, on_token, on_choice_end, on_end };

static bool bad_prompt(struct exchange *x)
{
    exchange_error(x, 400, "prompt", NULL,
                   "prompt: expected a string, a list of strings, a list of "
                   "token ids, or a list of such lists (at most %d)",
                   MAX_PROMPTS);
    return false;
}

static bool encode_text(struct exchange *x, struct str text, struct token_list *out)
{
    struct error err = { 0 };
    unsigned flags = TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL;
    if (tokenizer_encode(exchange_model(x)->tokenizer, text, flags, out, &err) ==
        STATUS_OK)
        return true;
    exchange_error(x, 400, "prompt", NULL, "prompt: %s", err.message);
    return false;
}

static bool take_ids(struct exchange *x, const json_t *ids, struct token_list *out)
{
    int32_t n_vocab = exchange_model(x)->n_vocab;
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id)
    {
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id))
            return bad_prompt(x);
        if (value < 0 || value >= n_vocab) {
            exchange_error(x, 400, "prompt", NULL,
                           "prompt: token %lld is outside the vocabulary of %d", (long long)value,
                           n_vocab);
            return false;
        }
        token_list_add(out, (int32_t)value);
    }
    return true;
}

static bool read_prompts(struct exchange *x, struct generation *g)
{
    const json_t *prompt = field_get(x->json, "prompt");
    const json_t *first = json_array_get(prompt, 0);
    bool many = json_is_string(first) || json_is_array(first);
    size_t n = many ? json_array_size(prompt) : 1;
    if (n > MAX_PROMPTS || (json_is_array(prompt) && json_array_size(prompt) == 0))
        return bad_prompt(x);
    g->prompts = mem_array(struct token_list, n);
    g->n_prompts = (int32_t)n;
    if (!prompt)
        return encode_text(x, STR(""), &g->prompts[0]);
    if (json_is_string(prompt))
        return encode_text(x, json_str(prompt), &g->prompts[0]);
    if (!json_is_array(prompt))
        return bad_prompt(x);
    if (!many)
        return take_ids(x, prompt, &g->prompts[0]);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(prompt, i);
        if (json_is_string(one)   ? !encode_text(x, json_str(one), &g->prompts[i])
            : !json_is_array(one) ? !bad_prompt(x)
                                  : !take_ids(x, one, &g->prompts[i]))
            return false;
    }
    return true;
}

static bool read_own_fields(struct exchange *x, struct generation *g)
{
    struct error err = { 0 };
    int64_t logprobs = -1, best_of = g->fields.n;
    const char *wrong = NULL;
    if (field_bool(x->json, "echo", &g->echo, &err) != STATUS_OK)
        wrong = "echo";
    else if (field_int(x->json, "best_of", 1, LIMIT_N, &best_of, &err) != STATUS_OK)
        wrong = "best_of";
    else if (!json_is_boolean(field_get(x->json, "logprobs")) &&
             field_int(x->json, "logprobs", 0, LIMIT_TOP_LOGPROBS, &logprobs, &err) != STATUS_OK)
        wrong = "logprobs";
    if (wrong) {
        exchange_error(x, 400, wrong, NULL, "%s", err.message);
        return false;
    }
    if (json_is_true(field_get(x->json, "logprobs")))
        logprobs = 0;
    g->n_logprobs = (int32_t)logprobs;
    g->echo_logprobs = g->echo && logprobs >= 0;
    const json_t *suffix = field_get(x->json, "suffix");
    const char *refused = suffix && json_str(suffix).len ? "suffix"
                          : best_of != g->fields.n       ? "best_of"
                                                         : NULL;
    if (!refused)
        return true;
    exchange_error(x, 400, refused, NULL, "%s: %s", refused,
                   refused[0] == 's' ? "filling in the middle is not supported by this version"
                                     : "must equal n: choices are not ranked by this version");
    return false;
}

void openai_completions_handle(struct exchange *x)
{
    struct generation *g = generation_new(x, &dialect, "cmpl-");
    if (openai_read_fields(x, g) && read_own_fields(x, g) &&
        read_prompts(x, g))
        generation_start(x, g);
}
