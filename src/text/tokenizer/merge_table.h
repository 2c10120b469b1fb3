/* merge_table: which two neighbouring tokens become one, and in what order.
 *
 * Open addressing over a 64-bit hash of the two spellings (keyed per process, so that equality of
 * the hash is equality of the pair); the rank of a pair is its place in the list of merges. What a
 * pair becomes is looked up when it is first joined: most merges of a vocabulary are never used,
 * and half a million look-ups would take longer than all the rest of loading.
 * Threads: shared; the only thing that changes are results that turn from unknown to known. */
#ifndef TEXT_MERGE_TABLE_H
#define TEXT_MERGE_TABLE_H

#include <stdint.h>

#include "base/error.h"
#include "text/tokenizer/vocab.h"

#define MERGE_NONE UINT32_MAX

#define MERGE_UNRESOLVED (-2)

struct merge_slot {
    uint32_t key[2]; /* halves of the pair's hash */
    uint32_t rank;   /* MERGE_NONE: free */
};

struct merge_table {
    struct merge_slot *slots;
    size_t bytes, mask;
    int32_t *results; /* [n], by rank: an id, TOKEN_NONE or MERGE_UNRESOLVED */
    size_t n;
};

MUST_CHECK enum status merge_table_init(struct merge_table *m, const struct tokenizer_spec *spec,
                                        const struct vocab *v, struct error *err);
void merge_table_release(struct merge_table *m);
/* The slow half of merge_table_join(). */
int32_t merge_table_resolve(const struct merge_table *m, const struct vocab *v, int32_t left,
                            int32_t right, uint32_t rank);

HOT_INLINE uint64_t merge_table_key(uint64_t left_hash, uint64_t right_hash)
{
    return token_hash_mix(left_hash ^ 0x9E3779B97F4A7C15u, right_hash);
}

HOT_INLINE uint32_t merge_table_find(const struct merge_table *m, uint64_t key)
{
    for (size_t i = key & m->mask;; i = (i + 1) & m->mask) {
        const struct merge_slot *slot = &m->slots[i];
        if (slot->rank == MERGE_NONE ||
            (slot->key[0] == (uint32_t)key && slot->key[1] == (uint32_t)(key >> 32)))
            return slot->rank;
    }
}

/* What two neighbouring tokens become; TOKEN_NONE: nothing. */
HOT_INLINE int32_t merge_table_join(const struct merge_table *m, const struct vocab *v,
                                    int32_t left, int32_t right, uint32_t *rank)
{
    *rank = merge_table_find(m, merge_table_key(v->hashes[left], v->hashes[right]));
    if (*rank == MERGE_NONE)
        return TOKEN_NONE;
    int32_t id = __atomic_load_n(&m->results[*rank], __ATOMIC_RELAXED);
    return id != MERGE_UNRESOLVED ? id : merge_table_resolve(m, v, left, right, *rank);
}

#endif
