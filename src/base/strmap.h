/* strmap: text to a 32-bit value, open addressing. Keys are borrowed: the caller keeps them
 * alive as long as the map. Hashing is keyed per process, so hostile keys cannot collide on
 * purpose. Threads: readers may share a map that nobody changes. */
#ifndef BASE_STRMAP_H
#define BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct strmap_slot;
struct strmap {
    struct strmap_slot *slots;
    size_t n_slots, n_used;
};

void strmap_init(struct strmap *m, size_t expected); /* 0: grows when used */
void strmap_release(struct strmap *m);
/* false: the key is already there and keeps its value (which is stored to *existing if not NULL) */
bool strmap_insert(struct strmap *m, struct str key, uint32_t value, uint32_t *existing);
void strmap_set(struct strmap *m, struct str key, uint32_t value); /* inserts or overwrites */
bool strmap_find(const struct strmap *m, struct str key, uint32_t *value);

#endif
