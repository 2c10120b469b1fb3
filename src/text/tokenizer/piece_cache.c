#include "text/tokenizer/piece_cache.h"

#include "base/mem.h"
#include "text/tokenizer/token_hash.h"

void piece_cache_release(struct piece_cache *c)
{
    mem_free(c->entries);
    *c = (struct piece_cache){ 0 };
}

struct piece_entry *piece_cache_entry(struct piece_cache *c, struct str piece, uint64_t *hash)
{
    if (piece.len > PIECE_CACHE_BYTES)
        return NULL;
    if (!c->entries) {
        c->entries = mem_array(struct piece_entry, PIECE_CACHE_ENTRIES);
        c->key = token_hash_key();
    }
    *hash = token_hash(c->key, piece.ptr, piece.len);
    return &c->entries[*hash % PIECE_CACHE_ENTRIES];
}

void piece_entry_store(struct piece_entry *e, uint64_t hash, struct str piece, bool values,
                       const struct token_list *ids, size_t from)
{
    size_t n = ids->n - from;
    if (n > PIECE_CACHE_IDS)
        return;
    e->hash = hash;
    e->len = (uint8_t)piece.len;
    e->n_ids = (uint8_t)n;
    e->values = values;
    e->used = 1;
    memcpy(e->bytes, piece.ptr, piece.len);
    if (n)
        memcpy(e->ids, ids->ids + from, n * sizeof *ids->ids);
}
