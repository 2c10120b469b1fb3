/* kv_balance: what keys are stored as in narrow types, so that little of them is lost.
 *
 *   stored key = (key - shift) * gain     query = query / gain     for each number of each head
 *
 * A product of both is the one of query and key, less query . shift, which is the same for all
 * keys: softmax does not see it. Keys have a few numbers that are large and nearly the same for all
 * tokens, and others that queries hardly look at; both would take the levels of a coarse type from
 * the rest. The error of a product is the smallest with
 *   shift = mean of the keys,   gain^4 = mean square of the queries / variance of the keys
 * Both are learned once, from the keys and queries of a fixed text, and constant from then on.
 * Ownership: belongs to the state pool, one for each piece. Threads: one while it learns, any
 * later. */
#ifndef TENSOR_KV_BALANCE_H
#define TENSOR_KV_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/kv.h"
#include "tensor/tensor.h"

struct kv_balance {
    int32_t n_heads, dim;
    float *shift, *gain, *inverse;                     /* [n_heads][dim]; inverse of gain */
    double *key_sum, *key_squares, *query_squares;     /* the same; NULL once learned */
    int64_t n_keys, n_queries;
    bool no_shift; /* something else than softmax looks at the scores */
};

/* Shift 0 and gain 1, until it has learned. */
struct kv_balance *kv_balance_new(int32_t n_heads, int32_t dim);
void kv_balance_free(struct kv_balance *b); /* NULL is allowed */

bool kv_balance_learns(const struct kv_balance *b); /* NULL: false */
/* Rows of heads, f32: [n_rows][n_heads][dim]; queries have a multiple of those heads. */
void kv_balance_note_keys(struct kv_balance *b, const struct tensor *keys, int64_t row);
void kv_balance_note_queries(struct kv_balance *b, const struct tensor *queries, int64_t row);
void kv_balance_finish(struct kv_balance *b);

/* to = (key - shift) * gain, and back. */
void kv_balance_key(const struct kv_balance *b, int32_t head, const float *key, float *to);
void kv_unbalance_key(const struct kv_balance *b, int32_t head, float *key);
/* Divides a query of that key head by the gain. */
void kv_balance_query(const struct kv_balance *b, int32_t head, float *query);

#endif
