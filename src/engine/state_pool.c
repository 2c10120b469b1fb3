#include "engine/state_pool.h"

#include <string.h>

#include "base/mem.h"
#include "quant/kv_codec.h"
#include "tensor/kv_balance.h"

/* Pages of a group, and for each piece the bytes it takes. */
struct pool_shape {
    bool has_full, has_window, has_fixed;
    int32_t window, pages_per_sequence, full_pages, sliding_pages;
};

static int32_t slots_of(const struct state_pool_options *o)
{
    return o->n_sequences + o->n_draft_slots;
}

static int32_t pages_of(int64_t n_tokens)
{
    return (int32_t)((n_tokens + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS);
}

static struct pool_shape pool_shape_of(const struct state_layout *layout,
                                       const struct state_pool_options *o)
{
    struct pool_shape s = { 0 };
    for (int32_t i = 0; i < layout->n_pieces; i++) {
        const struct state_piece *piece = &layout->piece[i];
        s.has_full |= piece->kind == STATE_PAGED;
        s.has_window |= piece->kind == STATE_WINDOW;
        s.has_fixed |= piece->kind == STATE_FIXED;
        if (piece->kind == STATE_WINDOW)
            s.window = MAX(s.window, piece->window);
    }
    s.pages_per_sequence = pages_of(o->context);
    s.full_pages = s.has_full ? pages_of(MAX(o->pool_tokens, o->context)) : 0;
    /* A window and what one pass adds to it, both cut anywhere inside a page. */
    int64_t live = MIN((int64_t)s.window + o->batch_tokens, (int64_t)o->context);
    int64_t each = MIN(pages_of(live) + 2, s.pages_per_sequence);
    s.sliding_pages = s.has_window ? (int32_t)MIN(each * o->n_sequences, INT32_MAX / 2) : 0;
    return s;
}

/* Fills *layer but its addresses. */
static enum status piece_layer(const struct state_piece *piece, const struct device *dev,
                               const struct state_pool_options *o, struct kv_layer *layer,
                               struct error *err)
{
    *layer = (struct kv_layer){
        .n_kv_heads = piece->n_kv_heads, .k_dim = piece->k_dim, .v_dim = piece->v_dim,
        .page_tokens = STATE_PAGE_TOKENS, .k_type = o->k_type, .v_type = o->v_type,
        .window = piece->kind == STATE_WINDOW ? piece->window : 0,
    };
    layer->k_page_bytes = dev->ops->kv_page_bytes(dev, o->k_type, piece->n_kv_heads,
                                                  piece->k_dim, STATE_PAGE_TOKENS);
    if (layer->k_page_bytes == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: keys of %d values as %s: expected %s", piece->name, piece->k_dim,
                         kv_type_name(o->k_type), kv_dim_expected(o->k_type));
    if (piece->v_dim > 0) {
        layer->v_page_bytes = dev->ops->kv_page_bytes(dev, o->v_type, piece->n_kv_heads,
                                                      piece->v_dim, STATE_PAGE_TOKENS);
        if (layer->v_page_bytes == 0)
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s: values of %d values as %s: expected %s", piece->name,
                             piece->v_dim, kv_type_name(o->v_type), kv_dim_expected(o->v_type));
    }
    return STATUS_OK;
}

static int32_t piece_pages(const struct pool_shape *s, const struct state_piece *piece)
{
    return piece->kind == STATE_PAGED ? s->full_pages : s->sliding_pages;
}

enum status state_pool_bytes(const struct state_layout *layout, const struct device *dev,
                             const struct state_pool_options *o, int64_t *bytes,
                             struct error *err)
{
    struct pool_shape s = pool_shape_of(layout, o);
    int64_t all = 0;
    for (int32_t i = 0; i < layout->n_pieces; i++) {
        const struct state_piece *piece = &layout->piece[i];
        int64_t each, part;
        int32_t count;
        if (piece->kind == STATE_FIXED) {
            each = piece->fixed_bytes;
            count = slots_of(o);
        } else {
            struct kv_layer layer;
            TRY(piece_layer(piece, dev, o, &layer, err));
            each = layer.k_page_bytes + layer.v_page_bytes;
            count = piece_pages(&s, piece);
        }
        if (__builtin_mul_overflow(each, count, &part) || __builtin_add_overflow(all, part, &all))
            return error_set(err, STATUS_NO_MEMORY, "%s: %d blocks of %lld bytes do not fit",
                             piece->name, count, (long long)each);
    }
    *bytes = all;
    return STATUS_OK;
}

static enum status take_pages(struct state_pool *p, int64_t page_bytes, int32_t n_pages,
                              uint8_t **out, struct error *err)
{
    void *block = NULL;
    size_t bytes = (size_t)page_bytes * (size_t)n_pages; /* checked by state_pool_bytes */
    TRY(p->dev->ops->memory_take(p->dev, bytes, &block, err));
    *out = block;
    p->bounce_bytes = MAX(p->bounce_bytes, page_bytes);
    return STATUS_OK;
}

static enum status take_piece(struct state_pool *p, const struct pool_shape *s, int32_t i,
                              struct error *err)
{
    const struct state_piece *piece = &p->layout->piece[i];
    if (piece->kind == STATE_FIXED)
        return take_pages(p, piece->fixed_bytes, slots_of(&p->options), &p->fixed[i], err);
    struct kv_layer *layer = &p->kv[i];
    TRY(piece_layer(piece, p->dev, &p->options, layer, err));
    /* Latent pieces have no values: those are read from the keys. */
    if (p->dev->host_memory && kv_codec_of(layer->k_type)->scale_bytes > 0 && piece->v_dim > 0)
        layer->balance = kv_balance_new(layer->n_kv_heads, layer->k_dim);
    TRY(take_pages(p, layer->k_page_bytes, piece_pages(s, piece), &layer->k_pages, err));
    if (layer->v_page_bytes > 0)
        TRY(take_pages(p, layer->v_page_bytes, piece_pages(s, piece), &layer->v_pages, err));
    return STATUS_OK;
}

enum status state_pool_new(const struct state_layout *layout, struct device *dev,
                           const struct state_pool_options *options, struct state_pool **out,
                           struct error *err)
{
    int64_t bytes;
    TRY(state_pool_bytes(layout, dev, options, &bytes, err));
    struct pool_shape s = pool_shape_of(layout, options);
    struct state_pool *p = mem_new(struct state_pool);
    p->dev = dev;
    p->layout = layout;
    p->options = *options;
    p->has_full = s.has_full;
    p->has_window = s.has_window;
    p->has_fixed = s.has_fixed;
    p->window = s.window;
    p->pages_per_sequence = s.pages_per_sequence;
    p->bytes = bytes;
    p->kv = mem_array(struct kv_layer, (size_t)layout->n_pieces);
    p->fixed = mem_array(uint8_t *, (size_t)layout->n_pieces);
    page_group_init(&p->full, s.full_pages);
    page_group_init(&p->sliding, s.sliding_pages);
    int32_t n_slots = slots_of(options);
    p->free_slots = mem_array(int32_t, (size_t)n_slots);
    for (int32_t i = 0; i < n_slots; i++)
        p->free_slots[p->n_free_slots++] = n_slots - 1 - i;
    p->n_untouched_slots = n_slots;
    for (int32_t i = 0; i < layout->n_pieces; i++) {
        enum status status = take_piece(p, &s, i, err);
        if (status != STATUS_OK) {
            state_pool_free(p);
            return status;
        }
    }
    p->bounce = mem_alloc((size_t)p->bounce_bytes);
    *out = p;
    return STATUS_OK;
}

void state_pool_free(struct state_pool *p)
{
    if (!p)
        return;
    struct device *dev = p->dev;
    for (int32_t i = 0; i < p->layout->n_pieces; i++) {
        const struct state_piece *piece = &p->layout->piece[i];
        const struct kv_layer *layer = &p->kv[i];
        size_t n_pages = (size_t)(piece->kind == STATE_PAGED ? p->full.n_pages
                                                             : p->sliding.n_pages);
        kv_balance_free(layer->balance);
        if (layer->k_pages)
            dev->ops->memory_drop(dev, layer->k_pages, (size_t)layer->k_page_bytes * n_pages);
        if (layer->v_pages)
            dev->ops->memory_drop(dev, layer->v_pages, (size_t)layer->v_page_bytes * n_pages);
        if (p->fixed[i])
            dev->ops->memory_drop(dev, p->fixed[i],
                                  (size_t)piece->fixed_bytes * (size_t)slots_of(&p->options));
    }
    page_group_release(&p->full);
    page_group_release(&p->sliding);
    mem_free(p->kv);
    mem_free(p->fixed);
    mem_free(p->free_slots);
    mem_free(p->bounce);
    mem_free(p);
}

int64_t state_pool_untouched(const struct state_pool *p)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < p->layout->n_pieces; i++) {
        const struct state_piece *piece = &p->layout->piece[i];
        const struct kv_layer *layer = &p->kv[i];
        if (piece->kind == STATE_FIXED)
            bytes += piece->fixed_bytes * p->n_untouched_slots;
        else
            bytes += (layer->k_page_bytes + layer->v_page_bytes) *
                     (piece->kind == STATE_PAGED ? p->full : p->sliding).n_untouched;
    }
    return bytes;
}

struct state_view state_pool_view(const struct state_pool *p)
{
    return (struct state_view){ p->kv, p->fixed };
}

struct page_group *state_pool_group(struct state_pool *p, enum state_kind kind)
{
    CHECK(kind == STATE_PAGED || kind == STATE_WINDOW);
    return kind == STATE_PAGED ? &p->full : &p->sliding;
}

int32_t state_pool_take_page(struct state_pool *p, enum state_kind kind)
{
    struct page_group *g = state_pool_group(p, kind);
    if (g->n_free == 0 && p->keeper.reclaim)
        p->keeper.reclaim(p->keeper.user, kind);
    return page_group_take(g);
}

int32_t state_pool_take_slot(struct state_pool *p)
{
    CHECK(p->n_free_slots > 0);
    int32_t slot = p->free_slots[--p->n_free_slots];
    p->n_untouched_slots = MIN(p->n_untouched_slots, p->n_free_slots);
    return slot;
}

static enum status copy_block(struct state_pool *p, uint8_t *base, int64_t bytes, int32_t from,
                              int32_t to, struct error *err)
{
    if (!base)
        return STATUS_OK;
    TRY(p->dev->ops->copy_out(p->dev, p->bounce, base + bytes * from, (size_t)bytes, err));
    return p->dev->ops->copy_in(p->dev, base + bytes * to, p->bounce, (size_t)bytes, err);
}

enum status state_pool_copy_page(struct state_pool *p, enum state_kind kind, int32_t from,
                                 int32_t to, struct error *err)
{
    for (int32_t i = 0; i < p->layout->n_pieces; i++)
        if (p->layout->piece[i].kind == kind) {
            const struct kv_layer *layer = &p->kv[i];
            TRY(copy_block(p, layer->k_pages, layer->k_page_bytes, from, to, err));
            TRY(copy_block(p, layer->v_pages, layer->v_page_bytes, from, to, err));
        }
    return STATUS_OK;
}

enum status state_pool_copy_slot(struct state_pool *p, int32_t from, int32_t to,
                                 struct error *err)
{
    for (int32_t i = 0; i < p->layout->n_pieces; i++)
        TRY(copy_block(p, p->fixed[i], p->layout->piece[i].fixed_bytes, from, to, err));
    return STATUS_OK;
}

enum status state_pool_clear_slot(struct state_pool *p, int32_t slot, struct error *err)
{
    for (int32_t i = 0; i < p->layout->n_pieces; i++) {
        int64_t bytes = p->layout->piece[i].fixed_bytes;
        if (!p->fixed[i])
            continue;
        memset(p->bounce, 0, (size_t)bytes);
        TRY(p->dev->ops->copy_in(p->dev, p->fixed[i] + bytes * slot, p->bounce, (size_t)bytes,
                                 err));
    }
    return STATUS_OK;
}
