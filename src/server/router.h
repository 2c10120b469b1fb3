/* router: the table of routes. A handler runs on a worker thread with the body complete; it ends
 * with a reply, an error, or a source that produces the answer (exchange.h). */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "server/exchange.h"

enum route_flags {
    ROUTE_GET = 1, /* and HEAD */
    ROUTE_POST = 2,
    ROUTE_DELETE = 4,
    ROUTE_OPEN = 8,    /* no API key needed */
    ROUTE_PREFIX = 16, /* the path may go on */
    ROUTE_INLINE = 32, /* quick: runs on the HTTP thread */
    ROUTE_MODEL = 128, /* about one model, which is loaded before the handler runs */
    ROUTE_LOADS = 256, /* loads the one that it names: the loader's work */
    ROUTE_UNLOADS = 512,
    ROUTE_METRICS = 64, /* open on loopback, or when the options say so */
};

struct route {
    const char *path;
    unsigned flags;
    const char *endpoint; /* name in the log; NULL: no row */
    void (*handle)(struct exchange *);
};

/* By path, without the query. NULL: none. */
const struct route *router_find(struct str path);
bool router_allows(const struct route *, struct str method);
const char *router_allow_header(const struct route *);
/* What follows a ROUTE_PREFIX route's path, percent-decoded by libmicrohttpd. */
struct str router_rest(const struct exchange *);

#endif
