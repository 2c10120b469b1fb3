#include "server/dialect_openai_models.h"

#include <string.h>
#include <time.h>

#include "base/json.h"
#include "models/family.h"
#include "server/model_choice.h"
#include "server/router.h"
#include "server/server_state.h"

static const char *state_name(enum shelf_state state)
{
    switch (state) {
    case SHELF_LOADED:
        return "loaded";
    case SHELF_LOADING:
        return "loading";
    case SHELF_UNLOADED:
        break;
    }
    return "unloaded";
}

/* What is known without the model itself. */
static json_t *entry(const struct server *s, const char *id, enum shelf_state state)
{
    char created[32];
    time_t started = (time_t)s->started_unix;
    struct tm utc;
    gmtime_r(&started, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:{s:s}}", "id", id, "object", "model",
                     "created", (json_int_t)s->started_unix, "owned_by", "ingot", "type", "model",
                     "display_name", id, "created_at", created, "status", "value",
                     state_name(state));
}

static void add_sizes(json_t *value, const struct engine_model_info *info)
{
    json_t *more =
        json_pack("{s:s,s:i,s:i,s:{s:i,s:i,s:I,s:I}}", "display_name", info->name, "context_length",
                  info->context, "max_model_len", info->context, "meta", "n_vocab", info->n_vocab,
                  "n_ctx_train", info->context_trained, "n_params", (json_int_t)info->n_parameters,
                  "size", (json_int_t)info->file_bytes);
    json_object_update(value, more);
    json_decref(more);
}

static void add_entries(json_t *data, struct server *s, struct shelf_model *m)
{
    bool held = model_shelf_try_acquire(&s->shelf, m);
    enum shelf_state state = model_shelf_state(&s->shelf, m);
    for (size_t i = 0; i <= m->n_aliases; i++) {
        json_t *value = entry(s, i == 0 ? m->id : m->aliases[i - 1], state);
        if (held)
            add_sizes(value, engine_model_info(m->model));
        json_array_append_new(data, value);
    }
    if (held)
        model_shelf_release_model(&s->shelf, m, false);
}

void openai_models_list(struct exchange *x)
{
    struct server *s = x->server;
    json_t *data = json_array();
    for (size_t i = 0; i < s->shelf.n; i++)
        add_entries(data, s, &s->shelf.entry[i]);
    const json_t *last = json_array_get(data, json_array_size(data) - 1);
    json_t *value = json_pack("{s:s,s:O,s:b,s:s,s:s}", "object", "list", "data", data, "has_more",
                              0, "first_id", s->shelf.entry[0].id, "last_id",
                              json_string_value(json_object_get(last, "id")));
    exchange_reply_json(x, 200, value);
    json_decref(value);
    json_decref(data);
}

static void add_descriptor(json_t *value, const struct engine_model_info *info)
{
    add_sizes(value, info);
    json_object_set_new(value, "family", json_string(info->family));
    json_object_set_new(value, "quantization", json_string(info->type_name));
    json_object_set_new(value, "layers", json_integer(info->model->shape.n_layers));
    json_object_set_new(value, "capabilities", json_pack("[s,s]", "completion", "chat"));
}

void openai_models_one(struct exchange *x)
{
    struct server *s = x->server;
    struct str id = router_rest(x);
    struct shelf_model *m = model_shelf_find(&s->shelf, id);
    if (!m) {
        model_unknown(x, id);
        return;
    }
    if (model_shelf_try_acquire(&s->shelf, m))
        x->served = m;
    json_t *value = entry(s, x->path + strlen(x->route->path), model_shelf_state(&s->shelf, m));
    if (x->served)
        add_descriptor(value, exchange_model(x));
    exchange_reply_json(x, 200, value);
    json_decref(value);
}
