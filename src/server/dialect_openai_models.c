#include "server/dialect_openai_models.h"

#include <string.h>
#include <time.h>

#include "base/json.h"
#include "models/family.h"
#include "server/router.h"
#include "server/server_state.h"

static json_t *entry(const struct server *s, const char *id)
{
    const struct engine_model_info *info = engine_model_info(s->model);
    char created[32];
    time_t loaded = (time_t)s->started_unix;
    struct tm utc;
    gmtime_r(&loaded, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:i,s:i,s:{s:i,s:i,s:I,s:I}}", "id", id,
                     "object", "model", "created", (json_int_t)s->started_unix, "owned_by", "ingot",
                     "type", "model", "display_name", info->name, "created_at", created,
                     "context_length", info->context, "max_model_len", info->context, "meta",
                     "n_vocab", info->n_vocab, "n_ctx_train", info->context_trained, "n_params",
                     (json_int_t)info->n_parameters, "size", (json_int_t)info->file_bytes);
}

void openai_models_list(struct exchange *x)
{
    const struct server *s = x->server;
    json_t *data = json_array();
    json_array_append_new(data, entry(s, s->model_id));
    for (size_t i = 0; i < s->options.n_aliases; i++)
        json_array_append_new(data, entry(s, s->options.aliases[i]));
    json_t *value = json_pack("{s:s,s:o,s:b,s:s,s:s}", "object", "list", "data", data, "has_more",
                              0, "first_id", s->model_id, "last_id",
                              s->options.n_aliases ? s->options.aliases[s->options.n_aliases - 1]
                                                   : s->model_id);
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

static bool is_served(const struct server *s, struct str id)
{
    bool found = str_is(id, s->model_id);
    for (size_t i = 0; i < s->options.n_aliases; i++)
        found = found || str_is(id, s->options.aliases[i]);
    return found;
}

void openai_models_one(struct exchange *x)
{
    const struct server *s = x->server;
    const struct engine_model_info *info = engine_model_info(s->model);
    struct str id = router_rest(x);
    if (!is_served(s, id)) {
        exchange_error(x, 404, "model", "model_not_found",
                       "the model '%.*s' does not exist; this server has '%s'", STR_ARG(id),
                       s->model_id);
        return;
    }
    json_t *value = entry(s, x->path + strlen(x->route->path));
    json_object_set_new(value, "family", json_string(info->family));
    json_object_set_new(value, "quantization", json_string(info->type_name));
    json_object_set_new(value, "layers", json_integer(info->model->shape.n_layers));
    json_object_set_new(value, "capabilities", json_pack("[s,s]", "completion", "chat"));
    exchange_reply_json(x, 200, value);
    json_decref(value);
}
