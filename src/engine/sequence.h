/* sequence: the state of one token sequence: its pages, its slot, how many tokens it holds.
 *
 * Reserve room, let a forward pass append, then advance. Forks share pages; a shared page is
 * copied when one of its owners is about to write into it (only ever the last one).
 * Ownership: open takes a slot, close returns everything. Threads: the engine thread. */
#ifndef ENGINE_SEQUENCE_H
#define ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/state_pool.h"
#include "tensor/step.h"

struct sequence {
    int32_t *page;         /* [pages_per_sequence], -1 where there is none */
    int32_t *sliding_page; /* the same for window layers; -1 before the window */
    int32_t n_pages;       /* entries reserved in both tables */
    int32_t first_sliding; /* entries before it were returned */
    int32_t n_past;        /* tokens in the state */
    bool spoiled;          /* its fixed state is not the one behind n_past */
    int32_t slot;          /* of the fixed pieces; -1: not open */
    int32_t draft_slot;    /* for the state behind the guesses of a pass; -1: none */
    int32_t n_drafted;     /* the last rows of the pass that are guesses */
};

/* Tables are allocated once and serve one sequence after the other. */
void sequence_init(struct sequence *s, const struct state_pool *p);
void sequence_release(struct sequence *s); /* must be closed */

/* EXHAUSTED without a message: no free slot. */
MUST_CHECK enum status sequence_open(struct sequence *s, struct state_pool *p, struct error *err);
void sequence_close(struct sequence *s, struct state_pool *p); /* a closed one is allowed */

/* Gives its pages back, stays open. */
void sequence_empty(struct sequence *s, struct state_pool *p);

/* Makes room for n_tokens behind n_past. EXHAUSTED without a message when pages are missing;
 * what was taken stays and serves the next try. */
MUST_CHECK enum status sequence_reserve(struct sequence *s, struct state_pool *p,
                                        int32_t n_tokens, struct error *err);
/* Pages that sequence_reserve would take from the free ones of the fuller group. */
int32_t sequence_missing_pages(const struct sequence *s, const struct state_pool *p,
                               int32_t n_tokens);
/* A pass has appended n tokens; pages that left every window are returned. */
void sequence_advance(struct sequence *s, struct state_pool *p, int32_t n_tokens);
/* The next pass has n guesses as its last rows; false: there is no room for the state behind them.
 */
bool sequence_draft(struct sequence *s, struct state_pool *p, int32_t n);
/* The pass is over (or will not be): n of its rows are right. Advances to the last state that is
 * known: behind all n rows, or, with fixed state and some guesses wrong, before the guesses. */
void sequence_settle(struct sequence *s, struct state_pool *p, int32_t n_rows, int32_t n_right);
void sequence_forget_draft(struct sequence *s, struct state_pool *p);
/* `to` is open and empty: it shares all of `from`. */
MUST_CHECK enum status sequence_fork(const struct sequence *from, struct sequence *to,
                                     struct state_pool *p, struct error *err);

struct batch_sequence sequence_in_batch(const struct sequence *s, int32_t first_row,
                                        int32_t n_rows);

#endif
