/* http_daemon: libmicrohttpd's callbacks: from bytes to exchanges and back. */
#ifndef SERVER_HTTP_DAEMON_H
#define SERVER_HTTP_DAEMON_H

#include "base/error.h"

struct server;

MUST_CHECK enum status http_daemon_start(struct server *, struct error *);
void http_daemon_quiesce(struct server *); /* accepts no new connection */
void http_daemon_stop(struct server *);
/* The workers' function: parses the body and runs the route's handler. What needs a model that is
 * not loaded goes on to the loader, so that it holds up nobody else. */
void http_daemon_work(void *exchange);
void http_daemon_work_loading(void *exchange); /* the loader's */

#endif
