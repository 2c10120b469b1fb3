#include "server/model_routes.h"

#include "base/json.h"
#include "server/model_choice.h"
#include "server/request_fields.h"
#include "server/request_log.h"
#include "server/server_state.h"

/* NULL: the exchange has its error. */
static struct shelf_model *named_model(struct exchange *x)
{
    const json_t *name = field_get(x->json, "model");
    if (!json_is_string(name)) {
        exchange_error(x, 400, "model", NULL, "model: expected the name of a model");
        return NULL;
    }
    struct shelf_model *m = model_shelf_find(&x->server->shelf, json_str(name));
    if (!m)
        model_unknown(x, json_str(name));
    return m;
}

static void reply_done(struct exchange *x)
{
    json_t *value = json_pack("{s:b}", "success", 1);
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

void model_routes_load(struct exchange *x)
{
    struct error err = { 0 };
    struct shelf_model *m = named_model(x);
    if (!m)
        return;
    enum status status = model_shelf_acquire(&x->server->shelf, m, true, &err);
    if (status != STATUS_OK) {
        model_not_served(x, m, &err);
        return;
    }
    x->served = m;
    reply_done(x);
}

void model_routes_unload(struct exchange *x)
{
    struct error err = { 0 };
    struct shelf_model *m = named_model(x);
    if (!m)
        return;
    if (model_shelf_unload(&x->server->shelf, m, &err) != STATUS_OK)
        exchange_error(x, 409, "model", NULL, "%s", err.message);
    else
        reply_done(x);
}
