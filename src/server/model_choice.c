#include "server/model_choice.h"

#include <string.h>

#include "base/json.h"
#include "server/request_fields.h"
#include "server/router.h"
#include "server/server_state.h"

void model_unknown(struct exchange *x, struct str name)
{
    const struct model_shelf *shelf = &x->server->shelf;
    struct strbuf known;
    strbuf_init(&known, 1u << 12);
    for (size_t i = 0; i < shelf->n; i++)
        strbuf_printf(&known, "%s'%s'", i ? ", " : "", shelf->entry[i].id);
    exchange_error(x, 404, "model", "model_not_found",
                   "the model '%.*s' does not exist; this server has %.*s", STR_ARG(name),
                   STR_ARG(strbuf_str(&known)));
    strbuf_release(&known);
}

void model_not_served(struct exchange *x, const struct shelf_model *m, const struct error *err)
{
    bool busy = err->status == STATUS_EXHAUSTED || err->status == STATUS_NO_MEMORY;
    int status = busy ? 503 : err->status == STATUS_NOT_FOUND ? 404 : 500;
    exchange_error(x, status, "model", NULL, "the model '%s' cannot be served: %s", m->id,
                   err->message);
    if (busy)
        x->retry_after = "5";
}

bool model_choose(struct exchange *x)
{
    struct server *s = x->server;
    bool by_name = x->route->flags & (ROUTE_LOADS | ROUTE_UNLOADS);
    const json_t *named = field_get(x->json, "model");
    if (named ? !json_is_string(named) : by_name) {
        exchange_error(x, 400, "model", NULL, "model: expected the name of a model");
        return false;
    }
    x->wanted = named ? model_shelf_find(&s->shelf, json_str(named)) : NULL;
    if (named && !x->wanted && (by_name || s->options.strict_model)) {
        model_unknown(x, json_str(named));
        return false;
    }
    if (!x->wanted)
        x->wanted = &s->shelf.entry[0];
    if (!by_name && model_shelf_try_acquire(&s->shelf, x->wanted))
        x->served = x->wanted;
    return true;
}

struct shelf_model *model_look(struct exchange *x)
{
    struct server *s = x->server;
    struct str name = exchange_query(x, "model");
    struct shelf_model *m = name.len ? model_shelf_find(&s->shelf, name) : &s->shelf.entry[0];
    if (!m)
        model_unknown(x, name);
    else if (model_shelf_try_acquire(&s->shelf, m))
        x->served = m;
    return m;
}
