/* http_check: what must hold of a request's headers before anything is read of its body.
 *
 * libmicrohttpd lets several malformed framings through (request smuggling): everything that two
 * readers could frame differently is refused and the connection closed. Source: RFC 9112,
 * sections 5.1, 6.1 to 6.3; RFC 9110, section 5.6.2. */
#ifndef SERVER_HTTP_CHECK_H
#define SERVER_HTTP_CHECK_H

#include <stdbool.h>

#include "server/exchange.h"

/* Sets path from the target of the request line, and authority where the target has one
 * ("GET http://host/path"). Source: RFC 9112, section 3.2.2. */
void http_check_target(struct exchange *, const char *target);
/* Decodes %XX in place, as libmicrohttpd asks it; returns the length. %00 stays as it is: it would
 * end the text, and what follows would be lost. */
size_t http_check_unescape(void *unused, struct MHD_Connection *, char *text);
/* Fills an error into the exchange (phase REPLY) and returns false, or returns true. */
bool http_check_framing(struct exchange *, const char *version);
/* DNS rebinding: on a loopback bind the Host must be a loopback name or address. */
bool http_check_host(struct exchange *);
bool http_check_key(struct exchange *); /* 401; sets exchange->client */
/* The origin to allow; NULL: none. */
const char *http_allowed_origin(const struct exchange *);

#endif
