#include "engine/page_group.h"

#include "base/compiler.h"
#include "base/mem.h"

void page_group_init(struct page_group *g, int32_t n_pages)
{
    CHECK(n_pages >= 0);
    g->n_owners = mem_array(int32_t, (size_t)n_pages);
    g->kept = mem_array(bool, (size_t)n_pages);
    g->free = mem_array(int32_t, (size_t)n_pages);
    g->n_pages = g->n_free = g->n_untouched = n_pages;
    for (int32_t i = 0; i < n_pages; i++) /* the lowest pages are taken first */
        g->free[i] = n_pages - 1 - i;
}

void page_group_release(struct page_group *g)
{
    mem_free(g->n_owners);
    mem_free(g->free);
    mem_free(g->kept);
    *g = (struct page_group){ 0 };
}

int32_t page_group_take(struct page_group *g)
{
    if (g->n_free == 0)
        return -1;
    int32_t page = g->free[--g->n_free];
    g->n_untouched = MIN(g->n_untouched, g->n_free);
    CHECK(g->n_owners[page] == 0);
    g->n_owners[page] = 1;
    return page;
}

void page_group_share(struct page_group *g, int32_t page)
{
    CHECK(page >= 0 && page < g->n_pages && g->n_owners[page] > 0);
    g->n_idle -= page_group_is_idle(g, page);
    g->n_owners[page]++;
}

void page_group_drop(struct page_group *g, int32_t page)
{
    CHECK(page >= 0 && page < g->n_pages && g->n_owners[page] > 0);
    if (--g->n_owners[page] == 0)
        g->free[g->n_free++] = page;
    g->n_idle += page_group_is_idle(g, page);
}

void page_group_keep(struct page_group *g, int32_t page)
{
    CHECK(!g->kept[page]);
    page_group_share(g, page);
    g->kept[page] = true;
}

void page_group_let_go(struct page_group *g, int32_t page)
{
    CHECK(g->kept[page]);
    g->n_idle -= page_group_is_idle(g, page);
    g->kept[page] = false;
    page_group_drop(g, page);
}

bool page_group_is_idle(const struct page_group *g, int32_t page)
{
    return g->kept[page] && g->n_owners[page] == 1;
}

bool page_group_is_shared(const struct page_group *g, int32_t page)
{
    return g->n_owners[page] > 1;
}
