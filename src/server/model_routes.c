#include "server/model_routes.h"

#include "base/json.h"
#include "server/model_choice.h"
#include "server/request_fields.h"
#include "server/request_log.h"
#include "server/server_state.h"

static void reply_done(struct exchange *x)
{
    json_t *value = json_pack("{s:b}", "success", 1);
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

void model_routes_load(struct exchange *x)
{
    reply_done(x); /* the loader holds it */
}

void model_routes_unload(struct exchange *x)
{
    struct error err = { 0 };
    if (model_shelf_unload(&x->server->shelf, x->wanted, &err) != STATUS_OK)
        exchange_error(x, 409, "model", NULL, "%s", err.message);
    else
        reply_done(x);
}
