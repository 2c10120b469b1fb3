/* bench_prefix_tree [CONVERSATIONS]: many idle conversations of one page each, most of them in
 * host memory; each further one takes back a page. Prints what that costs, and what finding one
 * among them costs, as one JSON object. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "engine/prefix_tree.h"

#define N_POOL 1024
#define N_TIMED 2000

struct bench {
    struct device *dev;
    struct state_piece piece;
    struct state_layout layout;
    struct state_pool *pool;
    struct sequence sequence;
    struct prefix_tree tree;
};

static void tokens_of(int32_t *out, int32_t name)
{
    for (int32_t i = 0; i < STATE_PAGE_TOKENS; i++)
        out[i] = name + i;
}

static enum status open_bench(struct bench *b, int64_t n, struct error *err)
{
    struct cpu_device_options cpu = { .n_threads = 1 };
    struct state_pool_options o = {
        .k_type = TENSOR_TYPE_F16,
        .v_type = TENSOR_TYPE_F16,
        .context = STATE_PAGE_TOKENS,
        .pool_tokens = (int64_t)N_POOL * STATE_PAGE_TOKENS,
        .n_sequences = 1,
        .batch_tokens = STATE_PAGE_TOKENS,
    };
    *b = (struct bench){ .piece = { .name = "kv", .n_kv_heads = 1, .k_dim = 16, .v_dim = 16 } };
    b->layout = (struct state_layout){ &b->piece, 1 };
    TRY(cpu_device_new(&cpu, &b->dev, err));
    TRY(state_pool_new(&b->layout, b->dev, &o, &b->pool, err));
    sequence_init(&b->sequence, b->pool);
    prefix_tree_init(&b->tree, b->pool, 0);
    prefix_tree_limit(&b->tree, n * b->tree.page_bytes);
    return STATUS_OK;
}

/* *seconds grows by the time of taking a page. */
static enum status converse(struct bench *b, int32_t name, double *seconds, struct error *err)
{
    int32_t tokens[STATE_PAGE_TOKENS];
    tokens_of(tokens, name);
    TRY(sequence_open(&b->sequence, b->pool, err));
    double start = clock_seconds();
    TRY(sequence_reserve(&b->sequence, b->pool, STATE_PAGE_TOKENS, err));
    *seconds += clock_seconds() - start;
    sequence_advance(&b->sequence, b->pool, STATE_PAGE_TOKENS);
    prefix_tree_add(&b->tree, tokens, STATE_PAGE_TOKENS, &b->sequence);
    sequence_close(&b->sequence, b->pool);
    return STATUS_OK;
}

static enum status measure(struct bench *b, int32_t n, struct error *err)
{
    int32_t tokens[STATE_PAGE_TOKENS];
    double filling = 0, spilling = 0, dropping = 0, finding = 0;
    for (int32_t i = 0; i < n; i++)
        TRY(converse(b, 100 * i, &filling, err));
    for (int32_t i = 0; i < N_TIMED; i++)
        TRY(converse(b, 100 * (n + i), &spilling, err));
    prefix_tree_limit(&b->tree, b->tree.counts.host_bytes);
    for (int32_t i = 0; i < N_TIMED; i++)
        TRY(converse(b, 100 * (n + N_TIMED + i), &dropping, err));
    for (int32_t i = 0; i < N_TIMED; i++) {
        double start = clock_seconds();
        tokens_of(tokens, 100 * i);
        prefix_tree_find(&b->tree, tokens, STATE_PAGE_TOKENS);
        finding += clock_seconds() - start;
    }
    printf("{\"conversations\": %d, \"spill_us\": %.1f, \"spill_and_drop_us\": %.1f, "
           "\"find_us\": %.1f}\n",
           n, spilling / N_TIMED * 1e6, dropping / N_TIMED * 1e6, finding / N_TIMED * 1e6);
    return STATUS_OK;
}

int main(int n_arguments, char **argument)
{
    static struct bench b;
    struct error err = { 0 };
    int32_t n = n_arguments > 1 ? (int32_t)strtol(argument[1], NULL, 10) : 10000;
    if (open_bench(&b, n + N_TIMED, &err) != STATUS_OK || measure(&b, n, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    prefix_tree_release(&b.tree);
    sequence_release(&b.sequence);
    state_pool_free(b.pool);
    b.dev->ops->release(b.dev);
    return 0;
}
