#include "text/tokenizer/byte_trie.h"

#include "base/mem.h"

#define MAX_NODES ((size_t)1 << 24)

void byte_trie_init(struct byte_trie *t)
{
    *t = (struct byte_trie){ 0 };
    t->key = token_hash_key();
    t->mask = 63;
    t->edges = mem_array(struct byte_trie_edge, t->mask + 1);
    memset(t->first, 0xFF, sizeof t->first);
    mem_reserve((void **)&t->values, &t->nodes_capacity, 1, sizeof *t->values);
    t->values[0] = -1;
    t->n_nodes = 1;
}

void byte_trie_release(struct byte_trie *t)
{
    mem_free(t->edges);
    mem_free(t->values);
    *t = (struct byte_trie){ 0 };
}

static void put_edge(struct byte_trie *t, struct byte_trie_edge edge)
{
    size_t i = (size_t)token_hash_mix(edge.key, t->key) & t->mask;
    while (t->edges[i].key != 0)
        i = (i + 1) & t->mask;
    t->edges[i] = edge;
}

static void grow_edges(struct byte_trie *t)
{
    struct byte_trie_edge *old = t->edges;
    size_t n_old = t->mask + 1;
    t->mask = n_old * 2 - 1;
    t->edges = mem_array(struct byte_trie_edge, n_old * 2);
    for (size_t i = 0; i < n_old; i++)
        if (old[i].key != 0)
            put_edge(t, old[i]);
    mem_free(old);
}

static uint32_t add_node(struct byte_trie *t, uint32_t parent, uint8_t byte)
{
    uint32_t node = (uint32_t)t->n_nodes;
    mem_reserve((void **)&t->values, &t->nodes_capacity, t->n_nodes + 1, sizeof *t->values);
    t->values[t->n_nodes++] = -1;
    if (parent == BYTE_TRIE_ROOT) {
        t->first[byte] = node;
        return node;
    }
    if ((t->n_edges + 1) * 2 > t->mask)
        grow_edges(t);
    put_edge(t, (struct byte_trie_edge){ parent << 8 | byte, node });
    t->n_edges++;
    return node;
}

bool byte_trie_insert(struct byte_trie *t, struct str bytes, int32_t value)
{
    uint32_t node = BYTE_TRIE_ROOT;
    for (size_t i = 0; i < bytes.len; i++) {
        uint32_t child = byte_trie_step(t, node, (uint8_t)bytes.ptr[i]);
        if (child == BYTE_TRIE_NONE) {
            if (t->n_nodes >= MAX_NODES)
                return false;
            child = add_node(t, node, (uint8_t)bytes.ptr[i]);
        }
        node = child;
    }
    if (t->values[node] < 0)
        t->values[node] = value;
    return true;
}
