/* Dicts: entries in the order of insertion, and an index over them once there are many. */
#include "text/template/jinja_value.h"

struct jdict *jdict_new(struct jinja *r, size_t capacity)
{
    struct jdict *d = jinja_alloc(r, 1, sizeof *d);
    struct jentry *entries = d ? jinja_alloc(r, capacity, sizeof *entries) : NULL;
    if (!entries)
        return NULL;
    *d = (struct jdict){ .entries = entries, .capacity = capacity };
    return d;
}

static uint64_t key_hash(struct jv key)
{
    switch (key.kind) {
    case JV_STRING:
        return str_hash(jstr_str(key.s));
    case JV_BOOL:
    case JV_INT:
    case JV_WIDE:
    case JV_FLOAT: {
        double d = jv_double(key) + 0.0;
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return (bits ^ (bits >> 29)) * 0x9E3779B97F4A7C15u >> 7;
    }
    case JV_TUPLE: {
        uint64_t h = 17;
        for (size_t i = 0; i < key.list->n; i++)
            h = h * 1000003u + key_hash(key.list->items[i]);
        return h;
    }
    default:
        return 1;
    }
}

static size_t dict_find(struct jinja *r, const struct jdict *d, struct jv key)
{
    if (!d->index && key.kind == JV_STRING) {
        for (size_t i = 0; i < d->n; i++)
            if (d->entries[i].key.kind == JV_STRING && d->entries[i].key.s->len == key.s->len &&
                memcmp(d->entries[i].key.s->ptr, key.s->ptr, key.s->len) == 0)
                return i;
        return d->n;
    }
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (jv_equal(r, d->entries[i].key, key))
                return i;
        return d->n;
    }
    size_t mask = d->n_index - 1;
    for (size_t at = key_hash(key) & mask; d->index[at]; at = (at + 1) & mask)
        if (jv_equal(r, d->entries[d->index[at] - 1].key, key))
            return d->index[at] - 1;
    return d->n;
}

static void index_put(struct jdict *d, size_t entry)
{
    size_t mask = d->n_index - 1;
    size_t at = key_hash(d->entries[entry].key) & mask;
    while (d->index[at])
        at = (at + 1) & mask;
    d->index[at] = (uint32_t)entry + 1;
}

bool jdict_reindex(struct jinja *r, struct jdict *d)
{
    size_t n_index = 32;
    while (n_index < 3 * d->n)
        n_index *= 2;
    uint32_t *index = jinja_alloc(r, n_index, sizeof *index);
    if (!index)
        return false;
    memset(index, 0, n_index * sizeof *index);
    d->index = index;
    d->n_index = n_index;
    for (size_t i = 0; i < d->n; i++)
        index_put(d, i);
    return true;
}

bool jdict_set(struct jinja *r, struct jdict *d, struct jv key, struct jv value)
{
    size_t i = dict_find(r, d, key);
    if (i < d->n) {
        d->entries[i].value = value;
        return true;
    }
    if (d->n == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 4;
        struct jentry *entries = jinja_alloc(r, capacity, sizeof *entries);
        if (!entries)
            return false;
        if (d->n)
            memcpy(entries, d->entries, d->n * sizeof *entries);
        d->entries = entries;
        d->capacity = capacity;
    }
    d->entries[d->n++] = (struct jentry){ key, value };
    if (d->n < JDICT_INDEX_FROM)
        return true;
    if (!d->index || 2 * d->n > d->n_index)
        return jdict_reindex(r, d);
    index_put(d, d->n - 1);
    return true;
}

bool jdict_get(struct jinja *r, struct jdict *d, struct jv key, struct jv *value)
{
    size_t i = dict_find(r, d, key);
    if (i == d->n)
        return false;
    *value = d->entries[i].value;
    return true;
}

bool jdict_get_str(struct jinja *r, struct jdict *d, struct str key, struct jv *value)
{
    struct jstr s = { .ptr = key.ptr, .len = key.len, .n_chars = JSTR_UNCOUNTED };
    return jdict_get(r, d, jv_of_str(&s), value);
}
