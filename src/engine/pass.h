/* pass: one forward pass: the ragged batch, its scratch, the logits that come out.
 *
 * Arrays and scratch are sized once, for the largest batch, by a measuring forward: a pass
 * allocates nothing. Only rows whose logits are wanted become outputs.
 * Ownership: borrows model, pool and device. Threads: the engine thread. */
#ifndef ENGINE_PASS_H
#define ENGINE_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/sequence.h"
#include "engine/state_pool.h"
#include "models/family.h"
#include "tensor/step.h"

struct pass_size {
    int32_t rows, sequences, outputs; /* most of each in one pass */
};

struct pass {
    const struct model *model;
    struct pass_size size;
    size_t scratch_bytes;
    uint8_t *scratch;          /* on the device */
    int32_t rows_most;         /* of the passes so far */
    float *host_logits;        /* [outputs][n_vocab]; NULL: the device's memory is the host's */
    int32_t *token, *position, *row_sequence, *output_row;
    struct batch_sequence *sequence;
    struct batch batch;        /* being built */
    struct forward_result result;
};

/* The scratch that the largest pass needs on `dev` (of a plan: the real device). */
MUST_CHECK enum status pass_measure(const struct model *model, struct device *dev,
                                    const struct state_pool *pool,
                                    struct pass_size size, size_t *bytes, struct error *err);
MUST_CHECK enum status pass_init(struct pass *p, const struct model *model,
                                 struct pass_size size, size_t scratch_bytes, struct error *err);
void pass_release(struct pass *p);
/* Bytes of the scratch that no pass has needed yet, in proportion to the rows. */
int64_t pass_untouched(const struct pass *p);

enum pass_outputs { PASS_NO_OUTPUT, PASS_LAST_ROW, PASS_ALL_ROWS };
void pass_begin(struct pass *p);
/* Rows for tokens[0 .. n) behind the sequence's n_past. `positions` is [3][stride] or NULL.
 * Returns the index of the first output. */
int32_t pass_add(struct pass *p, const struct sequence *s, const int32_t *tokens, int32_t n,
                 const int32_t *positions, int32_t stride, enum pass_outputs outputs);

MUST_CHECK enum status pass_run(struct pass *p, const struct state_pool *pool,
                                bool (*cancelled)(void *), void *user, struct error *err);
const float *pass_logits(const struct pass *p, int32_t output); /* of the last pass_run */

#endif
