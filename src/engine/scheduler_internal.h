/* scheduler_internal: what the files of the scheduler share; nobody else includes it.
 *
 *   request_queue    who waits, and who is next
 *   residency        who has state: admission, preemption, the end of a request
 *   row_plan         which rows the next pass computes
 *   prefix_reuse     what is known of a prompt, and what becomes known
 *   delivery         from the pass's logits to the requests
 *
 * Every resident request is in `running` and has an entry in `plan`. Threads: the engine thread.
 */
#ifndef ENGINE_SCHEDULER_INTERNAL_H
#define ENGINE_SCHEDULER_INTERNAL_H

#include "engine/engine_internal.h"
#include "engine/pass_cost.h"
#include "engine/prefix_disk.h"
#include "engine/prefix_tree.h"
#include "engine/request.h"
#include "engine/request_queue.h"
#include "engine/sampling.h"
#include "engine/slot_board.h"

/* What one resident request does in the pass that is being built. */
struct plan_row {
    int32_t n_rows, first_output, first_index;
    bool answer;       /* the newest token, so the last row but the guesses, is drawn from */
    int32_t n_drafted; /* the last rows: guesses behind the newest token */
    double price;      /* of each of them, see speculation.h */
    enum pass_outputs outputs;
    bool visited;  /* by the planning of prompts */
    bool reserved; /* its pages are there */
};

struct scheduler {
    struct engine *engine;
    struct engine_model *model;
    struct pass pass;
    struct sampler_scratch *sampler;
    struct sequence *sequences; /* [n_sequences], handed out through `idle` */
    struct sequence **idle;
    int32_t n_idle, n_sequences;
    struct request **running; /* [n_running], in order of admission */
    struct plan_row *plan;    /* [n_running] */
    int32_t n_running;
    struct pass_cost cost;
    bool reads_file;    /* some weights are used where they lie in the file */
    uint64_t looked_ns; /* at the file, whether it was written to */
    struct request_queue queue;
    struct prefix_tree prefixes; /* unused when nothing is reused */
    struct prefix_disk disk;
    struct prefix_counts counted; /* as far as the engine's metrics know them */
    bool reuses;
    struct slot_board board;
};

/* --- residency.c ---------------------------------------------------------------------------- */

/* Moves requests from the queue to `running` while there are seats and pages; one of a higher
 * priority takes them from those below it. */
void residency_admit(struct scheduler *s);
/* An open, empty sequence; NULL: none is left, or *err says why. */
struct sequence *residency_take(struct scheduler *s, struct error *err);
/* r becomes resident with `q` as its state, behind all others. */
void residency_enter(struct scheduler *s, struct request *r, struct sequence *q);
/* Makes room for the planned rows: who finds no page takes those of the least important. */
void residency_reserve(struct scheduler *s);
void residency_end(struct scheduler *s, int32_t index, enum finish_reason finish,
                   const struct error *err);
/* The same for a request that is in no list any more. */
void residency_end_unlisted(struct scheduler *s, struct request *r, enum finish_reason finish,
                            const struct error *err);
void residency_end_cancelled(struct scheduler *s);
/* Followers that could not fork go their own way: each reads the prompt itself. */
void residency_release_followers(struct scheduler *s, struct request *leader);

/* --- row_plan.c ----------------------------------------------------------------------------- */

/* Tokens that the state does not hold yet. */
int32_t row_plan_unread(const struct request *r);
void row_plan_make(struct scheduler *s);

/* --- prefix_reuse.c ------------------------------------------------------------------------- */

void prefix_reuse_init(struct scheduler *s);
void prefix_reuse_release(struct scheduler *s);
/* A resident request without state takes over what is known of its tokens. */
MUST_CHECK enum status prefix_reuse_attach(struct scheduler *s, struct request *r,
                                           struct error *err);
/* False: another one is reading what this prompt begins with; it goes on when that is known. A
 * status other than OK: what it should go on from is damaged. */
MUST_CHECK enum status prefix_reuse_ready(struct scheduler *s, int32_t index, bool *ready,
                                          struct error *err);
/* At most n rows, so that the pass ends where a checkpoint belongs. */
int32_t prefix_reuse_cut(const struct scheduler *s, const struct request *r, int32_t n);
/* A pass has computed n rows, the state has not advanced yet. */
void prefix_reuse_note(struct scheduler *s, struct request *r, int32_t n);
/* The state has advanced by a row of the answer. */
void prefix_reuse_note_answer(struct scheduler *s, struct request *r);
/* Gets on with what is read from disk and written to it. */
void prefix_reuse_step(struct scheduler *s);
/* After a pass: the tree learns what reading a token costs, the metrics what left the cache. */
void prefix_reuse_measure(struct scheduler *s);
/* The request gives its state back. */
void prefix_reuse_keep(struct scheduler *s, struct request *r);

/* And is over: what is known of it goes to disk. */
void prefix_reuse_save(struct scheduler *s, const struct request *r, enum finish_reason finish);
/* It waits for nothing any more. */
void prefix_reuse_forget(struct scheduler *s, struct request *r);

/* --- delivery.c ----------------------------------------------------------------------------- */

/* After a pass: states advance, tokens are drawn and published, what is over ends. */
void delivery_run(struct scheduler *s);

#endif
