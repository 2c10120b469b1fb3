/* state_pool: the memory behind all sequences of one model, made from its state layout.
 *
 *   piece "blk.0 kv"  [page 0][page 1] ... \  one page group for full attention: a page id means
 *   piece "blk.1 kv"  [page 0][page 1] ... /  the same page in every piece
 *   piece "blk.2 kv"  [page 0] ...            a second group for sliding windows
 *   piece "blk.3 S"   [slot 0][slot 1] ...    fixed blocks, one per resident sequence, and a few
 *                                            for states behind guesses
 *
 * There is one pool for all sequences: who needs a page takes it. Sizes come from the device
 * (kv_page_bytes), so `plan` computes them without allocating.
 * Ownership: pages and slots belong to sequences (sequence.h) until dropped. Threads: the engine
 * thread. */
#ifndef ENGINE_STATE_POOL_H
#define ENGINE_STATE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/page_group.h"
#include "models/family.h"
#include "tensor/device.h"
#include "tensor/kv.h"

#define STATE_PAGE_TOKENS 64

struct state_pool_options {
    enum tensor_type k_type, v_type;
    int32_t context;     /* most tokens of one sequence */
    int64_t pool_tokens; /* of all sequences together; at least context */
    int32_t n_sequences; /* resident at once */
    int32_t batch_tokens; /* rows that one pass may append to a sequence */
    int32_t n_draft_slots; /* sequences with fixed state that may draft in one pass */
};

/* Whoever keeps pages beside the sequences (a cache) and gives them up on demand. */
struct page_keeper {
    /* Frees at least one page of that kind; false: none can be. */
    bool (*reclaim)(void *user, enum state_kind kind);
    /* Gives up its share of this page, which one sequence needs alone. */
    void (*give_up)(void *user, enum state_kind kind, int32_t page);
    void *user;
};

struct state_pool {
    struct device *dev;
    const struct state_layout *layout;
    struct state_pool_options options;
    bool has_full, has_window, has_fixed;
    int32_t window;             /* the widest of the layout */
    int32_t pages_per_sequence; /* entries of a page table */
    struct page_group full, sliding;
    struct page_keeper keeper;  /* may be all NULL */
    struct kv_layer *kv;        /* [n_pieces] */
    uint8_t **fixed;            /* [n_pieces] */
    int32_t *free_slots, n_free_slots, n_untouched_slots;
    uint8_t *bounce;            /* host memory for one page or block */
    int64_t bounce_bytes, bytes;
};

/* Device bytes that a pool of these options takes; UNSUPPORTED when the device cannot keep rows
 * of this length in this type. */
MUST_CHECK enum status state_pool_bytes(const struct state_layout *, const struct device *,
                                        const struct state_pool_options *, int64_t *bytes,
                                        struct error *err);
MUST_CHECK enum status state_pool_new(const struct state_layout *, struct device *,
                                      const struct state_pool_options *, struct state_pool **out,
                                      struct error *err);
void state_pool_free(struct state_pool *p); /* NULL is allowed */

/* Reserved bytes of pages and slots that were never used: memory that the device may still have to
 * find. */
int64_t state_pool_untouched(const struct state_pool *p);

struct state_view state_pool_view(const struct state_pool *p);

struct page_group *state_pool_group(struct state_pool *p, enum state_kind kind);
/* A page with one owner; -1: none is free and the keeper has none to give. */
int32_t state_pool_take_page(struct state_pool *p, enum state_kind kind);

/* For sequence.c: a fixed block; one is free. */
int32_t state_pool_take_slot(struct state_pool *p);
/* And the contents of a page or slot, over all pieces of its group. */
MUST_CHECK enum status state_pool_copy_page(struct state_pool *p, enum state_kind kind,
                                            int32_t from, int32_t to, struct error *err);
MUST_CHECK enum status state_pool_clear_slot(struct state_pool *p, int32_t slot,
                                             struct error *err);
MUST_CHECK enum status state_pool_copy_slot(struct state_pool *p, int32_t from, int32_t to,
                                            struct error *err);

#endif
