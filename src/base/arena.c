#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

/* | header | bytes ... used | free ... capacity |, newest block first. */
struct arena_block {
    struct arena_block *next;
    size_t used, capacity;
    size_t unused_; /* keeps `bytes` 16-aligned */
    _Alignas(16) unsigned char bytes[];
};

#define FIRST_BLOCK ((size_t)4096)
#define LARGEST_BLOCK ((size_t)1 << 20)

void arena_init(struct arena *a, size_t limit_bytes)
{
    *a = (struct arena){ .limit = limit_bytes };
}

void arena_release(struct arena *a)
{
    while (a->head) {
        struct arena_block *next = a->head->next;
        mem_free(a->head);
        a->head = next;
    }
    a->used_bytes = 0;
}

static struct arena_block *block_new(size_t capacity)
{
    struct arena_block *b = mem_alloc(sizeof(*b) + capacity);
    *b = (struct arena_block){ .capacity = capacity };
    return b;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t wanted = (bytes + 15) & ~(size_t)15;
    if (a->limit && (wanted > a->limit || a->used_bytes > a->limit - wanted))
        return NULL;
    struct arena_block *head = a->head;
    if (!head || head->capacity - head->used < wanted) {
        size_t next = head ? MIN(head->capacity * 2, LARGEST_BLOCK) : FIRST_BLOCK;
        struct arena_block *b;
        if (head && wanted > next / 4) {
            /* A large one gets its own block behind the head, which keeps being filled. */
            b = block_new(wanted);
            b->next = head->next;
            head->next = b;
        } else {
            b = block_new(MAX(next, wanted));
            b->next = head;
            a->head = b;
        }
        head = b;
    }
    void *result = head->bytes + head->used;
    head->used += wanted;
    a->used_bytes += wanted;
    return result;
}

void *arena_zero(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *result = arena_alloc(a, bytes);
    if (result)
        memset(result, 0, bytes);
    return result;
}

struct str arena_str(struct arena *a, struct str s)
{
    char *copy = s.len < SIZE_MAX ? arena_alloc(a, s.len + 1) : NULL;
    if (!copy)
        return (struct str){ NULL, 0 };
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = 0;
    return (struct str){ copy, s.len };
}

struct str arena_format(struct arena *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (!text)
        return (struct str){ NULL, 0 };
    va_start(arguments, format);
    vsnprintf(text, (size_t)n + 1, format, arguments);
    va_end(arguments);
    return (struct str){ text, (size_t)n };
}
