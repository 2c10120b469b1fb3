#include "text/tokenizer/merge_table.h"

#include "base/mem.h"

enum { BATCH = 16 };

static enum status hash_merge(const struct tokenizer_spec *spec, const struct vocab *v, size_t rank,
                              uint64_t *key, struct error *err)
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
    *key = merge_table_key(vocab_hash(v, str_slice(text, 0, left)),
                           vocab_hash(v, str_slice(text, left + 1, text.len)));
    return STATUS_OK;
}

/* A pair that occurs twice keeps its last rank, as in the reference. */
static void insert(struct merge_table *m, uint64_t key, uint32_t rank)
{
    struct merge_slot slot = { { (uint32_t)key, (uint32_t)(key >> 32) }, rank };
    size_t i = key & m->mask;
    while (m->slots[i].rank != MERGE_NONE &&
           (m->slots[i].key[0] != slot.key[0] || m->slots[i].key[1] != slot.key[1]))
        i = (i + 1) & m->mask;
    m->slots[i] = slot;
}

enum status merge_table_init(struct merge_table *m, const struct tokenizer_spec *spec,
                             const struct vocab *v, struct error *err)
{
    if (spec->n_merges >= MERGE_NONE / 64)
        return error_set(err, STATUS_LIMIT, "tokenizer: %zu merges are too many", spec->n_merges);
    size_t n_slots = 16;
    while (n_slots < spec->n_merges + spec->n_merges / 2)
        n_slots *= 2;
    m->mask = n_slots - 1;
    m->n = spec->n_merges;
    m->bytes = n_slots * sizeof *m->slots;
    m->slots = mem_try_pages(m->bytes);
    if (!m->slots)
        return error_set(err, STATUS_NO_MEMORY, "tokenizer: no memory for %zu merges", m->n);
    memset(m->slots, 0xFF, m->bytes);
    m->results = mem_alloc(m->n * sizeof *m->results);
    for (size_t i = 0; i < m->n; i++)
        m->results[i] = MERGE_UNRESOLVED;

    uint64_t keys[BATCH];
    for (size_t from = 0; from < m->n; from += BATCH) {
        size_t n = MIN(m->n - from, (size_t)BATCH);
        for (size_t i = 0; i < n; i++) {
            TRY(hash_merge(spec, v, from + i, &keys[i], err));
            __builtin_prefetch(&m->slots[keys[i] & m->mask], 1);
        }
        for (size_t i = 0; i < n; i++)
            insert(m, keys[i], (uint32_t)(from + i));
    }
    return STATUS_OK;
}

void merge_table_release(struct merge_table *m)
{
    if (m->slots)
        mem_release_pages(m->slots, m->bytes);
    mem_free(m->results);
    *m = (struct merge_table){ 0 };
}

/* Any thread finds the same id, so that it does not matter who stores it. */
int32_t merge_table_resolve(const struct merge_table *m, const struct vocab *v, int32_t left,
                            int32_t right, uint32_t rank)
{
    struct str a = vocab_text(v, left), b = vocab_text(v, right);
    int32_t id = TOKEN_NONE;
    if (a.len + b.len <= v->max_len) {
        char *joint = mem_alloc(a.len + b.len);
        memcpy(joint, a.ptr, a.len);
        memcpy(joint + a.len, b.ptr, b.len);
        id = vocab_find(v, (struct str){ joint, a.len + b.len });
        mem_free(joint);
    }
    /* The text of a user never becomes a control token by way of merging. */
    if (id != TOKEN_NONE && v->types[id] == TOKEN_CONTROL)
        id = TOKEN_NONE;
    __atomic_store_n(&m->results[rank], id, __ATOMIC_RELAXED);
    return id;
}
