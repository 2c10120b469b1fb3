/* arena: memory with one lifetime (a load, a request, a render), freed at once.
 *
 * Owns: everything allocated from it. Allocation aborts like mem_*, except beyond `limit`
 * bytes, where arena_alloc returns NULL; limit 0 means none. Threads: one at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/str.h"

struct arena_block;
struct arena {
    struct arena_block *head;
    size_t used_bytes; /* sum of all allocations */
    size_t limit;      /* 0: none */
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_release(struct arena *a);         /* frees everything; the arena can be used again */
void *arena_alloc(struct arena *a, size_t bytes);              /* 16-aligned, undefined */
void *arena_zero(struct arena *a, size_t count, size_t size);  /* NULL too if it wraps */
struct str arena_str(struct arena *a, struct str s);           /* a copy with a NUL behind it */
struct str arena_format(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

#define arena_array(arena, type, count) ((type *)arena_zero((arena), (count), sizeof(type)))

#endif
