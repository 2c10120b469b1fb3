#include "engine/state_snapshot.h"

/* The blocks that make up one page or slot: at most keys and values of a piece. */
struct block {
    uint8_t *base;
    int64_t bytes;
};

static int blocks_of(const struct state_pool *p, int32_t i, enum state_kind kind,
                     struct block out[2])
{
    const struct state_piece *piece = &p->layout->piece[i];
    if (piece->kind != kind)
        return 0;
    if (kind == STATE_FIXED) {
        out[0] = (struct block){ p->fixed[i], piece->fixed_bytes };
        return 1;
    }
    out[0] = (struct block){ p->kv[i].k_pages, p->kv[i].k_page_bytes };
    out[1] = (struct block){ p->kv[i].v_pages, p->kv[i].v_page_bytes };
    return out[1].bytes > 0 ? 2 : 1;
}

int64_t state_snapshot_bytes(const struct state_pool *p, enum state_kind kind)
{
    int64_t all = 0;
    struct block block[2];
    for (int32_t i = 0; i < p->layout->n_pieces; i++)
        for (int n = blocks_of(p, i, kind, block), k = 0; k < n; k++)
            all += block[k].bytes;
    return all;
}

enum status state_snapshot_save(const struct state_pool *p, enum state_kind kind, int32_t index,
                                uint8_t *out, struct error *err)
{
    struct block block[2];
    for (int32_t i = 0; i < p->layout->n_pieces; i++)
        for (int n = blocks_of(p, i, kind, block), k = 0; k < n; k++) {
            TRY(p->dev->ops->copy_out(p->dev, out, block[k].base + block[k].bytes * index,
                                      (size_t)block[k].bytes, err));
            out += block[k].bytes;
        }
    return STATUS_OK;
}

enum status state_snapshot_load(struct state_pool *p, enum state_kind kind, int32_t index,
                                const uint8_t *bytes, struct error *err)
{
    struct block block[2];
    for (int32_t i = 0; i < p->layout->n_pieces; i++)
        for (int n = blocks_of(p, i, kind, block), k = 0; k < n; k++) {
            TRY(p->dev->ops->copy_in(p->dev, block[k].base + block[k].bytes * index, bytes,
                                     (size_t)block[k].bytes, err));
            bytes += block[k].bytes;
        }
    return STATUS_OK;
}
