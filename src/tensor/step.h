/* step: one forward pass: which rows, of which sequences, with which scratch.
 *
 * The engine builds a batch and a step; models and ops read them. Rows are ragged: sequence s
 * owns rows [first_row, first_row + n_rows), at places n_past .. n_past + n_rows - 1 of its
 * state. Prompt chunks, decode rows and verification rows are the same thing.
 * Ownership: all arrays belong to the engine and live until the step ends.
 * A measuring step (`measure`) runs no kernel: ops only add up the scratch they would take. */
#ifndef TENSOR_STEP_H
#define TENSOR_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/tensor.h"

struct batch_sequence {
    int32_t first_row, n_rows;
    int32_t n_past;             /* tokens already in the state */
    const int32_t *page;        /* page table of full-attention layers, entry t / page_tokens */
    const int32_t *window_page; /* page table of sliding layers; may equal `page` */
    int32_t state_slot;         /* index of its fixed-size state pieces */
    /* The last rows are guesses. Fixed state behind the rows before them stays in state_slot, the
     * one behind all rows goes to draft_slot: whichever is right is kept. */
    int32_t n_drafted, draft_slot;
};

struct batch {
    int32_t n_rows, n_sequences, n_outputs;
    const int32_t *token;        /* [n_rows] */
    const int32_t *position;     /* [n_rows]; multi_section: [3][n_rows] (t, h, w) */
    bool multi_section;
    const struct batch_sequence *sequence; /* [n_sequences], ordered by first_row */
    const int32_t *row_sequence; /* [n_rows]: index into `sequence` */
    const int32_t *output_row;   /* [n_outputs], ascending: the rows whose logits are wanted */
};

struct step {
    struct device *dev;
    const struct batch *batch;
    uint8_t *scratch;            /* 64-aligned; NULL while measuring */
    size_t scratch_bytes, scratch_used, scratch_peak;
    bool measure;
    struct error *err;
    bool (*cancelled)(void *user); /* may be NULL; polled between ops: CANCELLED stops a forward */
    void *cancel_user;
};

/* Scratch with stack discipline, 64-aligned. Releasing a mark frees everything taken after it. */
MUST_CHECK enum status step_alloc(struct step *s, struct tensor *out, enum tensor_type type,
                                  int64_t rows, int64_t cols);
MUST_CHECK enum status step_alloc_bytes(struct step *s, size_t bytes, void **out);
size_t step_mark(const struct step *s);
void step_release(struct step *s, size_t mark);

#endif
