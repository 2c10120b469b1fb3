#include "tensor/kv_balance.h"

#include <math.h>

#include "base/compiler.h"
#include "base/mem.h"

/* A number that never moves, or that nobody looks at, is no reason to blow up another. */
#define GAIN_MOST 64.0

struct kv_balance *kv_balance_new(int32_t n_heads, int32_t dim)
{
    struct kv_balance *b = mem_new(struct kv_balance);
    size_t n = (size_t)n_heads * (size_t)dim;
    *b = (struct kv_balance){
        .n_heads = n_heads,
        .dim = dim,
        .shift = mem_array(float, n),
        .gain = mem_array(float, n),
        .inverse = mem_array(float, n),
        .key_sum = mem_array(double, n),
        .key_squares = mem_array(double, n),
        .query_squares = mem_array(double, n),
    };
    for (size_t i = 0; i < n; i++)
        b->gain[i] = b->inverse[i] = 1;
    return b;
}

static void forget_sums(struct kv_balance *b)
{
    mem_free(b->key_sum);
    mem_free(b->key_squares);
    mem_free(b->query_squares);
    b->key_sum = b->key_squares = b->query_squares = NULL;
}

void kv_balance_free(struct kv_balance *b)
{
    if (!b)
        return;
    forget_sums(b);
    mem_free(b->shift);
    mem_free(b->gain);
    mem_free(b->inverse);
    mem_free(b);
}

/* --- learning ----------------------------------------------------------------------------- */

bool kv_balance_learns(const struct kv_balance *b)
{
    return b && b->key_sum;
}

static const float *row_of(const struct tensor *t, int64_t row)
{
    return (const float *)(const void *)((const uint8_t *)t->data + row * t->stride_bytes[0]);
}

void kv_balance_note_keys(struct kv_balance *b, const struct tensor *keys, int64_t row)
{
    const float *x = row_of(keys, row);
    for (int32_t i = 0; i < b->n_heads * b->dim; i++) {
        b->key_sum[i] += x[i];
        b->key_squares[i] += (double)x[i] * x[i];
    }
    b->n_keys++;
}

void kv_balance_note_queries(struct kv_balance *b, const struct tensor *queries, int64_t row)
{
    int32_t group = (int32_t)(queries->dim[1] / b->n_heads);
    const float *x = row_of(queries, row);
    for (int32_t h = 0; h < b->n_heads * group; h++, x += b->dim)
        for (int32_t d = 0; d < b->dim; d++)
            b->query_squares[h / group * b->dim + d] += (double)x[d] * x[d];
    b->n_queries += group;
}

/* Gains matter only relative to each other: their geometric mean becomes 1. */
static void set_gains(struct kv_balance *b, int32_t head, const double *gain)
{
    double sum = 0;
    for (int32_t d = 0; d < b->dim; d++)
        sum += log(gain[d]);
    double middle = exp(sum / b->dim);
    for (int32_t d = 0; d < b->dim; d++) {
        float g = (float)fmin(fmax(gain[d] / middle, 1 / GAIN_MOST), GAIN_MOST);
        b->gain[head * b->dim + d] = g;
        b->inverse[head * b->dim + d] = 1 / g;
    }
}

static void finish_head(struct kv_balance *b, int32_t head, double *gain)
{
    for (int32_t d = 0; d < b->dim; d++) {
        int32_t i = head * b->dim + d;
        double n = (double)b->n_keys, mean = b->no_shift ? 0 : b->key_sum[i] / n;
        double variance = b->key_squares[i] / n - mean * mean;
        double squares = b->query_squares[i] / (double)b->n_queries;
        bool known = isfinite(variance) && isfinite(squares) && variance > 0 && squares > 0;
        b->shift[i] = known ? (float)mean : 0;
        gain[d] = known ? pow(squares / variance, 0.25) : 1;
    }
    set_gains(b, head, gain);
}

void kv_balance_finish(struct kv_balance *b)
{
    CHECK(kv_balance_learns(b));
    double *gain = mem_array(double, (size_t)b->dim);
    for (int32_t h = 0; h < b->n_heads && b->n_keys > 0 && b->n_queries > 0; h++)
        finish_head(b, h, gain);
    mem_free(gain);
    forget_sums(b);
}

/* --- use ---------------------------------------------------------------------------------- */

void kv_balance_key(const struct kv_balance *b, int32_t head, const float *key, float *to)
{
    const float *shift = b->shift + head * b->dim, *gain = b->gain + head * b->dim;
    for (int32_t d = 0; d < b->dim; d++)
        to[d] = (key[d] - shift[d]) * gain[d];
}

void kv_unbalance_key(const struct kv_balance *b, int32_t head, float *key)
{
    const float *shift = b->shift + head * b->dim, *inverse = b->inverse + head * b->dim;
    for (int32_t d = 0; d < b->dim; d++)
        key[d] = key[d] * inverse[d] + shift[d];
}

void kv_balance_query(const struct kv_balance *b, int32_t head, float *query)
{
    const float *inverse = b->inverse + head * b->dim;
    for (int32_t d = 0; d < b->dim; d++)
        query[d] *= inverse[d];
}
