/* slot_routes: GET /slots: the seats of the loaded models. Numbers only, never anybody's text. */
#ifndef SERVER_SLOT_ROUTES_H
#define SERVER_SLOT_ROUTES_H

#include "server/exchange.h"

#define SLOTS_MAX 1024 /* of a model; more are not listed */

void slot_routes_list(struct exchange *);

#endif
