/* speculation: whether and how far one sequence drafts, by what its drafts have brought so far.
 *
 * A draft row costs time in every pass, a confirmed one saves a pass. The price of a row, in
 * passes, comes from the measured cost of passes; the chance of each guess from the drafter's
 * confidence and the sequence's own record. A sequence whose drafts lose stops drafting; after
 * 2,048 more tokens it tries again.
 * Rolling back: rows behind n_past are never read and are written again, so a sequence of pages
 * just advances by the rows that were confirmed. Fixed state behind the guesses goes to a slot of
 * its own, which replaces the sequence's when all were right; otherwise the confirmed ones are
 * computed again in the next pass. Ownership: belongs to a request. Threads: the engine thread. */
#ifndef ENGINE_SPECULATION_H
#define ENGINE_SPECULATION_H

#include "engine/drafter.h"
#include "engine/pass_cost.h"

struct speculation {
    struct drafter *drafter;
    int32_t most;         /* drafted tokens in one pass */
    double hit_rate;      /* of a guess whose predecessors were right */
    double balance;       /* passes saved less their price, since the last verdict */
    int32_t n_tested;     /* guesses since the last verdict */
    int32_t tested_at;    /* tokens of the sequence when a guess was last tested */
    int32_t asleep_until; /* tokens of the sequence; 0: awake */
};

void speculation_init(struct speculation *s, struct drafter *drafter, int32_t most);
void speculation_release(struct speculation *s);

/* The price of one more row beside n_rows, in passes per token of the n_answers in it. */
double speculation_price(const struct pass_cost *c, int32_t n_rows, int32_t n_answers);
/* Writes up to `most` guesses behind tokens[n - 1] and returns how many are worth their price. */
int32_t speculation_draft(struct speculation *s, int32_t *tokens, int32_t n, int32_t most,
                          double price);
/* Of n_drafted rows n_right were confirmed, n_again of them have to be computed again; the
 * sequence has n tokens now. */
void speculation_note(struct speculation *s, int32_t n_drafted, int32_t n_right, int32_t n_again,
                      double price, int32_t n);

#endif
