/* bench_state [TOKENS]: a conversation of 4,000 tokens (SmolLM2's state, f16) is displaced to host
 * memory by another and taken over again; best of ten in this thread's processor time, as one JSON
 * object. No model is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "engine/prefix_tree.h"
#include "engine/sequence.h"
#include "engine/state_snapshot.h"

enum { LAYERS = 30, KV_HEADS = 3, HEAD_DIM = 64, ROUNDS = 10, MOST_TOKENS = 1 << 20 };

struct bench {
    struct device *dev;
    struct state_pool *pool;
    struct prefix_tree tree;
    struct sequence sequence;
    int32_t *tokens, n;
    double spill_s, restore_s; /* best */
};

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum status make_pool(struct bench *b, struct state_piece *piece, struct error *err)
{
    static struct state_layout layout;
    layout = (struct state_layout){ piece, LAYERS };
    for (int i = 0; i < LAYERS; i++)
        piece[i] = (struct state_piece){ .kind = STATE_PAGED,
                                         .layer = i,
                                         .n_kv_heads = KV_HEADS,
                                         .k_dim = HEAD_DIM,
                                         .v_dim = HEAD_DIM };
    const struct state_pool_options options = {
        .k_type = TENSOR_TYPE_F16,
        .v_type = TENSOR_TYPE_F16,
        .context = b->n,
        .pool_tokens = b->n,
        .n_sequences = 1,
        .batch_tokens = b->n,
    };
    TRY(cpu_device_new(&(struct cpu_device_options){ .n_threads = 1 }, &b->dev, err));
    return state_pool_new(&layout, b->dev, &options, &b->pool, err);
}

/* Takes all pages; those of the tree go to host memory. */
static enum status fill(struct bench *b, double *seconds, struct error *err)
{
    TRY(sequence_open(&b->sequence, b->pool, err));
    double start = thread_seconds();
    TRY(sequence_reserve(&b->sequence, b->pool, b->n, err));
    *seconds = thread_seconds() - start;
    return STATUS_OK;
}

static enum status add(struct bench *b, struct error *err)
{
    double ignored;
    TRY(fill(b, &ignored, err));
    int64_t bytes = state_snapshot_bytes(b->pool, STATE_PAGED);
    uint8_t *block = mem_alloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        block[i] = (uint8_t)(i * 31 >> 3);
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < b->sequence.n_pages && status == STATUS_OK; i++)
        status = state_snapshot_load(b->pool, STATE_PAGED, b->sequence.page[i], block, err);
    mem_free(block);
    TRY(status);
    sequence_advance(&b->sequence, b->pool, b->n);
    prefix_tree_add(&b->tree, b->tokens, b->n, &b->sequence);
    sequence_close(&b->sequence, b->pool);
    return STATUS_OK;
}

static enum status measure(struct bench *b, struct error *err)
{
    double seconds;
    TRY(fill(b, &seconds, err));
    b->spill_s = MIN(b->spill_s, seconds);
    sequence_close(&b->sequence, b->pool);
    TRY(sequence_open(&b->sequence, b->pool, err));
    struct prefix_match match;
    bool from_host;
    double start = thread_seconds();
    TRY(prefix_tree_take(&b->tree, b->tokens, b->n, &b->sequence, &match, &from_host, err));
    seconds = thread_seconds() - start;
    b->restore_s = MIN(b->restore_s, seconds);
    sequence_close(&b->sequence, b->pool);
    if (match.n_tokens == b->n && from_host)
        return STATUS_OK;
    return error_set(err, STATUS_INTERNAL, "%d of %d tokens came back", match.n_tokens, b->n);
}

static enum status run(struct bench *b, struct error *err)
{
    struct state_piece piece[LAYERS];
    TRY(make_pool(b, piece, err));
    int64_t page = state_snapshot_bytes(b->pool, STATE_PAGED);
    double bytes = (double)page * b->n / STATE_PAGE_TOKENS;
    prefix_tree_init(&b->tree, b->pool, (int64_t)bytes + page);
    sequence_init(&b->sequence, b->pool);
    b->tokens = mem_array(int32_t, (size_t)b->n);
    for (int32_t i = 0; i < b->n; i++)
        b->tokens[i] = i;
    enum status status = add(b, err);
    for (int i = 0; i < ROUNDS && status == STATUS_OK; i++)
        status = measure(b, err);
    if (status == STATUS_OK)
        printf("{\"tokens\": %d, \"mib\": %.1f, \"spill_gb_per_s\": %.2f, \"restore_ms\": %.2f}\n",
               b->n, bytes / (1 << 20), bytes / b->spill_s * 1e-9, b->restore_s * 1e3);
    sequence_close(&b->sequence, b->pool);
    sequence_release(&b->sequence);
    prefix_tree_release(&b->tree);
    mem_free(b->tokens);
    return status;
}

int main(int argc, char **argv)
{
    struct bench b = { .n = 4000, .spill_s = 1e9, .restore_s = 1e9 };
    struct error err = { 0 };
    if (argc > 1)
        b.n = (int32_t)strtol(argv[1], NULL, 10);
    if (argc > 2 || b.n < 1 || b.n > MOST_TOKENS) {
        fprintf(stderr, "usage: bench_state [TOKENS]\n");
        return 2;
    }
    b.n = (b.n + STATE_PAGE_TOKENS - 1) / STATE_PAGE_TOKENS * STATE_PAGE_TOKENS; /* whole pages */
    enum status status = run(&b, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "bench_state: %s\n", err.message);
    state_pool_free(b.pool);
    if (b.dev)
        b.dev->ops->release(b.dev);
    return status != STATUS_OK;
}
