/* slot_board: what a model's seats are doing, for people who look: written after each pass by the
 * engine thread, read from any thread, which never waits for a pass. */
#ifndef ENGINE_SLOT_BOARD_H
#define ENGINE_SLOT_BOARD_H

#include <pthread.h>

#include "engine/engine.h"

struct scheduler;

struct slot_board {
    pthread_mutex_t lock;
    struct engine_slot *slot; /* [n] */
    int32_t n, n_busy;
};

void slot_board_init(struct slot_board *b, int32_t n);
void slot_board_release(struct slot_board *b);
void slot_board_publish(struct slot_board *b, const struct scheduler *s); /* engine thread */
int32_t slot_board_read(struct slot_board *b, struct engine_slot *out, int32_t max);

#endif
