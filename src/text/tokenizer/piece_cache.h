/* piece_cache: ids of the pieces seen last. Words repeat, merging does not pay twice.
 *
 * Direct-mapped, part of one scratch, so used by one thread at a time. An entry is two cache
 * lines; a short piece with few ids touches one. */
#ifndef TEXT_PIECE_CACHE_H
#define TEXT_PIECE_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/str.h"
#include "text/tokenizer/tokenizer.h"

#define PIECE_CACHE_BYTES 36
#define PIECE_CACHE_IDS 20
#define PIECE_CACHE_ENTRIES 32768

struct piece_entry {
    uint64_t hash;
    uint8_t len, n_ids, values, used;
    char bytes[PIECE_CACHE_BYTES];
    int32_t ids[PIECE_CACHE_IDS];
};

struct piece_cache {
    struct piece_entry *entries; /* NULL until the first use */
    uint64_t key;
};

void piece_cache_release(struct piece_cache *c);

/* The entry for a piece; NULL where it is too long to be kept. */
struct piece_entry *piece_cache_entry(struct piece_cache *c, struct str piece, uint64_t *hash);

HOT_INLINE bool piece_entry_holds(const struct piece_entry *e, uint64_t hash, struct str piece,
                                  bool values)
{
    return e->hash == hash && e->used && e->len == piece.len && e->values == values &&
           memcmp(e->bytes, piece.ptr, piece.len) == 0;
}

/* Keeps the ids behind `from`, unless they are too many. */
void piece_entry_store(struct piece_entry *e, uint64_t hash, struct str piece, bool values,
                       const struct token_list *ids, size_t from);

#endif
