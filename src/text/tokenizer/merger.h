/* merger: BPE. Joins neighbouring symbols, best rank first and leftmost among equals, until no
 * pair can be joined.
 *
 * Short pieces scan for the best pair. Long ones (a run of a million letters is one piece) keep
 * the pairs in one bucket per rank and the ranks in a heap, so that time is near-linear:
 *
 *   heap of ranks -> bucket {head, tail} -> entries (position, next) in order of position
 *
 * An entry may be stale: it counts only if the pair at its position still has the bucket's rank.
 * The memory belongs to one thread at a time and is reused. */
#ifndef TEXT_MERGER_H
#define TEXT_MERGER_H

#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/vocab.h"

struct symbol {
    int32_t id;              /* TOKEN_NONE: unknown, never joined */
    int32_t joined;          /* what the pair of this symbol and the next becomes */
    uint32_t previous, next; /* for long pieces */
    uint64_t rank;           /* of the pair, UINT64_MAX: none */
};

/* Pairs seen last. Direct-mapped; spares most of the way through the big tables. */
struct pair_entry {
    int32_t left, right, joined; /* left TOKEN_NONE: free */
    uint64_t rank;
};
#define PAIR_CACHE_ENTRIES 32768

struct merge_bucket {
    uint64_t rank;
    uint32_t head, tail;
    bool queued, unordered;
};
struct merge_entry {
    uint32_t position, next;
};

struct merger {
    struct symbol *symbols; /* in: the piece; out: what is left of it, in order */
    size_t n, capacity;
    struct pair_entry *pairs; /* NULL until the first use */

    struct merge_bucket *buckets;
    size_t n_buckets, buckets_capacity;
    uint32_t *bucket_slots; /* hash of rank -> bucket + 1; the first n_slots are in use */
    size_t n_slots, slots_capacity;
    uint32_t *heap; /* buckets, best rank first */
    size_t n_heap, heap_capacity;
    struct merge_entry *entries;
    size_t n_entries, entries_capacity;
    uint32_t free_entry, last_bucket;
    uint32_t *positions; /* for ordering a bucket */
    size_t positions_capacity;
};

/* Either a table of pairs, or scores of the joint pieces. */
struct merge_rules {
    const struct merge_table *pairs; /* NULL: by scores */
    const struct vocab *vocab;
};

void merger_clear(struct merger *m);
void merger_reserve(struct merger *m, size_t n);
/* Room for it must have been reserved. */
HOT_INLINE void merger_add(struct merger *m, int32_t id)
{
    m->symbols[m->n++].id = id;
}
void merger_run(struct merger *m, const struct merge_rules *rules);
/* Gives back what only huge pieces need. */
void merger_shrink(struct merger *m, size_t max_symbols);
void merger_release(struct merger *m);

#endif
