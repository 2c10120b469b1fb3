#include "base/strmap.h"

#include "base/mem.h"

/* Linear probing; a power of two of slots, at most half of them used. */
struct strmap_slot {
    const char *key; /* NULL: free */
    size_t length;
    uint32_t hash, value;
};

static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots / 2 < n)
        slots *= 2;
    return slots;
}

void strmap_init(struct strmap *m, size_t expected)
{
    *m = (struct strmap){ 0 };
    if (expected) {
        CHECK(expected < SIZE_MAX / 4);
        m->n_slots = slots_for(expected);
        m->slots = mem_array(struct strmap_slot, m->n_slots);
    }
}

void strmap_release(struct strmap *m)
{
    mem_free(m->slots);
    *m = (struct strmap){ 0 };
}

/* The slot that holds the key, or the free one where it belongs. */
static struct strmap_slot *locate(const struct strmap *m, struct str key, uint32_t hash)
{
    size_t mask = m->n_slots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct strmap_slot *slot = &m->slots[i];
        if (!slot->key)
            return slot;
        if (slot->hash == hash && str_eq((struct str){ slot->key, slot->length }, key))
            return slot;
    }
}

static void grow(struct strmap *m)
{
    struct strmap old = *m;
    m->n_slots = slots_for(old.n_used + 1) * 2;
    m->slots = mem_array(struct strmap_slot, m->n_slots);
    for (size_t i = 0; i < old.n_slots; i++) {
        struct strmap_slot *slot = &old.slots[i];
        if (slot->key)
            *locate(m, (struct str){ slot->key, slot->length }, slot->hash) = *slot;
    }
    mem_free(old.slots);
}

static struct strmap_slot *take_slot(struct strmap *m, struct str key, bool *found)
{
    if (m->n_used >= m->n_slots / 2)
        grow(m);
    uint32_t hash = (uint32_t)str_hash(key);
    struct strmap_slot *slot = locate(m, key, hash);
    *found = slot->key != NULL;
    if (!*found) {
        slot->key = key.ptr ? key.ptr : "";
        slot->length = key.len;
        slot->hash = hash;
        m->n_used++;
    }
    return slot;
}

bool strmap_insert(struct strmap *m, struct str key, uint32_t value, uint32_t *existing)
{
    bool found;
    struct strmap_slot *slot = take_slot(m, key, &found);
    if (!found)
        slot->value = value;
    else if (existing)
        *existing = slot->value;
    return !found;
}

void strmap_set(struct strmap *m, struct str key, uint32_t value)
{
    bool found;
    take_slot(m, key, &found)->value = value;
}

bool strmap_find(const struct strmap *m, struct str key, uint32_t *value)
{
    if (m->n_used == 0)
        return false;
    struct strmap_slot *slot = locate(m, key, (uint32_t)str_hash(key));
    if (!slot->key)
        return false;
    if (value)
        *value = slot->value;
    return true;
}
