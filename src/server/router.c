#include "server/router.h"

#include <string.h>

#include "server/dialect_llama.h"
#include "server/dialect_openai_chat.h"
#include "server/dialect_openai_completions.h"
#include "server/dialect_openai_models.h"
#include "server/metrics_routes.h"
#include "server/model_routes.h"
#include "server/session_routes.h"
#include "server/slot_routes.h"
#include "server/status_routes.h"

static const struct route routes[] = {
    { "/v1/chat/completions", ROUTE_POST | ROUTE_MODEL, "chat", openai_chat_handle },
    { "/chat/completions", ROUTE_POST | ROUTE_MODEL, "chat", openai_chat_handle },
    { "/v1/completions", ROUTE_POST | ROUTE_MODEL, "complete", openai_completions_handle },
    { "/completions", ROUTE_POST | ROUTE_MODEL, "complete", openai_completions_handle },
    { "/v1/models", ROUTE_GET | ROUTE_INLINE, NULL, openai_models_list },
    { "/models", ROUTE_GET | ROUTE_INLINE, NULL, openai_models_list },
    { "/v1/models/", ROUTE_GET | ROUTE_INLINE | ROUTE_PREFIX, NULL, openai_models_one },
    { "/models/load", ROUTE_POST | ROUTE_LOADS, NULL, model_routes_load },
    { "/models/unload", ROUTE_POST | ROUTE_UNLOADS, NULL, model_routes_unload },
    { "/tokenize", ROUTE_POST | ROUTE_MODEL, NULL, llama_tokenize },
    { "/detokenize", ROUTE_POST | ROUTE_MODEL, NULL, llama_detokenize },
    { "/health", ROUTE_GET | ROUTE_OPEN | ROUTE_INLINE, NULL, status_health },
    { "/healthz", ROUTE_GET | ROUTE_OPEN | ROUTE_INLINE, NULL, status_live },
    { "/livez", ROUTE_GET | ROUTE_OPEN | ROUTE_INLINE, NULL, status_live },
    { "/readyz", ROUTE_GET | ROUTE_OPEN | ROUTE_INLINE, NULL, status_ready },
    { "/version", ROUTE_GET | ROUTE_INLINE, NULL, status_version },
    { "/metrics", ROUTE_GET | ROUTE_INLINE | ROUTE_METRICS, NULL, metrics_text },
    { "/metrics/json", ROUTE_GET | ROUTE_INLINE | ROUTE_METRICS, NULL, metrics_json },
    { "/slots", ROUTE_GET | ROUTE_INLINE, NULL, slot_routes_list },
    { "/v1/sessions", ROUTE_GET, NULL, session_routes_list },
    { "/v1/sessions/", ROUTE_GET | ROUTE_POST | ROUTE_DELETE | ROUTE_PREFIX, NULL,
      session_routes_one },
    { "/props", ROUTE_GET | ROUTE_INLINE, NULL, status_props },
    { "/", ROUTE_GET | ROUTE_OPEN | ROUTE_INLINE, NULL, status_root },
};

const struct route *router_find(struct str path)
{
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        struct str own = str_of(routes[i].path);
        if (routes[i].flags & ROUTE_PREFIX ? str_starts(path, own) && path.len > own.len
                                           : str_eq(path, own))
            return &routes[i];
    }
    return NULL;
}

bool router_allows(const struct route *r, struct str method)
{
    return ((r->flags & ROUTE_GET) && (str_is(method, "GET") || str_is(method, "HEAD"))) ||
           ((r->flags & ROUTE_POST) && str_is(method, "POST")) ||
           ((r->flags & ROUTE_DELETE) && str_is(method, "DELETE"));
}

const char *router_allow_header(const struct route *r)
{
    switch (r->flags & (ROUTE_GET | ROUTE_POST | ROUTE_DELETE)) {
    case ROUTE_GET:
        return "GET, HEAD, OPTIONS";
    case ROUTE_POST:
        return "POST, OPTIONS";
    case ROUTE_GET | ROUTE_POST:
        return "GET, HEAD, POST, OPTIONS";
    case ROUTE_GET | ROUTE_DELETE:
        return "GET, HEAD, DELETE, OPTIONS";
    default:
        return "GET, HEAD, POST, DELETE, OPTIONS";
    }
}

struct str router_rest(const struct exchange *x)
{
    struct str path = str_of(x->path);
    return str_slice(path, strlen(x->route->path), path.len);
}
