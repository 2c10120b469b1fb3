#include "server/model_choice.h"

#include <string.h>

#include "base/json.h"
#include "server/request_fields.h"
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

bool model_choose(struct exchange *x, bool may_load)
{
    struct server *s = x->server;
    struct error err = { 0 };
    const json_t *named = field_get(x->json, "model");
    if (named && !json_is_string(named)) {
        exchange_error(x, 400, "model", NULL, "model: expected a string");
        return false;
    }
    struct shelf_model *m = &s->shelf.entry[0];
    if (named) {
        m = model_shelf_find(&s->shelf, json_str(named));
        if (!m && s->options.strict_model) {
            model_unknown(x, json_str(named));
            return false;
        }
        m = m ? m : &s->shelf.entry[0];
    }
    if (model_shelf_try_acquire(&s->shelf, m)) {
        x->served = m;
        return true;
    }
    if (!may_load)
        return false;
    if (model_shelf_acquire(&s->shelf, m, false, &err) == STATUS_OK) {
        x->served = m;
        return true;
    }
    model_not_served(x, m, &err);
    return false;
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
