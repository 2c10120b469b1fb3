/* model_choice: which of the server's models a request means, held for the life of the exchange. */
#ifndef SERVER_MODEL_CHOICE_H
#define SERVER_MODEL_CHOICE_H

#include "server/exchange.h"

/* Why acquiring it failed: 503 when memory or seats are short for now, 404, 500. */
void model_not_served(struct exchange *, const struct shelf_model *, const struct error *);
/* exchange->wanted becomes the model that the body names; without a name, or with an unknown one
 * unless --strict-model, the first. /models/load and /models/unload need a name, and a known one.
 * It is held (`served`) if it is loaded. Never blocks. False: the exchange has its error. */
bool model_choose(struct exchange *);
/* The model that ?model= names, else the first; exchange->served stays NULL unless it is loaded.
 * Never blocks. NULL: the exchange has its error. */
struct shelf_model *model_look(struct exchange *);

void model_unknown(struct exchange *, struct str name); /* 404 that lists the known ones */

#endif
