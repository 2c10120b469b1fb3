/* fair_share: how much of the engine each client has had.
 *
 * A client's counter grows by the rows that were computed for him. Who has had least is served
 * next, so that one client's thousand requests do not starve another's single one. A client who
 * comes (back) starts at the smallest counter of those who are being served: he cannot save up
 * for a burst. Source: virtual token counters, Sheng et al., OSDI 2024, arXiv:2401.00588.
 * Ownership: an account lives until its client has no request and was forgotten. Threads: the
 * engine thread. */
#ifndef ENGINE_FAIR_SHARE_H
#define ENGINE_FAIR_SHARE_H

#include <stdint.h>

struct fair_account {
    char *client;
    int64_t served;     /* rows */
    int32_t n_requests; /* waiting and resident */
    struct fair_account *next;
};

struct fair_share {
    struct fair_account *first;
    int32_t n_idle; /* accounts without a request, kept so that a short pause changes nothing */
};

void fair_share_release(struct fair_share *f); /* no request is left */

/* One more request of this client (NULL: the nameless one). */
struct fair_account *fair_share_join(struct fair_share *f, const char *client);
void fair_share_leave(struct fair_share *f, struct fair_account *a);
void fair_share_charge(struct fair_account *a, int32_t n_rows);

#endif
