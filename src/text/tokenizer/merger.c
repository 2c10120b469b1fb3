#include "text/tokenizer/merger.h"

#include <stdlib.h>

#include "base/mem.h"

#define NO_RANK UINT64_MAX
#define NOWHERE UINT32_MAX
/* Up to here a scan for the best pair costs less than the buckets. */
#define SHORT_PIECE 48

void merger_clear(struct merger *m)
{
    m->n = 0;
}

void merger_reserve(struct merger *m, size_t n)
{
    if (n > m->capacity)
        mem_reserve((void **)&m->symbols, &m->capacity, n, sizeof *m->symbols);
}

void merger_shrink(struct merger *m, size_t max_symbols)
{
    if (m->capacity <= max_symbols)
        return;
    struct pair_entry *pairs = m->pairs;
    m->pairs = NULL;
    merger_release(m);
    m->pairs = pairs;
}

void merger_release(struct merger *m)
{
    mem_free(m->symbols);
    mem_free(m->pairs);
    mem_free(m->buckets);
    mem_free(m->bucket_slots);
    mem_free(m->heap);
    mem_free(m->entries);
    mem_free(m->positions);
    *m = (struct merger){ 0 };
}

/* Smaller is better: high scores come first. Among pairs of one score the reference (merges
 * derived from scores) takes the longer left part, then the longer right part. */
static uint64_t score_rank(float score, uint32_t left, uint32_t right)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)~ascending << 32 | (uint64_t)(UINT16_MAX - MIN(left, (uint32_t)UINT16_MAX))
               << 16 | (UINT16_MAX - MIN(right, (uint32_t)UINT16_MAX));
}

/* Pieces that a pair may be joined to: normal ones, and white space that a vocabulary lists as
 * user-defined (Gemma's). */
static bool is_mergeable(const struct vocab *v, int32_t id)
{
    if (v->types[id] == TOKEN_NORMAL)
        return true;
    if (v->types[id] != TOKEN_USER_DEFINED)
        return false;
    struct str bytes = { v->bytes + v->bytes_at[id], v->bytes_at[id + 1] - v->bytes_at[id] };
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.ptr[i] != ' ' && bytes.ptr[i] != '\n' && bytes.ptr[i] != '\t')
            return false;
    return true;
}

static uint32_t count_characters(struct str text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((uint8_t)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

static void find_by_score(const struct vocab *v, struct pair_entry *e)
{
    enum { LONGEST = 1024 };
    char joint[LONGEST];
    struct str a = vocab_text(v, e->left), b = vocab_text(v, e->right);
    e->joined = TOKEN_NONE;
    e->rank = NO_RANK;
    if (a.len + b.len > MIN(v->max_len, (uint32_t)LONGEST))
        return;
    memcpy(joint, a.ptr, a.len);
    memcpy(joint + a.len, b.ptr, b.len);
    int32_t id = vocab_find(v, (struct str){ joint, a.len + b.len });
    if (id == TOKEN_NONE || !is_mergeable(v, id))
        return;
    e->joined = id;
    e->rank = score_rank(v->scores[id], count_characters(a), count_characters(b));
}

static void find_pair(const struct merge_rules *rules, struct pair_entry *e)
{
    if (!rules->pairs) {
        find_by_score(rules->vocab, e);
        return;
    }
    uint32_t rank;
    e->joined = merge_table_join(rules->pairs, rules->vocab, e->left, e->right, &rank);
    e->rank = e->joined == TOKEN_NONE ? NO_RANK : rank;
}

HOT_INLINE void rate(struct merger *m, const struct merge_rules *rules, struct symbol *a,
                     const struct symbol *b)
{
    if (a->id == TOKEN_NONE || b->id == TOKEN_NONE) {
        a->rank = NO_RANK;
        return;
    }
    uint64_t pair = (uint64_t)(uint32_t)a->id << 32 | (uint32_t)b->id;
    struct pair_entry *e = &m->pairs[(pair * 0x9E3779B97F4A7C15u) >> 49];
    if (e->left != a->id || e->right != b->id) {
        e->left = a->id;
        e->right = b->id;
        find_pair(rules, e);
    }
    a->joined = e->joined;
    a->rank = e->rank;
}
_Static_assert(PAIR_CACHE_ENTRIES == 1 << (64 - 49), "the shift picks an entry");

static void run_short(struct merger *m, const struct merge_rules *rules)
{
    struct symbol *s = m->symbols;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < m->n; i++)
            if (s[i].rank < s[best].rank)
                best = i;
        if (s[best].rank == NO_RANK)
            return;
        s[best].id = s[best].joined;
        memmove(&s[best + 1], &s[best + 2], (m->n - best - 2) * sizeof *s);
        m->n--;
        s[m->n - 1].rank = NO_RANK;
        if (best + 1 < m->n)
            rate(m, rules, &s[best], &s[best + 1]);
        if (best > 0)
            rate(m, rules, &s[best - 1], &s[best]);
        if (m->n < 2)
            return;
    }
}

static size_t slot_of(const struct merger *m, uint64_t rank)
{
    return (size_t)token_hash_mix(rank ^ 0x51u, 0x9E3779B97F4A7C15u) & (m->n_slots - 1);
}

/* Empties the table of buckets; n_slots is a power of two. */
static void reset_slots(struct merger *m, size_t n_slots)
{
    mem_reserve((void **)&m->bucket_slots, &m->slots_capacity, n_slots, sizeof *m->bucket_slots);
    memset(m->bucket_slots, 0, n_slots * sizeof *m->bucket_slots);
    m->n_slots = n_slots;
    for (size_t b = 0; b < m->n_buckets; b++) {
        size_t i = slot_of(m, m->buckets[b].rank);
        while (m->bucket_slots[i])
            i = (i + 1) & (n_slots - 1);
        m->bucket_slots[i] = (uint32_t)b + 1;
    }
}

/* The bucket of a rank; made if it is not there. */
static uint32_t find_bucket(struct merger *m, uint64_t rank)
{
    if ((m->n_buckets + 1) * 2 > m->n_slots)
        reset_slots(m, m->n_slots * 2);
    size_t i = slot_of(m, rank);
    for (; m->bucket_slots[i]; i = (i + 1) & (m->n_slots - 1))
        if (m->buckets[m->bucket_slots[i] - 1].rank == rank)
            return m->bucket_slots[i] - 1;
    mem_reserve((void **)&m->buckets, &m->buckets_capacity, m->n_buckets + 1, sizeof *m->buckets);
    m->buckets[m->n_buckets] = (struct merge_bucket){ rank, NOWHERE, NOWHERE, false, false };
    m->bucket_slots[i] = (uint32_t)++m->n_buckets;
    return (uint32_t)m->n_buckets - 1;
}

static void push_heap(struct merger *m, uint32_t bucket)
{
    mem_reserve((void **)&m->heap, &m->heap_capacity, m->n_heap + 1, sizeof *m->heap);
    size_t i = m->n_heap++;
    while (i > 0 && m->buckets[m->heap[(i - 1) / 2]].rank > m->buckets[bucket].rank) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = bucket;
}

static void pop_heap(struct merger *m)
{
    uint32_t last = m->heap[--m->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->n_heap)
            break;
        if (child + 1 < m->n_heap &&
            m->buckets[m->heap[child + 1]].rank < m->buckets[m->heap[child]].rank)
            child++;
        if (m->buckets[m->heap[child]].rank >= m->buckets[last].rank)
            break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
}

static uint32_t take_entry(struct merger *m, uint32_t position)
{
    uint32_t e = m->free_entry;
    if (e != NOWHERE) {
        m->free_entry = m->entries[e].next;
    } else {
        e = (uint32_t)m->n_entries++;
        if (m->n_entries > m->entries_capacity)
            mem_reserve((void **)&m->entries, &m->entries_capacity, m->n_entries,
                        sizeof *m->entries);
    }
    m->entries[e] = (struct merge_entry){ position, NOWHERE };
    return e;
}

/* Puts the pair at `position` into the bucket of its rank. Merging runs from left to right, so
 * that a new entry belongs at one of the ends nearly always. */
static void queue_pair(struct merger *m, uint32_t position)
{
    uint64_t rank = m->symbols[position].rank;
    if (rank == NO_RANK)
        return;
    uint32_t index = m->last_bucket;
    if (index >= m->n_buckets || m->buckets[index].rank != rank)
        index = m->last_bucket = find_bucket(m, rank);
    uint32_t e = take_entry(m, position);
    struct merge_bucket *b = &m->buckets[index];
    if (b->head == NOWHERE) {
        b->head = b->tail = e;
        b->unordered = false;
    } else if (position < m->entries[b->head].position) {
        m->entries[e].next = b->head;
        b->head = e;
    } else {
        b->unordered |= position < m->entries[b->tail].position;
        m->entries[b->tail].next = e;
        b->tail = e;
    }
    if (!b->queued) {
        b->queued = true;
        push_heap(m, index);
    }
}

static int compare_positions(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void order_bucket(struct merger *m, struct merge_bucket *b)
{
    size_t n = 0;
    for (uint32_t e = b->head; e != NOWHERE; e = m->entries[e].next) {
        mem_reserve((void **)&m->positions, &m->positions_capacity, n + 1, sizeof *m->positions);
        m->positions[n++] = m->entries[e].position;
    }
    qsort(m->positions, n, sizeof *m->positions, compare_positions);
    n = 0;
    for (uint32_t e = b->head; e != NOWHERE; e = m->entries[e].next)
        m->entries[e].position = m->positions[n++];
    b->unordered = false;
}

/* The best pair that is still there; NOWHERE at the end. */
static uint32_t next_pair(struct merger *m)
{
    while (m->n_heap) {
        struct merge_bucket *b = &m->buckets[m->heap[0]];
        if (b->head == NOWHERE) {
            b->queued = false;
            pop_heap(m);
            continue;
        }
        if (b->unordered)
            order_bucket(m, b);
        uint32_t e = b->head, position = m->entries[e].position;
        b->head = m->entries[e].next;
        m->entries[e].next = m->free_entry;
        m->free_entry = e;
        if (m->symbols[position].rank == b->rank)
            return position;
    }
    return NOWHERE;
}

/* Joins what can be joined at the end of the kept symbols, where nothing that waits is better than
 * `rank` and what has it lies further right. Returns the number of kept symbols; *i is the last
 * symbol of the input that has gone into them. */
HOT_INLINE size_t join_end(struct merger *m, const struct merge_rules *rules, uint64_t rank,
                           size_t kept, size_t *i)
{
    struct symbol *s = m->symbols;
    for (;;) {
        struct symbol *last = &s[kept - 1];
        if (kept > 1 && last[-1].rank <= rank && last[-1].rank <= last->rank) {
            last--;
            kept--;
        } else if (last->rank <= rank) {
            ++*i;
        } else {
            return kept;
        }
        last->id = last->joined;
        if (*i + 1 < m->n)
            rate(m, rules, last, &s[*i + 1]);
        else
            last->rank = NO_RANK;
        if (kept > 1)
            rate(m, rules, last - 1, last);
    }
}

/* One walk over a piece that joins all pairs of the best rank; what is kept moves up. */
static void walk(struct merger *m, const struct merge_rules *rules, uint64_t rank)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->n; i++) {
        m->symbols[kept++] = m->symbols[i];
        if (m->symbols[kept - 1].rank == rank)
            kept = join_end(m, rules, rank, kept, &i);
    }
    m->n = kept;
}

/* A monotonous piece (a run of one letter) consists of few pairs: as long as a good part of it has
 * the best rank, walking over it costs less than lists of positions. A few walks that join little
 * are allowed, for what stands at its ends. */
static void run_monotonous(struct merger *m, const struct merge_rules *rules)
{
    enum { PART = 8, DETOURS = 6 };
    for (unsigned detours = 0; m->n > SHORT_PIECE && detours < DETOURS;) {
        uint64_t best = NO_RANK;
        size_t n_best = 0;
        for (size_t i = 0; i < m->n; i++) {
            uint64_t rank = m->symbols[i].rank;
            n_best = rank == best ? n_best + 1 : rank < best ? 1 : n_best;
            best = MIN(best, rank);
        }
        if (best == NO_RANK)
            return;
        detours += n_best < m->n / PART;
        walk(m, rules, best);
    }
}

/* Joins the pair at i. A new pair that is better than all that waits is joined at once, without
 * a way through the lists: Gemma's runs of spaces grow one by one like that. */
static void join_from(struct merger *m, const struct merge_rules *rules, uint32_t i)
{
    struct symbol *s = m->symbols;
    uint64_t best_waiting = s[i].rank;
    for (;;) {
        uint32_t gone = s[i].next, after = s[gone].next, before = s[i].previous;
        s[i].id = s[i].joined;
        s[gone].rank = NO_RANK;
        s[i].next = after;
        s[i].rank = NO_RANK;
        if (after != NOWHERE) {
            s[after].previous = i;
            rate(m, rules, &s[i], &s[after]);
        }
        uint32_t best = i;
        if (before != NOWHERE) {
            rate(m, rules, &s[before], &s[i]);
            best = s[before].rank <= s[i].rank ? before : i;
        }
        if (s[best].rank >= best_waiting) {
            queue_pair(m, i);
            if (before != NOWHERE)
                queue_pair(m, before);
            return;
        }
        i = best;
    }
}

static void run_long(struct merger *m, const struct merge_rules *rules)
{
    struct symbol *s = m->symbols;
    uint32_t n = (uint32_t)m->n;
    m->n_buckets = m->n_heap = m->n_entries = 0;
    m->last_bucket = 0;
    m->free_entry = NOWHERE;
    reset_slots(m, 256);
    for (uint32_t i = 0; i < n; i++) {
        s[i].previous = i ? i - 1 : NOWHERE;
        s[i].next = i + 1 < n ? i + 1 : NOWHERE;
        queue_pair(m, i);
    }
    for (uint32_t i; (i = next_pair(m)) != NOWHERE;)
        join_from(m, rules, i);
    size_t kept = 0;
    for (uint32_t i = 0; i != NOWHERE;) {
        uint32_t next = s[i].next;
        s[kept++] = s[i];
        i = next;
    }
    m->n = kept;
}

void merger_run(struct merger *m, const struct merge_rules *rules)
{
    if (m->n < 2)
        return;
    if (!m->pairs) {
        m->pairs = mem_alloc(PAIR_CACHE_ENTRIES * sizeof *m->pairs);
        memset(m->pairs, 0xFF, PAIR_CACHE_ENTRIES * sizeof *m->pairs);
    }
    for (size_t i = 0; i + 1 < m->n; i++)
        rate(m, rules, &m->symbols[i], &m->symbols[i + 1]);
    m->symbols[m->n - 1].rank = NO_RANK;
    if (m->n > SHORT_PIECE)
        run_monotonous(m, rules);
    if (m->n > SHORT_PIECE)
        run_long(m, rules);
    else if (m->n > 1)
        run_short(m, rules);
}
