#include "text/tokenizer/merge_table.h"

#include "base/mem.h"

enum { BATCH = 16 };

/* A merge on its way into the table: its three spellings, then their ids. */
struct pending_merge {
    struct str part[3]; /* left, right, both */
    uint64_t hash[3];
    int32_t id[3];
};

static enum status split_merge(const struct tokenizer_spec *spec, size_t rank,
                               struct pending_merge *p, char *joined, size_t room,
                               struct error *err)
{
    struct str text = spec->merges[rank];
    size_t left = 0;
    if (spec->merge_left_len) {
        left = spec->merge_left_len[rank];
    } else {
        const char *space = text.len > 1 ? memchr(text.ptr + 1, ' ', text.len - 1) : NULL;
        left = space ? (size_t)(space - text.ptr) : text.len;
    }
    if (left == 0 || left + 1 >= text.len)
        return error_set(err, STATUS_INVALID,
                         "tokenizer: merge %zu \"%.*s\" is not two pieces with a space between",
                         rank, STR_ARG(text));
    if (text.len - 1 > room)
        return error_set(err, STATUS_INVALID,
                         "tokenizer: merge %zu makes %zu bytes, the longest token has %zu", rank,
                         text.len - 1, room);
    p->part[0] = (struct str){ text.ptr, left };
    p->part[1] = (struct str){ text.ptr + left + 1, text.len - left - 1 };
    memcpy(joined, p->part[0].ptr, left);
    memcpy(joined + left, p->part[1].ptr, p->part[1].len);
    p->part[2] = (struct str){ joined, text.len - 1 };
    return STATUS_OK;
}

static enum status find_parts(const struct vocab *v, size_t rank, struct pending_merge *p,
                              struct error *err)
{
    for (int i = 0; i < 3; i++) {
        p->id[i] = vocab_find_hashed(v, p->hash[i], p->part[i]);
        if (p->id[i] == TOKEN_NONE)
            return error_set(err, STATUS_INVALID,
                             "tokenizer: merge %zu needs the token \"%.*s\", which is not in the "
                             "vocabulary",
                             rank, STR_ARG(p->part[i]));
    }
    return STATUS_OK;
}

/* A pair that occurs twice keeps its last rank, as in the reference. */
static void insert(struct merge_table *m, const struct pending_merge *p, uint32_t rank)
{
    size_t i = merge_table_slot(m, p->id[0], p->id[1]);
    while (m->slots[i].rank != MERGE_NONE &&
           !(m->slots[i].left == p->id[0] && m->slots[i].right == p->id[1]))
        i = (i + 1) & m->mask;
    m->slots[i] = (struct merge_slot){ p->id[0], p->id[1], rank };
}

enum status merge_table_init(struct merge_table *m, const struct tokenizer_spec *spec,
                             const struct vocab *v, struct error *err)
{
    if (spec->n_merges >= MERGE_NONE / 4)
        return error_set(err, STATUS_LIMIT, "tokenizer: %zu merges are too many", spec->n_merges);
    size_t n_slots = 16;
    while (n_slots < spec->n_merges + spec->n_merges / 2)
        n_slots *= 2;
    m->mask = n_slots - 1;
    m->key = v->key;
    m->n = spec->n_merges;
    m->bytes = n_slots * sizeof *m->slots;
    m->slots = mem_try_pages(m->bytes);
    if (!m->slots)
        return error_set(err, STATUS_NO_MEMORY, "tokenizer: no memory for %zu merges", m->n);
    memset(m->slots, 0xFF, m->bytes);
    m->results = mem_alloc(m->n * sizeof *m->results);

    size_t room = v->max_len;
    char *joined = mem_alloc(BATCH * room + 1);
    struct pending_merge batch[BATCH];
    enum status s = STATUS_OK;
    for (size_t from = 0; from < m->n && s == STATUS_OK; from += BATCH) {
        size_t n = MIN(m->n - from, (size_t)BATCH);
        for (size_t i = 0; i < n && s == STATUS_OK; i++) {
            s = split_merge(spec, from + i, &batch[i], joined + i * room, room, err);
            for (int k = 0; k < 3 && s == STATUS_OK; k++) {
                batch[i].hash[k] = vocab_hash(v, batch[i].part[k]);
                vocab_prefetch(v, batch[i].hash[k]);
            }
        }
        for (size_t i = 0; i < n && s == STATUS_OK; i++) {
            s = find_parts(v, from + i, &batch[i], err);
            if (s == STATUS_OK)
                __builtin_prefetch(&m->slots[merge_table_slot(m, batch[i].id[0], batch[i].id[1])]);
        }
        for (size_t i = 0; i < n && s == STATUS_OK; i++) {
            m->results[from + i] = batch[i].id[2];
            /* The text of a user never becomes a control token by way of merging. */
            if (v->types[batch[i].id[2]] != TOKEN_CONTROL)
                insert(m, &batch[i], (uint32_t)(from + i));
        }
    }
    mem_free(joined);
    return s;
}

void merge_table_release(struct merge_table *m)
{
    mem_release_pages(m->slots, m->bytes);
    mem_free(m->results);
    *m = (struct merge_table){ 0 };
}
