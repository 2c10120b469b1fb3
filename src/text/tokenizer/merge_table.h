/* merge_table: which two neighbouring ids become one, and in what order.
 *
 * Open addressing over the pair of ids; the rank of a pair is its place in the list of merges.
 * Immutable after merge_table_init(). */
#ifndef TEXT_MERGE_TABLE_H
#define TEXT_MERGE_TABLE_H

#include <stdint.h>

#include "base/error.h"
#include "text/tokenizer/vocab.h"

#define MERGE_NONE UINT32_MAX

struct merge_slot {
    int32_t left, right;
    uint32_t rank; /* MERGE_NONE: free */
};

struct merge_table {
    struct merge_slot *slots;
    size_t bytes, mask;
    int32_t *results; /* [n_merges], by rank */
    size_t n;
    uint64_t key;
};

MUST_CHECK enum status merge_table_init(struct merge_table *m, const struct tokenizer_spec *spec,
                                        const struct vocab *v, struct error *err);
void merge_table_release(struct merge_table *m);

HOT_INLINE size_t merge_table_slot(const struct merge_table *m, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)token_hash_mix(pair ^ m->key, 0x9E3779B97F4A7C15u) & m->mask;
}

HOT_INLINE uint32_t merge_table_find(const struct merge_table *m, int32_t left, int32_t right)
{
    for (size_t i = merge_table_slot(m, left, right);; i = (i + 1) & m->mask) {
        const struct merge_slot *slot = &m->slots[i];
        if (slot->rank == MERGE_NONE || (slot->left == left && slot->right == right))
            return slot->rank;
    }
}

#endif
