#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static size_t checked_product(size_t count, size_t size)
{
    size_t bytes;
    CHECK(!__builtin_mul_overflow(count, size, &bytes));
    return bytes;
}

void *mem_alloc(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    CHECK(block);
    return block;
}

void *mem_zero(size_t count, size_t size)
{
    size_t bytes = checked_product(count, size);
    void *block = calloc(bytes ? bytes : 1, 1);
    CHECK(block);
    return block;
}

void *mem_resize(void *old, size_t count, size_t size)
{
    size_t bytes = checked_product(count, size);
    void *block = realloc(old, bytes ? bytes : 1);
    CHECK(block);
    return block;
}

void *mem_copy(const void *bytes, size_t n)
{
    void *block = mem_alloc(n);
    if (n)
        memcpy(block, bytes, n);
    return block;
}

char *mem_string(const char *bytes, size_t n)
{
    CHECK(n < SIZE_MAX);
    char *block = mem_alloc(n + 1);
    if (n)
        memcpy(block, bytes, n);
    block[n] = 0;
    return block;
}

void mem_free(void *block)
{
    free(block);
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* A block that starts on a huge page if it is as large as one. */
static void *map_pages(size_t bytes, size_t *mapped)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0)
        bytes = 1;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t wanted = round_up(bytes, page);
    size_t slack = wanted >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *base = mmap(NULL, wanted + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    *mapped = wanted;
    if (!slack)
        return base;
    /* Cut the block out so that it starts on a huge page. */
    size_t head = (size_t)(-(uintptr_t)base & (HUGE_PAGE - 1));
    if (head)
        munmap(base, head);
    if (slack - head)
        munmap(base + head + wanted, slack - head);
    return base + head;
}

void *mem_try_pages(size_t bytes)
{
    size_t mapped;
    char *block = map_pages(bytes, &mapped);
    if (block && mapped >= HUGE_PAGE)
        madvise(block, mapped, MADV_HUGEPAGE); /* advice: without it the pages are small */
    return block;
}

void *mem_try_lazy_pages(size_t bytes)
{
    size_t mapped;
    char *block = map_pages(bytes, &mapped);
    if (!block || mapped < HUGE_PAGE)
        return block;
    madvise(block, HUGE_PAGE, MADV_NOHUGEPAGE);
    if (mapped > HUGE_PAGE)
        madvise(block + HUGE_PAGE, mapped - HUGE_PAGE, MADV_HUGEPAGE);
    return block;
}

void mem_release_pages(void *block, size_t bytes)
{
    if (!block)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(munmap(block, round_up(bytes ? bytes : 1, page)) == 0);
}

void mem_reserve(void **items, size_t *capacity, size_t needed, size_t element_size)
{
    if (needed <= *capacity)
        return;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < needed) {
        if (__builtin_mul_overflow(grown, (size_t)2, &grown))
            grown = needed;
    }
    *items = mem_resize(*items, grown, element_size);
    *capacity = grown;
}
