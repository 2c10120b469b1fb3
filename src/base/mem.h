/* mem: host memory.
 *
 * mem_* abort when the system has no memory: they are for small allocations, whose failure
 * nobody could handle better. Large ones (weights, KV, images) use mem_try_*, which return
 * NULL. Every size computed from outside input is checked before it comes here. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

void *mem_alloc(size_t bytes);                    /* undefined contents; 0 bytes is allowed */
void *mem_zero(size_t count, size_t size);        /* zeroed; traps if count * size wraps */
void *mem_resize(void *old, size_t count, size_t size);
void *mem_copy(const void *bytes, size_t n);      /* a new block holding n bytes */
char *mem_string(const char *bytes, size_t n);    /* the same with a NUL behind it */
void mem_free(void *block);                       /* NULL is allowed */

#define mem_array(type, count) ((type *)mem_zero((count), sizeof(type)))
#define mem_new(type) ((type *)mem_zero(1, sizeof(type)))

/* Page-aligned, zeroed, on huge pages where the kernel grants them; NULL if refused.
 * Release with mem_release_pages and the same size. */
void *mem_try_pages(size_t bytes);
/* The same, for memory that fills from the start and may never fill: the first huge page of it
 * is made of small ones, so that little use costs little. */
void *mem_try_lazy_pages(size_t bytes);
void mem_release_pages(void *block, size_t bytes);

/* Grows *items (of *capacity elements) to hold `needed`, doubling; traps if the size wraps. */
void mem_reserve(void **items, size_t *capacity, size_t needed, size_t element_size);

#endif
