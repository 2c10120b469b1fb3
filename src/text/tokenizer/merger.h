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

/* What is merged. For BPE by scores `text` holds the piece and a symbol is a part of it. */
struct symbol {
    int32_t id; /* TOKEN_NONE: unknown, never joined */
    uint32_t at, len; /* bytes of the piece */
    uint32_t characters;
    uint32_t previous, next; /* for long pieces */
    int32_t joined;          /* what the pair of this symbol and the next becomes */
    uint64_t rank;           /* of that pair, UINT64_MAX: none */
};

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

    struct merge_bucket *buckets;
    size_t n_buckets, buckets_capacity;
    uint32_t *bucket_slots; /* hash of rank -> bucket + 1; the first n_slots are in use */
    size_t n_slots, slots_capacity;
    uint32_t *heap; /* buckets, best rank first */
    size_t n_heap, heap_capacity;
    struct merge_entry *entries;
    size_t n_entries, entries_capacity;
    uint32_t free_entry;
    uint32_t *positions; /* for ordering a bucket */
    size_t positions_capacity;
};

/* Either a table of pairs, or scores of the joint pieces. */
struct merge_rules {
    const struct merge_table *pairs; /* NULL: by scores */
    const struct vocab *vocab;
    const char *text;
};

void merger_clear(struct merger *m);
void merger_add(struct merger *m, int32_t id, size_t at, size_t len);
void merger_run(struct merger *m, const struct merge_rules *rules);
void merger_release(struct merger *m);

#endif
