#include "engine/sequence.h"

#include "base/mem.h"

static int32_t *new_table(int32_t n)
{
    int32_t *table = mem_array(int32_t, (size_t)n);
    for (int32_t i = 0; i < n; i++)
        table[i] = -1;
    return table;
}

void sequence_init(struct sequence *s, const struct state_pool *p)
{
    *s = (struct sequence){ .slot = -1, .draft_slot = -1 };
    s->page = new_table(p->pages_per_sequence);
    s->sliding_page = new_table(p->pages_per_sequence);
}

void sequence_release(struct sequence *s)
{
    CHECK(s->slot < 0);
    mem_free(s->page);
    mem_free(s->sliding_page);
    *s = (struct sequence){ .slot = -1, .draft_slot = -1 };
}

enum status sequence_open(struct sequence *s, struct state_pool *p, struct error *err)
{
    CHECK(s->slot < 0);
    if (p->n_free_slots == 0)
        return STATUS_EXHAUSTED;
    int32_t slot = p->free_slots[p->n_free_slots - 1];
    if (p->has_fixed)
        TRY(state_pool_clear_slot(p, slot, err));
    s->slot = state_pool_take_slot(p);
    s->spoiled = false;
    s->n_pages = s->n_past = s->first_sliding = 0;
    return STATUS_OK;
}

static void drop_entry(struct page_group *g, int32_t *entry)
{
    if (*entry >= 0)
        page_group_drop(g, *entry);
    *entry = -1;
}

void sequence_empty(struct sequence *s, struct state_pool *p)
{
    for (int32_t i = 0; i < s->n_pages; i++) {
        drop_entry(&p->full, &s->page[i]);
        drop_entry(&p->sliding, &s->sliding_page[i]);
    }
    s->n_pages = s->n_past = s->first_sliding = 0;
}

void sequence_close(struct sequence *s, struct state_pool *p)
{
    if (s->slot < 0)
        return;
    sequence_empty(s, p);
    sequence_forget_draft(s, p);
    p->free_slots[p->n_free_slots++] = s->slot;
    s->slot = -1;
}

static int32_t pages_for(int32_t n_tokens)
{
    return (n_tokens + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS;
}

/* The page that the next token goes into when it is half full, else -1. */
static int32_t open_page(const struct sequence *s)
{
    return s->n_past % STATE_PAGE_TOKENS != 0 ? s->n_past / STATE_PAGE_TOKENS : -1;
}

static enum status own_page(struct state_pool *p, enum state_kind kind, int32_t *entry,
                            struct error *err)
{
    struct page_group *g = state_pool_group(p, kind);
    if (*entry < 0 || !page_group_is_shared(g, *entry))
        return STATUS_OK;
    int32_t copy = state_pool_take_page(p, kind);
    if (copy < 0 && g->kept[*entry] && p->keeper.give_up)
        p->keeper.give_up(p->keeper.user, kind, *entry);
    if (copy < 0)
        return page_group_is_shared(g, *entry) ? STATUS_EXHAUSTED : STATUS_OK;
    enum status status = state_pool_copy_page(p, kind, *entry, copy, err);
    if (status != STATUS_OK) {
        page_group_drop(g, copy);
        return status;
    }
    page_group_drop(g, *entry);
    *entry = copy;
    return STATUS_OK;
}

enum status sequence_reserve(struct sequence *s, struct state_pool *p, int32_t n_tokens,
                             struct error *err)
{
    int32_t needed = pages_for(s->n_past + n_tokens), open = open_page(s);
    CHECK(needed <= p->pages_per_sequence);
    if (open >= 0) {
        TRY(own_page(p, STATE_PAGED, &s->page[open], err));
        TRY(own_page(p, STATE_WINDOW, &s->sliding_page[open], err));
    }
    while (s->n_pages < needed) {
        int32_t full = -1, sliding = -1;
        if (p->has_full && (full = state_pool_take_page(p, STATE_PAGED)) < 0)
            return STATUS_EXHAUSTED;
        if (p->has_window && (sliding = state_pool_take_page(p, STATE_WINDOW)) < 0) {
            drop_entry(&p->full, &full);
            return STATUS_EXHAUSTED;
        }
        s->page[s->n_pages] = full;
        s->sliding_page[s->n_pages++] = sliding;
    }
    return STATUS_OK;
}

int32_t sequence_missing_pages(const struct sequence *s, const struct state_pool *p,
                               int32_t n_tokens)
{
    int32_t missing = MAX(pages_for(s->n_past + n_tokens) - s->n_pages, 0), open = open_page(s);
    bool copies = open >= 0 && s->page[open] >= 0 && page_group_is_shared(&p->full, s->page[open]);
    return missing + (copies ? 1 : 0);
}

void sequence_advance(struct sequence *s, struct state_pool *p, int32_t n_tokens)
{
    s->n_past += n_tokens;
    if (!p->has_window)
        return;
    /* The next token, at n_past, sees keys from n_past - window + 1 on. */
    int32_t first_seen = s->n_past - p->window + 1;
    while ((s->first_sliding + 1) * STATE_PAGE_TOKENS <= first_seen)
        drop_entry(&p->sliding, &s->sliding_page[s->first_sliding++]);
}

bool sequence_draft(struct sequence *s, struct state_pool *p, int32_t n)
{
    CHECK(s->draft_slot < 0);
    if (p->has_fixed) {
        if (p->n_free_slots == 0)
            return false;
        s->draft_slot = state_pool_take_slot(p);
    }
    s->n_drafted = n;
    return true;
}

void sequence_forget_draft(struct sequence *s, struct state_pool *p)
{
    if (s->draft_slot >= 0)
        p->free_slots[p->n_free_slots++] = s->draft_slot;
    s->draft_slot = -1;
    s->n_drafted = 0;
}

void sequence_settle(struct sequence *s, struct state_pool *p, int32_t n_rows, int32_t n_right)
{
    int32_t n = n_right;
    if (s->draft_slot >= 0 && n_right == n_rows) {
        int32_t slot = s->slot;
        s->slot = s->draft_slot;
        s->draft_slot = slot;
    } else if (s->draft_slot >= 0) {
        n = n_rows - s->n_drafted;
    }
    sequence_forget_draft(s, p);
    sequence_advance(s, p, n);
}

static void share_entry(struct page_group *g, int32_t from, int32_t *to)
{
    if (from >= 0)
        page_group_share(g, from);
    *to = from;
}

enum status sequence_fork(const struct sequence *from, struct sequence *to, struct state_pool *p,
                          struct error *err)
{
    CHECK(from->slot >= 0 && to->slot >= 0 && to->n_pages == 0);
    if (p->has_fixed)
        TRY(state_pool_copy_slot(p, from->slot, to->slot, err));
    /* Pages reserved beyond the tokens are the donor's own. */
    to->n_pages = pages_for(from->n_past);
    to->n_past = from->n_past;
    to->first_sliding = from->first_sliding;
    for (int32_t i = 0; i < to->n_pages; i++) {
        share_entry(&p->full, from->page[i], &to->page[i]);
        share_entry(&p->sliding, from->sliding_page[i], &to->sliding_page[i]);
    }
    return STATUS_OK;
}

struct batch_sequence sequence_in_batch(const struct sequence *s, int32_t first_row, int32_t n_rows)
{
    return (struct batch_sequence){
        .first_row = first_row,
        .n_rows = n_rows,
        .n_past = s->n_past,
        .page = s->page,
        .window_page = s->sliding_page,
        .state_slot = s->slot,
        .n_drafted = s->n_drafted,
        .draft_slot = MAX(s->draft_slot, 0),
    };
}
