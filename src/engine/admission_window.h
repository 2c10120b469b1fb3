/* admission_window: how long an idle engine waits for more requests before it computes the first.
 *
 *   first     second    third
 *     |--------|---------|-----------.         all three are admitted into one pass
 *     |<-probe-.         |<- quiet ->|
 *     |<------------ hard ----------------------->|
 *
 * Requests that are sent together arrive apart; a pass for the first alone makes the others wait
 * for it. So the first waits for a probe, and when another one came, until it is quiet, up to a
 * hard end. How long they are is learned from the bursts that were seen, those that arrived beside
 * running requests included: where requests come alone, the probe is a quarter of a millisecond.
 * Times are the caller's, nanoseconds of any one clock. Ownership: plain data. Threads: none of its
 * own; under the engine's lock. */
#ifndef ENGINE_ADMISSION_WINDOW_H
#define ENGINE_ADMISSION_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define ADMISSION_WINDOW_MOST_MS 150

struct admission_window {
    uint64_t most_ns; /* hard end at the latest; 0: never waits */
    int32_t n_seats;  /* as many as these need no waiting for more */
    double gap_ns;    /* between two requests of a burst, moving mean */
    double burst;     /* requests in one, moving mean */
    uint64_t first_ns, last_ns;
    int32_t n; /* requests of the burst that is counted; 0: none is */
    bool idle; /* the next request begins one */
};

void admission_window_init(struct admission_window *w, int32_t most_ms, int32_t n_seats);
/* Nothing runs and nothing waits. */
void admission_window_rest(struct admission_window *w);
void admission_window_arrive(struct admission_window *w, uint64_t now_ns);
/* How long those that arrived since the engine was idle should still wait; 0: not at all. */
uint64_t admission_window_left(const struct admission_window *w, uint64_t now_ns);

#endif
