#include "server/slot_routes.h"

#include "base/mem.h"
#include "server/model_choice.h"
#include "server/server_state.h"

static const char *phase_name(enum slot_phase phase)
{
    switch (phase) {
    case SLOT_PREFILL:
        return "prefill";
    case SLOT_DECODE:
        return "decode";
    case SLOT_IDLE:
        break;
    }
    return "idle";
}

static json_t *slot_json(const struct shelf_model *m, int32_t id, const struct engine_slot *slot)
{
    bool busy = slot->phase != SLOT_IDLE;
    return json_pack("{s:i,s:b,s:s,s:i,s:i,s:s,s:s?,s:s?,s:f,s:i,s:i}", "id", id, "is_processing",
                     busy, "model", m->id, "n_ctx", engine_model_info(m->model)->context, "n_past",
                     slot->n_past, "phase", phase_name(slot->phase), "session",
                     slot->session[0] ? slot->session : NULL, "id_request",
                     slot->request[0] ? slot->request : NULL, "tokens_per_second",
                     slot->tokens_per_second, "drafted", slot->n_drafted, "accepted",
                     slot->n_accepted);
}

/* ?model=NAME: of that one alone. */
void slot_routes_list(struct exchange *x)
{
    struct model_shelf *shelf = &x->server->shelf;
    struct str name = exchange_query(x, "model");
    struct shelf_model *only = name.len ? model_shelf_find(shelf, name) : NULL;
    if (name.len && !only) {
        model_unknown(x, name);
        return;
    }
    struct engine_slot *slot = mem_array(struct engine_slot, SLOTS_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < shelf->n; i++) {
        struct shelf_model *m = &shelf->entry[i];
        if ((only && m != only) || !model_shelf_try_acquire(shelf, m))
            continue;
        int32_t n = engine_slots(m->model, slot, SLOTS_MAX);
        for (int32_t id = 0; id < n; id++)
            json_array_append_new(list, slot_json(m, id, &slot[id]));
        model_shelf_release_model(shelf, m, false);
    }
    mem_free(slot);
    exchange_reply_json(x, 200, list);
    json_decref(list);
}
