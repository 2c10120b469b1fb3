/* prefix_tree: the states of finished and running conversations, found by their tokens.
 *
 *   root --- [64 tokens: page 3] --- [64: page 9] --- [17: page 4]     the tail of a turn
 *                               \--- [64: in host memory] --- ...
 *
 * A radix tree with one node for each page of tokens; only leaves may hold fewer. A node owns its
 * pages by reference, beside the sequences that use them, or a copy of them in host memory. For
 * families with fixed state some nodes carry a checkpoint: the state behind their last token.
 * What is reusable: with attention alone any token (the page of the next token is copied on
 * write), with fixed state the last checkpoint; with sliding windows the match ends where the
 * pages that its window needs are still there.
 * Pages that only the tree holds are taken back by whoever needs one (page_keeper); they move to
 * host memory first, within a budget. What goes first is decided by prefix_value. A node may also
 * have copies in files (prefix_disk); it stays as long as they do.
 * Sources: radix reuse as in Zheng et al., arXiv:2312.07104; pages: Kwon et al.,
 * arXiv:2309.06180.
 * Threads: the engine thread. */
#ifndef ENGINE_PREFIX_TREE_H
#define ENGINE_PREFIX_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/disk_file.h"
#include "engine/prefix_order.h"
#include "engine/sequence.h"
#include "engine/state_pool.h"

struct prefix_node {
    struct prefix_node *next, *previous; /* among the children of `parent` */
    int32_t n_tokens, level;             /* level: pages before it */
    int32_t token[STATE_PAGE_TOKENS];    /* beside `next`: a search looks at both */
    struct prefix_node *parent, *child;
    struct prefix_node *aside;         /* while one that may go is looked for */
    int32_t page, sliding;             /* -1: not on the device */
    uint8_t *host_page, *host_sliding; /* copies; NULL: none */
    uint8_t *checkpoint;               /* fixed state behind the last token */
    uint64_t used_ns;
    int32_t place[PREFIX_ORDERS]; /* for prefix_order.c: 1 + where it stands; 0: not there */
    int32_t pinned;               /* how many take it over or fetch it */
    struct disk_ref disk[STATE_FILE_KINDS]; /* copies on disk */
};

struct prefix_counts {
    int64_t n_nodes, host_bytes;
    uint64_t spilled_pages, restored_pages, dropped_pages, dropped_host;
};

struct prefix_tree {
    struct state_pool *pool;
    struct prefix_node root;
    struct prefix_order order[PREFIX_ORDERS]; /* of what can be taken back, if nobody uses it */
    struct prefix_node **path, **tail;        /* [pages_per_sequence] of the last lookup */
    int64_t page_bytes, sliding_bytes, slot_bytes;
    int64_t host_budget;      /* bytes of copies and checkpoints */
    double seconds_per_token; /* measured: what reading a token costs */
    bool sees_disk;           /* a lookup counts what must be fetched first */
    uint64_t now_ns;          /* set by the callers that use or add */
    struct prefix_counts counts;
};

/* Becomes the pool's keeper. */
void prefix_tree_init(struct prefix_tree *t, struct state_pool *pool, int64_t host_budget);
void prefix_tree_release(struct prefix_tree *t);
/* From now on so many bytes of host memory; what is beyond goes at once. */
void prefix_tree_limit(struct prefix_tree *t, int64_t host_budget);

struct prefix_match {
    int32_t n_tokens;                  /* reusable */
    int32_t n_common;                  /* known, reusable or not */
    const struct prefix_node *differs; /* where the path parts; NULL: nothing was known there */
    int32_t differs_at;                /* index in its tokens */
};
/* The longest reusable prefix of at most `most` tokens: of what is in memory, or of what is on
 * disk, too. `path` holds its nodes. */
struct prefix_match prefix_tree_find(struct prefix_tree *t, const int32_t *tokens, int32_t most);
struct prefix_match prefix_tree_find_stored(struct prefix_tree *t, const int32_t *tokens,
                                            int32_t most);
/* The same, taken over by an open and empty sequence: pages come back from host memory, fixed
 * state from its checkpoint. *from_host: something came from there. When pages are missing the
 * sequence stays empty and n_tokens is 0. */
MUST_CHECK enum status prefix_tree_take(struct prefix_tree *t, const int32_t *tokens, int32_t most,
                                        struct sequence *to, struct prefix_match *match,
                                        bool *from_host, struct error *err);

/* Adds the whole pages among the first n tokens of the sequence's state. A page that the tree
 * has already replaces the sequence's own. */
void prefix_tree_add(struct prefix_tree *t, const int32_t *tokens, int32_t n, struct sequence *s);
/* The same, with what lies in the last page and, with `checkpoint`, the fixed state: it must be
 * the one behind token n. */
MUST_CHECK enum status prefix_tree_add_end(struct prefix_tree *t, const int32_t *tokens, int32_t n,
                                           struct sequence *s, bool checkpoint, struct error *err);

/* What a part of the cache is worth: seconds that it saves, less the longer nobody used it, for
 * each byte. The smallest goes first. */
double prefix_value(int32_t tokens_saved, double seconds_per_token, double idle_seconds,
                    int64_t bytes);

/* Where the value puts it among others, whatever the time is: all lose the same while they rest. */
double prefix_rank(int32_t tokens_saved, double used_seconds, int64_t bytes);

/* For prefix_disk: the nodes of a path, made where there is none. The last one may hold fewer
 * tokens than a page; NULL: a sibling tells the same. */
struct prefix_node *prefix_tree_child(struct prefix_tree *t, struct prefix_node *parent,
                                      const int32_t *tokens, int32_t n, bool make);

/* For prefix_evict.c. */
void prefix_node_remove(struct prefix_tree *t, struct prefix_node *n); /* a leaf */
/* After its pages, copies or time of use have changed. */
void prefix_node_moved(struct prefix_tree *t, struct prefix_node *n);
/* Removes the node, and then its parents, if it is a leaf that holds nothing any more. */
void prefix_prune(struct prefix_tree *t, struct prefix_node *n);
bool prefix_reclaim(void *tree, enum state_kind kind);
void prefix_give_up(void *tree, enum state_kind kind, int32_t page);
/* Room for that many bytes of host memory; NULL: not within the budget. */
uint8_t *prefix_host_take(struct prefix_tree *t, int64_t bytes);
void prefix_host_drop(struct prefix_tree *t, uint8_t **block, int64_t bytes);

#endif
