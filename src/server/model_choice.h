/* model_choice: which of the server's models a request means, held for the life of the exchange. */
#ifndef SERVER_MODEL_CHOICE_H
#define SERVER_MODEL_CHOICE_H

#include "server/exchange.h"

/* Why acquiring it failed: 503 when memory or seats are short for now, 404, 500. */
void model_not_served(struct exchange *, const struct shelf_model *, const struct error *);
/* The model that the body names, loaded if need be: worker threads only. Without a name, or with
 * an unknown one unless --strict-model, it is the first. False: the exchange has its error, or its
 * phase is still WORKING: the model is not loaded and `may_load` is false. */
bool model_choose(struct exchange *, bool may_load);
/* The model that ?model= names, else the first; exchange->served stays NULL unless it is loaded.
 * Never blocks. NULL: the exchange has its error. */
struct shelf_model *model_look(struct exchange *);

void model_unknown(struct exchange *, struct str name); /* 404 that lists the known ones */

#endif
