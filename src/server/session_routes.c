#include "server/session_routes.h"

#include <stdio.h>

#include "base/json.h"
#include "engine/session_file.h"
#include "server/request_fields.h"
#include "server/router.h"
#include "server/server_state.h"

void session_routes_list(struct exchange *x)
{
    json_t *value =
        json_pack("{s:s,s:o}", "object", "list", "data", engine_sessions(x->server->engine));
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

static void reply_error(struct exchange *x, const struct error *err)
{
    if (err->status == STATUS_CONFLICT)
        exchange_error(x, 409, "session", "session_conflict", "%s", err->message);
    else if (err->status == STATUS_NOT_FOUND)
        exchange_error(x, 404, "session", "session_not_found", "%s", err->message);
    else
        exchange_error_from(x, err);
}

static void show(struct exchange *x, const char *name)
{
    struct error err = { 0 };
    json_t *value;
    if (engine_session_show(x->server->engine, name, &value, &err) != STATUS_OK) {
        reply_error(x, &err);
        return;
    }
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

static void erase(struct exchange *x, const char *name)
{
    struct error err = { 0 };
    if (engine_session_delete(x->server->engine, name, &err) != STATUS_OK) {
        reply_error(x, &err);
        return;
    }
    json_t *value = json_pack("{s:s,s:b}", "name", name, "deleted", 1);
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

/* The name in the body. NULL: the exchange has its error. */
static const char *new_name(struct exchange *x)
{
    struct error err = { 0 };
    const json_t *name = field_get(x->json, "name");
    if (!json_is_string(name)) {
        exchange_error(x, 400, "name", NULL, "name: expected the new name of a session");
        return NULL;
    }
    if (session_name_check(json_str(name), &err) != STATUS_OK) {
        exchange_error(x, 400, "name", NULL, "%s", err.message);
        return NULL;
    }
    return json_string_value(name);
}

static void change(struct exchange *x, const char *name, bool forks)
{
    struct error err = { 0 };
    struct engine *e = x->server->engine;
    const char *to = new_name(x);
    if (!to)
        return;
    enum status status =
        forks ? engine_session_fork(e, name, to, &err) : engine_session_rename(e, name, to, &err);
    if (status == STATUS_OK)
        show(x, to);
    else
        reply_error(x, &err);
}

void session_routes_one(struct exchange *x)
{
    struct error err = { 0 };
    char name[SESSION_NAME_MOST + 1];
    struct str rest = router_rest(x), method = str_of(x->method);
    bool forks = str_ends(rest, STR("/fork"));
    if (forks)
        rest.len -= 5;
    if (session_name_check(rest, &err) != STATUS_OK) {
        exchange_error(x, 400, "session", NULL, "%s", err.message);
        return;
    }
    snprintf(name, sizeof name, "%.*s", STR_ARG(rest));
    if (str_is(method, "POST")) {
        change(x, name, forks);
    } else if (forks) {
        x->allow = "POST, OPTIONS";
        exchange_error(x, 405, NULL, NULL, "/v1/sessions/%s/fork takes POST", name);
    } else if (str_is(method, "DELETE")) {
        erase(x, name);
    } else {
        show(x, name);
    }
}
