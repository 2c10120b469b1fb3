/* model_routes: POST /models/load and /models/unload: {"model": NAME}, as llama.cpp's router. */
#ifndef SERVER_MODEL_ROUTES_H
#define SERVER_MODEL_ROUTES_H

#include "server/exchange.h"

void model_routes_load(struct exchange *);
void model_routes_unload(struct exchange *);

#endif
