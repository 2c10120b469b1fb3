/* page_group: which pages of a pool are free, and how many owners each of the others has.
 *
 * A group stands for all state pieces that share one page table: page 7 of the group is page 7
 * of every one of them. Pages are shared by forks and returned when the last owner drops them.
 * A cache is one more owner that gives a page up when somebody needs it: n_idle counts the pages
 * that only a cache holds.
 * Threads: the engine thread. */
#ifndef ENGINE_PAGE_GROUP_H
#define ENGINE_PAGE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

struct page_group {
    int32_t *n_owners; /* [n_pages] */
    int32_t *free;     /* [n_free] a stack: the page returned last is taken first */
    bool *kept;        /* [n_pages] a cache is among the owners */
    int32_t n_pages, n_free, n_idle;
    int32_t n_untouched; /* never taken yet: they lie at the bottom of the stack */
};

void page_group_init(struct page_group *g, int32_t n_pages);
void page_group_release(struct page_group *g);
int32_t page_group_take(struct page_group *g); /* -1: none is free */
void page_group_share(struct page_group *g, int32_t page);
void page_group_drop(struct page_group *g, int32_t page);
/* The cache's share and drop; it owns a page at most once. */
void page_group_keep(struct page_group *g, int32_t page);
void page_group_let_go(struct page_group *g, int32_t page);
bool page_group_is_idle(const struct page_group *g, int32_t page);
bool page_group_is_shared(const struct page_group *g, int32_t page);

#endif
