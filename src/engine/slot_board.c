#include "engine/slot_board.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scheduler_internal.h"
#include "engine/session_table.h"

void slot_board_init(struct slot_board *b, int32_t n)
{
    pthread_mutex_init(&b->lock, NULL);
    b->slot = mem_array(struct engine_slot, (size_t)n);
    b->n = n;
}

void slot_board_release(struct slot_board *b)
{
    mem_free(b->slot);
    pthread_mutex_destroy(&b->lock);
}

static void describe(struct engine_slot *slot, const struct request *r, uint64_t now)
{
    const char *name = r->name ? r->name : "";
    *slot = (struct engine_slot){
        .phase = r->prompt_done ? SLOT_DECODE : SLOT_PREFILL,
        .n_prompt = r->n_prompt,
        .n_past = r->sequence->n_past,
        .n_generated = r->n_tokens - r->n_prompt,
        .n_drafted = r->n_drafted,
        .n_accepted = r->n_accepted,
        .seconds = (double)(now - r->submitted_ns) * 1e-9,
    };
    snprintf(slot->request, sizeof slot->request, "%s", name);
    if (r->session)
        snprintf(slot->session, sizeof slot->session, "%s", r->session->name);
    if (r->first_token_ns && now > r->first_token_ns)
        slot->tokens_per_second =
            (double)slot->n_generated / ((double)(now - r->first_token_ns) * 1e-9);
}

void slot_board_publish(struct slot_board *b, const struct scheduler *s)
{
    if (s->n_running == 0 && b->n_busy == 0)
        return;
    uint64_t now = clock_ns();
    pthread_mutex_lock(&b->lock);
    memset(b->slot, 0, (size_t)b->n * sizeof *b->slot);
    for (int32_t i = 0; i < s->n_running; i++) {
        const struct request *r = s->running[i];
        if (r->sequence)
            describe(&b->slot[r->sequence - s->sequences], r, now);
    }
    b->n_busy = s->n_running;
    pthread_mutex_unlock(&b->lock);
}

int32_t slot_board_read(struct slot_board *b, struct engine_slot *out, int32_t max)
{
    pthread_mutex_lock(&b->lock);
    int32_t n = MIN(b->n, max);
    memcpy(out, b->slot, (size_t)n * sizeof *out);
    pthread_mutex_unlock(&b->lock);
    return n;
}
