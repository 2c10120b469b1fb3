/* http_watch: one thread that notices what libmicrohttpd does not: clients that leave while their
 * connection is suspended, headers and bodies that never end, silent streams that need a
 * keep-alive frame.
 *
 * A suspended connection is out of libmicrohttpd's epoll set, so a set of our own watches its
 * socket for hang-ups (EPOLLRDHUP, one shot). A half-close counts as gone. */
#ifndef SERVER_HTTP_WATCH_H
#define SERVER_HTTP_WATCH_H

#include "base/error.h"

struct exchange;
struct http_watch;
struct server;

MUST_CHECK enum status http_watch_new(struct server *, struct http_watch **, struct error *);
void http_watch_free(struct http_watch *);

/* From the complete request on. Holds a reference until http_watch_remove(). */
void http_watch_add(struct http_watch *, struct exchange *);
/* In libmicrohttpd's completion callback, where the socket is still open. */
void http_watch_remove(struct http_watch *, struct exchange *);

/* A connection and when the headers of its next request must be complete: body_timeout after it
 * opened, `seconds` after a request ended; then its body within body_timeout in all. While busy
 * there is no deadline here. */
struct watched_connection;
struct watched_connection *http_watch_connection(struct http_watch *, int fd);
void http_watch_connection_body(struct http_watch *, struct watched_connection *);
void http_watch_connection_busy(struct http_watch *, struct watched_connection *);
void http_watch_connection_idle(struct http_watch *, struct watched_connection *, double seconds);
void http_watch_connection_closed(struct http_watch *, struct watched_connection *);

#endif
