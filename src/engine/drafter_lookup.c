/* Prompt lookup: occurrences of the last 6 to 2 tokens are found through chains of equal pairs,
 * newest first; a majority of them must agree on each drafted token. */
#include <stdbool.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/drafter.h"

#define GRAM_LONGEST 6
#define GRAM_SHORTEST 2
#define OCCURRENCES 16
#define CHAIN_MOST 64
#define HEAD_BITS 12

struct lookup {
    struct drafter super;
    int32_t *previous; /* [limit] the position before with the same hash, or -1 */
    int32_t *head;     /* [1 << HEAD_BITS] the newest position of a hash, or -1 */
    int32_t limit, n_seen;
};

/* Where the last tokens occurred before: the pair ends at `at`, `length` tokens are equal. */
struct occurrences {
    int32_t n;
    int32_t at[CHAIN_MOST], length[CHAIN_MOST];
};

static uint32_t pair_hash(int32_t a, int32_t b)
{
    uint32_t h = (uint32_t)a * 0x9e3779b1u ^ (uint32_t)b * 0x85ebca6bu;
    return (h ^ h >> 15) * 0x2c1b3c6du >> (32 - HEAD_BITS);
}

static void lookup_observe(struct drafter *d, const int32_t *tokens, int32_t n)
{
    struct lookup *l = (struct lookup *)d;
    CHECK(n <= l->limit && l->n_seen <= n);
    for (int32_t i = MAX(l->n_seen, 1); i < n; i++) {
        int32_t *head = &l->head[pair_hash(tokens[i - 1], tokens[i])];
        l->previous[i] = *head;
        *head = i;
    }
    l->n_seen = n;
}

static int32_t equal_before(const int32_t *tokens, int32_t a, int32_t b)
{
    int32_t n = 0;
    while (n < GRAM_LONGEST && n <= a && tokens[a - n] == tokens[b - n])
        n++;
    return n;
}

static void find_occurrences(const struct lookup *l, const int32_t *tokens, int32_t tail,
                             struct occurrences *found)
{
    found->n = 0;
    int32_t at = l->previous[tail];
    for (int i = 0; i < CHAIN_MOST && at > 0; i++, at = l->previous[at]) {
        int32_t length = equal_before(tokens, at, tail);
        if (length < GRAM_SHORTEST)
            continue;
        found->at[found->n] = at;
        found->length[found->n++] = length;
    }
}

/* Behind the end of the sequence the draft itself goes on: repetitions repeat. */
static int32_t token_at(const int32_t *tokens, int32_t n, const struct draft *d, int32_t at)
{
    return at < n ? tokens[at] : d->token[at - n];
}

/* Follows the newest occurrence while a majority agrees with it from the first token on. */
static void follow(const int32_t *tokens, int32_t n, const int32_t *at, int32_t n_at, int32_t most,
                   struct draft *out)
{
    bool agrees[OCCURRENCES];
    int32_t majority = n_at / 2 + 1, n_agree = n_at;
    for (int32_t i = 0; i < n_at; i++)
        agrees[i] = true;
    for (int32_t k = 0; k < most; k++) {
        int32_t token = token_at(tokens, n, out, at[0] + 1 + k);
        for (int32_t i = 1; i < n_at; i++) {
            if (!agrees[i] || token_at(tokens, n, out, at[i] + 1 + k) == token)
                continue;
            agrees[i] = false;
            n_agree--;
        }
        if (n_agree < majority)
            return;
        out->token[k] = token;
        out->confidence[k] = (float)n_agree / (float)n_at;
        out->n = k + 1;
    }
}

static void lookup_propose(struct drafter *d, const int32_t *tokens, int32_t n, int32_t most,
                           struct draft *out)
{
    struct lookup *l = (struct lookup *)d;
    struct occurrences found;
    out->n = 0;
    if (n < GRAM_SHORTEST)
        return;
    CHECK(l->n_seen == n);
    find_occurrences(l, tokens, n - 1, &found);
    for (int32_t gram = GRAM_LONGEST; gram >= GRAM_SHORTEST && out->n == 0; gram--) {
        int32_t at[OCCURRENCES], n_at = 0;
        for (int32_t i = 0; i < found.n && n_at < OCCURRENCES; i++)
            if (found.length[i] >= gram)
                at[n_at++] = found.at[i];
        bool weak = n_at <= 2 && gram <= 3;
        if (n_at > 0)
            follow(tokens, n, at, n_at, weak ? MIN(most, gram) : most, out);
    }
}

static void lookup_free(struct drafter *d)
{
    struct lookup *l = (struct lookup *)d;
    mem_free(l->previous);
    mem_free(l->head);
    mem_free(l);
}

struct drafter *drafter_lookup_new(int32_t limit)
{
    static const struct drafter_ops ops = {
        .name = "lookup",
        .observe = lookup_observe,
        .propose = lookup_propose,
        .free = lookup_free,
    };
    struct lookup *l = mem_new(struct lookup);
    l->super.ops = &ops;
    l->limit = limit;
    l->previous = mem_array(int32_t, (size_t)limit);
    l->head = mem_array(int32_t, (size_t)1 << HEAD_BITS);
    for (int32_t i = 0; i < 1 << HEAD_BITS; i++)
        l->head[i] = -1;
    for (int32_t i = 0; i < limit; i++)
        l->previous[i] = -1;
    return &l->super;
}
