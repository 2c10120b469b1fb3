/* drafter: guesses the next tokens of one sequence, so that one pass can check several at once.
 *
 * A drafter sees every token that the sequence has and proposes a continuation. What it says never
 * changes an answer: each guess is compared with what the request's own sampler draws.
 * Ownership: one drafter belongs to one request. Threads: the engine thread. */
#ifndef ENGINE_DRAFTER_H
#define ENGINE_DRAFTER_H

#include <stdint.h>

#define DRAFT_MOST 31

struct draft {
    int32_t n;
    int32_t token[DRAFT_MOST];
    float confidence[DRAFT_MOST]; /* that this one is right if all before it are */
};

struct drafter;

struct drafter_ops {
    const char *name;
    /* The sequence consists of tokens[0 .. n); the first ones were seen before, unchanged. */
    void (*observe)(struct drafter *d, const int32_t *tokens, int32_t n);
    /* At most `most` guesses of what follows tokens[n - 1]; all n were observed. */
    void (*propose)(struct drafter *d, const int32_t *tokens, int32_t n, int32_t most,
                    struct draft *out);
    void (*free)(struct drafter *d);
};

struct drafter {
    const struct drafter_ops *ops;
};

/* Copies what followed the last tokens where they occurred before in the same sequence of at most
 * `limit` tokens. */
struct drafter *drafter_lookup_new(int32_t limit);

#endif
