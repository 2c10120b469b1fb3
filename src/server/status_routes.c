#include "server/status_routes.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "models/family.h"
#include "server/http_check.h"
#include "server/model_choice.h"
#include "server/server_state.h"
#include "text/template/chat_template.h"

static const char *state_name(const struct server *s)
{
    return atomic_load(&s->draining) ? "draining" : atomic_load(&s->loading) ? "loading" : "ok";
}

static void reply_state(struct exchange *x, const json_t *value)
{
    bool ready = !atomic_load(&x->server->draining) && !atomic_load(&x->server->loading);
    exchange_reply_json(x, ready ? 200 : 503, value);
    if (!ready)
        x->retry_after = "1";
}

/* Whether the caller may see more than the status. */
static bool knows_key(struct exchange *x)
{
    bool known = http_check_key(x);
    x->phase = EXCHANGE_BODY;
    x->row.reason[0] = 0;
    return known;
}

static json_t *numbers_json(struct server *s)
{
    struct engine_status now;
    engine_status(s->engine, &now);
    const struct shelf_model *m = &s->shelf.entry[0];
    return json_pack("{s:s,s:I,s:f,s:b,s:i,s:i,s:i,s:{s:I,s:I}}", "model", m->id, "loaded_at",
                     (json_int_t)s->started_unix, "uptime_s", clock_seconds() - s->started, "busy",
                     now.n_running > 0, "active_requests", now.n_running, "queued_requests",
                     now.n_waiting, "request_capacity", s->options.concurrency, "pages", "used",
                     (json_int_t)now.pages_used, "all", (json_int_t)now.pages_all);
}

/* The same parts, with the same names, as `ingot plan --json` tells before. */
static json_t *memory_json(const struct server *s, const struct engine_model_info *info)
{
    struct engine_status now;
    engine_status(s->engine, &now);
    return json_pack("{s:I,s:I,s:I,s:I,s:I}", "weights", (json_int_t)info->weight_bytes, "kv",
                     (json_int_t)info->kv_bytes, "scratch", (json_int_t)info->scratch_bytes,
                     "host_cache", (json_int_t)now.host_cache_bytes, "file",
                     (json_int_t)info->file_bytes);
}

/* Of the first model, while it is loaded. */
static void add_memory(json_t *value, struct exchange *x)
{
    struct server *s = x->server;
    if (!model_shelf_try_acquire(&s->shelf, &s->shelf.entry[0]))
        return;
    const struct engine_model_info *info = engine_model_info(s->shelf.entry[0].model);
    json_object_set_new(value, "context", json_integer(info->context));
    json_object_set_new(value, "memory", memory_json(s, info));
    model_shelf_release_model(&s->shelf, &s->shelf.entry[0], false);
}

void status_health(struct exchange *x)
{
    struct server *s = x->server;
    json_t *value = json_pack("{s:s}", "status", state_name(s));
    if (knows_key(x)) {
        json_t *more = numbers_json(s);
        json_object_update(value, more);
        json_decref(more);
        add_memory(value, x);
    }
    reply_state(x, value);
    json_decref(value);
}

void status_live(struct exchange *x)
{
    json_t *value = json_pack("{s:s}", "status", "ok");
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

void status_ready(struct exchange *x)
{
    json_t *value = json_pack("{s:s}", "status", state_name(x->server));
    reply_state(x, value);
    json_decref(value);
}

void status_version(struct exchange *x)
{
    json_t *value = json_pack("{s:s,s:s}", "name", "ingot", "version", INGOT_VERSION);
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

static json_t *sampling_json(const struct server *s, const struct engine_model_info *info)
{
    struct sampling merged = info->defaults;
    sampling_merge(&merged, &s->options.sampling);
    json_t *value = json_object(), *source = json_object();
#define PUT(name, type, fallback, low, high) \
    json_object_set_new(value, #name, json_real((double)merged.name)); \
    json_object_set_new(source, #name, \
                        json_string(s->options.sampling.given & 1u << SAMPLING_##name \
                                        ? "flag" \
                                        : info->default_source[SAMPLING_##name]));
    SAMPLING_FIELDS(PUT)
#undef PUT
    return json_pack("{s:o,s:o}", "params", value, "source", source);
}

static json_t *limits_json(const struct server *s)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "body_bytes",
                     (json_int_t)LIMIT_BODY_BYTES, "header_line_bytes",
                     (json_int_t)LIMIT_HEADER_LINE_BYTES, "headers_bytes",
                     (json_int_t)LIMIT_HEADERS_BYTES, "headers", (json_int_t)LIMIT_HEADER_COUNT,
                     "requests", s->options.concurrency, "connections", s->options.max_connections,
                     "stop_strings", LIMIT_STOP_STRINGS, "stop_bytes", LIMIT_STOP_BYTES, "n",
                     LIMIT_N, "top_logprobs", LIMIT_TOP_LOGPROBS, "logit_bias", LIMIT_LOGIT_BIAS);
}

void status_props(struct exchange *x)
{
    const struct server *s = x->server;
    struct shelf_model *m = model_look(x);
    if (!m)
        return;
    if (!x->served) {
        x->retry_after = "5";
        exchange_error(x, 503, "model", NULL, "the model '%s' is not loaded now", m->id);
        return;
    }
    const struct engine_model_info *info = exchange_model(x);
    struct str source = chat_template_source(info->chat);
    json_t *value = json_pack(
        "{s:s,s:s,s:s,s:i,s:i,s:i,s:o,s:o,s:s,s:{s:b,s:b},s:[s,s,s],s:o}", "model_path", info->path,
        "model_alias", m->id, "build_info", "ingot " INGOT_VERSION, "context", info->context,
        "total_slots", info->n_sequences, "max_output_tokens", s->options.max_output_tokens,
        "default_generation_settings", sampling_json(s, info), "chat_template",
        json_stringn(source.ptr ? source.ptr : "", source.len), "chat_template_source",
        info->chat_is_fallback ? "fallback" : "model", "modalities", "vision", 0, "image_out", 0,
        "capabilities", "completion", "chat", "logprobs", "limits", limits_json(s));
    json_object_set_new(value, "memory", memory_json(s, info));
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

void status_root(struct exchange *x)
{
    struct strbuf page;
    strbuf_init(&page, 1u << 16);
    strbuf_printf(&page,
                  "ingot %s serves %s.\n\nPOST /v1/chat/completions\nPOST /v1/completions\n"
                  "GET  /v1/models\nGET  /health\n",
                  INGOT_VERSION, x->server->shelf.entry[0].id);
    exchange_reply_text(x, 200, "text/plain; charset=utf-8", strbuf_str(&page));
    strbuf_release(&page);
}
