/* state_layout: everything a sequence owns, declared once by its family.
 *
 * Allocation, append, fork, truncation, checkpoint, restore, spill and serialization are written
 * once over this list (engine/). A piece that a family forgets is a bug that the equality tests
 * find, since a restore poisons everything that is not listed. */
#ifndef MODELS_STATE_LAYOUT_H
#define MODELS_STATE_LAYOUT_H

#include <stdint.h>

#include "quant/tensor_types.h"

enum state_kind {
    STATE_PAGED,  /* grows with the tokens: full attention */
    STATE_WINDOW, /* the last `window` tokens, in pages of the same size */
    STATE_FIXED,  /* one block per sequence: recurrent matrices, convolution windows */
};

struct state_piece {
    char name[48];           /* "blk.3 kv", "blk.4 delta" */
    enum state_kind kind;
    int32_t layer;           /* of the model */
    int32_t n_kv_heads, k_dim, v_dim; /* paged and window: becomes a struct kv_layer */
    int32_t window;          /* tokens kept (window) */
    int64_t fixed_bytes;     /* fixed */
};

#define STATE_MAX_PIECES 1024
struct state_layout {
    struct state_piece *piece; /* owned by the model's arena */
    int32_t n_pieces;
};

#endif
