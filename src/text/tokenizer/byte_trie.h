/* byte_trie: byte strings to ids, walked byte by byte.
 *
 * Edges live in one open-addressing table keyed by (node, byte); the root has a direct one.
 * Immutable once built. */
#ifndef TEXT_BYTE_TRIE_H
#define TEXT_BYTE_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/str.h"
#include "text/tokenizer/token_hash.h"

#define BYTE_TRIE_ROOT 0u
#define BYTE_TRIE_NONE UINT32_MAX

struct byte_trie_edge {
    uint32_t key; /* node << 8 | byte; 0 is free: the root's edges are in `first` */
    uint32_t child;
};

struct byte_trie {
    struct byte_trie_edge *edges;
    size_t mask;
    int32_t *values; /* [n_nodes]; -1: no string ends here */
    size_t n_nodes, nodes_capacity, n_edges;
    uint32_t first[256];
    uint64_t key;
};

void byte_trie_init(struct byte_trie *t);
void byte_trie_release(struct byte_trie *t);
/* The first value of a string stays. False: more than 2^24 nodes. */
bool byte_trie_insert(struct byte_trie *t, struct str bytes, int32_t value);

HOT_INLINE uint32_t byte_trie_step(const struct byte_trie *t, uint32_t node, uint8_t byte)
{
    if (node == BYTE_TRIE_ROOT)
        return t->first[byte];
    uint32_t key = node << 8 | byte;
    for (size_t i = (size_t)token_hash_mix(key, t->key) & t->mask;; i = (i + 1) & t->mask) {
        if (t->edges[i].key == key)
            return t->edges[i].child;
        if (t->edges[i].key == 0)
            return BYTE_TRIE_NONE;
    }
}

#endif
