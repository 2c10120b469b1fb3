/* http_daemon: libmicrohttpd's callbacks: from bytes to exchanges and back. */
#ifndef SERVER_HTTP_DAEMON_H
#define SERVER_HTTP_DAEMON_H

#include "base/error.h"

struct server;

MUST_CHECK enum status http_daemon_start(struct server *, struct error *);
void http_daemon_quiesce(struct server *); /* accepts no new connection */
void http_daemon_stop(struct server *);
/* The worker's function: parses the body and runs the route's handler. */
void http_daemon_work(void *exchange);

#endif
