#include "server/live_row.h"

#include "base/clock.h"
#include "base/mem.h"
#include "server/server_state.h"
#include "server/slot_routes.h"

struct activity {
    int n_reading, n_answering;
    double tokens_per_second;
    struct engine_slot first; /* a busy seat */
};

static void look_at(struct activity *a, const struct engine_slot *slot)
{
    if (slot->phase == SLOT_IDLE)
        return;
    if (a->n_reading + a->n_answering == 0)
        a->first = *slot;
    a->n_reading += slot->phase == SLOT_PREFILL;
    a->n_answering += slot->phase == SLOT_DECODE;
    a->tokens_per_second += slot->tokens_per_second;
}

static struct activity look(struct model_shelf *shelf)
{
    struct activity a = { 0 };
    struct engine_slot *slot = mem_array(struct engine_slot, SLOTS_MAX);
    for (size_t i = 0; i < shelf->n; i++) {
        struct shelf_model *m = &shelf->entry[i];
        if (!model_shelf_try_acquire(shelf, m))
            continue;
        int32_t n = engine_slots(m->model, slot, SLOTS_MAX);
        for (int32_t k = 0; k < n; k++)
            look_at(&a, &slot[k]);
        model_shelf_release_model(shelf, m, false);
    }
    mem_free(slot);
    return a;
}

/* An exchange in one of these phases is past its headers: endpoint and start do not change. */
static bool is_running(const struct exchange *x)
{
    enum exchange_phase phase = x->phase;
    bool runs = phase == EXCHANGE_WORKING || phase == EXCHANGE_WAITING || phase == EXCHANGE_STREAM;
    return runs && x->row.endpoint;
}

static void draw_one(FILE *log, const struct exchange *x, const struct activity *a)
{
    const struct engine_slot *slot = &a->first;
    double seconds = clock_seconds() - x->started;
    fprintf(log, "%8s  %-9s", "", x->row.endpoint);
    if (a->n_reading + a->n_answering == 0)
        fprintf(log, "queued %.0f s", seconds);
    else if (slot->phase == SLOT_PREFILL)
        fprintf(log, "%8d  prefill %d %% %.0f s", slot->n_prompt,
                (int)(100.0 * slot->n_past / MAX(slot->n_prompt, 1)), seconds);
    else
        fprintf(log, "%8d  %d tokens  %.1f tok/s  %.0f s", slot->n_prompt, slot->n_generated,
                slot->tokens_per_second, seconds);
}

static void draw_several(FILE *log, int n, const struct activity *a)
{
    int waiting = MAX(n - a->n_reading - a->n_answering, 0);
    fprintf(log, "%8s  %d requests: %d read, %d answer, %d wait  %.1f tok/s", "", n, a->n_reading,
            a->n_answering, waiting, a->tokens_per_second);
}

void live_row_wipe(struct server *s)
{
    if (s->live_drawn)
        fputs("\r\033[K", s->options.log);
    s->live_drawn = false;
}

void live_row_draw(struct server *s)
{
    if (!s->options.live_row || !s->options.log)
        return;
    struct activity now = look(&s->shelf);
    int n = 0;
    const struct exchange *only = NULL;
    pthread_mutex_lock(&s->lock);
    for (const struct exchange *x = s->live; x; x = x->next) {
        if (!is_running(x))
            continue;
        only = x;
        n++;
    }
    bool any = s->live_drawn || n > 0;
    live_row_wipe(s);
    if (n == 1)
        draw_one(s->options.log, only, &now);
    else if (n > 1)
        draw_several(s->options.log, n, &now);
    s->live_drawn = n > 0;
    if (any)
        fflush(s->options.log);
    pthread_mutex_unlock(&s->lock);
}
