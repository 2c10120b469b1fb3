/* session_routes: named sessions of the disk cache.
 *
 *   GET    /v1/sessions             all of them
 *   GET    /v1/sessions/NAME        one, with what its client keeps there
 *   POST   /v1/sessions/NAME        {"name": NEW}: another name
 *   POST   /v1/sessions/NAME/fork   {"name": NEW}: a second one that begins like it
 *   DELETE /v1/sessions/NAME
 *
 * Numbers and names; the text of a conversation is nowhere but in what a client stored. */
#ifndef SERVER_SESSION_ROUTES_H
#define SERVER_SESSION_ROUTES_H

#include "server/exchange.h"

void session_routes_list(struct exchange *);
void session_routes_one(struct exchange *);

#endif
