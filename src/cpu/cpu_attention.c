/* cpu_attention: attention over paged keys and values, for prompt chunks and decode rows alike.
 *
 * Work is cut into tiles: up to TILE_QUERIES rows of one sequence x the heads of one key head. The
 * keys are cut into splits at absolute places: a tile's softmax state is computed for each split
 * alone and the states are merged in order. With few tiles the splits run on several threads,
 * otherwise one after the other; both give the same bits, so a row's result depends on its own
 * keys only.
 *
 *   tokens   0       256      512            8192       9216
 *   splits   |---0---|---1---|--- ... --31---|----32----|---   (256, then 1024, then 8192 wide)
 */
#include <math.h>
#include <string.h>

#include "cpu/cpu_internal.h"
#include "cpu/kv_pages.h"
#include "cpu/vector_kernels.h"
#include "quant/kv_codec.h"
#include "tensor/kv_balance.h"

#define TILE_QUERIES 48   /* query rows of a tile, all heads together */
#define SPLITS_MEASURED 64 /* what a measuring step plans for; with less room splits run in order */

static int32_t split_of(int32_t token)
{
    if (token < 8192)
        return token / 256;
    if (token < 131072)
        return 32 + (token - 8192) / 1024;
    return 152 + (token - 131072) / 8192;
}

static int32_t split_start(int32_t split)
{
    if (split < 32)
        return split * 256;
    if (split < 152)
        return 8192 + (split - 32) * 1024;
    return 131072 + (split - 152) * 8192;
}

struct attention_job {
    const struct step *step;
    const struct vector_kernels *vector;
    const struct kv_layer *kv;
    const struct tensor *q, *out;
    const struct attention_options *options;
    int32_t group;      /* query heads of a key head */
    int32_t tile_tokens;
    int32_t v_dim_padded;
    int32_t n_tiles;
    size_t thread_bytes; /* scratch of one thread */
    uint8_t *thread_scratch;
    /* Splits in parallel: state of (tile, split) in `partial`, chunks count in `ready`. */
    int32_t max_splits;  /* 0: in order */
    float *partial;
    size_t partial_floats;
    atomic_int *ready;   /* [n_tiles] */
};

/* Which rows and heads a tile covers. */
struct tile_place {
    const struct batch_sequence *sequence;
    int32_t first_token, n_tokens; /* rows of the sequence, from its first */
    int32_t head;                  /* key head */
    int32_t first_key, end_key;    /* keys that any row sees */
};

static int32_t tiles_of(const struct attention_job *j, const struct batch_sequence *q)
{
    return (q->n_rows + j->tile_tokens - 1) / j->tile_tokens;
}

static struct tile_place place_of(const struct attention_job *j, int32_t tile)
{
    struct tile_place p = { .head = tile % j->kv->n_kv_heads };
    int32_t at = tile / j->kv->n_kv_heads;
    const struct batch_sequence *q = j->step->batch->sequence;
    while (at >= tiles_of(j, q))
        at -= tiles_of(j, q++);
    /* Late tiles see the most keys: they come first. */
    at = tiles_of(j, q) - 1 - at;
    p.sequence = q;
    p.first_token = at * j->tile_tokens;
    p.n_tokens = MIN(j->tile_tokens, q->n_rows - p.first_token);
    p.end_key = q->n_past + p.first_token + p.n_tokens;
    if (j->kv->window)
        p.first_key = MAX(0, q->n_past + p.first_token - j->kv->window + 1);
    return p;
}

/* --- scratch of a thread ------------------------------------------------------------------ */

static size_t rounded(size_t floats)
{
    return (floats + 15) & ~(size_t)15;
}

static float *carve(float **at, size_t floats)
{
    float *p = *at;
    *at += rounded(floats);
    return p;
}

/* max, sum and acc of one tile */
static size_t state_floats(const struct attention_job *j)
{
    size_t rows = (size_t)(j->tile_tokens * j->group);
    return 2 * rounded(rows) + rounded(rows * (size_t)j->v_dim_padded);
}

static size_t thread_floats(const struct attention_job *j)
{
    size_t rows = (size_t)(j->tile_tokens * j->group);
    return rounded(rows * (size_t)j->kv->k_dim) + rounded((size_t)(KEY_BLOCK * j->kv->k_dim)) +
           rounded((size_t)(KEY_BLOCK * j->v_dim_padded)) + rounded(rows * KEY_BLOCK) +
           2 * rounded(rows) + 2 * state_floats(j);
}

static void carve_state(const struct attention_job *j, struct attention_tile *t, float **at)
{
    size_t rows = (size_t)(j->tile_tokens * j->group);
    t->max = carve(at, rows);
    t->sum = carve(at, rows);
    t->acc = carve(at, rows * (size_t)j->v_dim_padded);
}

static void clear_state(const struct attention_tile *t)
{
    for (int r = 0; r < t->n_rows; r++) {
        t->max[r] = -INFINITY;
        t->sum[r] = 0;
    }
    memset(t->acc, 0, (size_t)(t->n_rows * t->v_dim_padded) * sizeof(float));
}

/* Lays out the thread's scratch and loads the scaled queries: row = token * group + head. */
static struct attention_tile open_tile(const struct attention_job *j, const struct tile_place *p,
                                       int thread, struct attention_tile *total)
{
    size_t rows = (size_t)(j->tile_tokens * j->group);
    float *at = (float *)(void *)(j->thread_scratch + (size_t)thread * j->thread_bytes);
    float *q = carve(&at, rows * (size_t)j->kv->k_dim);
    struct attention_tile t = { .n_rows = p->n_tokens * j->group, .k_dim = j->kv->k_dim,
                                .v_dim = j->kv->v_dim, .v_dim_padded = j->v_dim_padded,
                                .k_type = j->kv->k_type, .v_type = j->kv->v_type,
                                .softcap = j->options->softcap, .q = q };
    t.k = carve(&at, (size_t)(KEY_BLOCK * t.k_dim));
    t.v = carve(&at, (size_t)(KEY_BLOCK * t.v_dim_padded));
    t.score = carve(&at, rows * KEY_BLOCK);
    t.first = (int32_t *)(void *)carve(&at, rows);
    t.end = (int32_t *)(void *)carve(&at, rows);
    *total = t;
    carve_state(j, &t, &at);
    carve_state(j, total, &at);
    for (int32_t i = 0; i < p->n_tokens; i++) {
        int64_t row = p->sequence->first_row + p->first_token + i;
        const float *from = (const float *)(const void *)((const uint8_t *)j->q->data +
                                                          row * j->q->stride_bytes[0]) +
                            (int64_t)p->head * j->group * t.k_dim;
        float *to = q + (int64_t)i * j->group * t.k_dim;
        for (int32_t d = 0; d < j->group * t.k_dim; d++)
            to[d] = from[d] * j->options->scale;
        for (int32_t h = 0; h < j->group && j->kv->balance; h++)
            kv_balance_query(j->kv->balance, p->head, to + h * t.k_dim);
        for (int32_t h = 0; h < j->group && kv_codec_of(t.k_type)->rotated; h++)
            turbo_rotate(to + h * t.k_dim, t.k_dim, TURBO_KEYS);
    }
    return t;
}

/* --- one split ---------------------------------------------------------------------------- */

/* Where keys and values of [key, key + n) lie; groups of 16 never straddle a page. */
static void find_block(const struct attention_job *j, const struct tile_place *p,
                       struct attention_tile *t, int32_t key, int32_t n)
{
    const int32_t *table = j->kv->window ? p->sequence->window_page : p->sequence->page;
    for (int32_t g = 0; g * KEY_GROUP < n; g++) {
        int32_t at = key + g * KEY_GROUP, line = at % j->kv->page_tokens;
        int32_t page = kv_page_of(j->kv, table, at);
        bool seen = page >= 0 && at + KEY_GROUP > p->first_key;
        t->key_group[g] = seen ? kv_key_group(j->kv, page, p->head, line) : NULL;
        t->value_rows[g] = seen ? kv_value_row(j->kv, page, p->head, line) : NULL;
    }
}

static void mark_visible(const struct attention_job *j, const struct tile_place *p,
                         const struct attention_tile *t, int32_t key, int32_t n)
{
    for (int32_t i = 0; i < p->n_tokens; i++) {
        int32_t place = p->sequence->n_past + p->first_token + i;
        int32_t end = MIN(n, MAX(0, place + 1 - key));
        int32_t first = j->kv->window ? MIN(n, MAX(0, place - j->kv->window + 1 - key)) : 0;
        for (int32_t h = 0; h < j->group; h++) {
            t->first[i * j->group + h] = first;
            t->end[i * j->group + h] = end;
        }
    }
}

/* The softmax state over the keys of one split. Blocks lie at absolute multiples of KEY_BLOCK. */
static void run_split(const struct attention_job *j, const struct tile_place *p,
                      struct attention_tile *t, int32_t split)
{
    clear_state(t);
    int32_t from = MAX(split_start(split), p->first_key & ~(KEY_BLOCK - 1));
    int32_t to = MIN(split_start(split + 1), p->end_key);
    for (int32_t key = from; key < to; key += KEY_BLOCK) {
        int32_t n = MIN(KEY_BLOCK, to - key);
        find_block(j, p, t, key, n);
        mark_visible(j, p, t, key, n);
        j->vector->attention_block(t, n);
    }
}

/* --- a whole tile ------------------------------------------------------------------------- */

/* A sink takes probability and gives no value. */
static float sink_scale(float max, float *sum, float sink)
{
    float now = fmaxf(max, sink), factor = expf(max - now);
    *sum = *sum * factor + expf(sink - now);
    return factor;
}

static void write_out(const struct attention_job *j, const struct tile_place *p,
                      const struct attention_tile *t)
{
    const float *sinks = j->options->sinks ? j->options->sinks->data : NULL;
    for (int32_t i = 0; i < p->n_tokens; i++)
        for (int32_t h = 0; h < j->group; h++) {
            int32_t r = i * j->group + h, head = p->head * j->group + h;
            int64_t row = p->sequence->first_row + p->first_token + i;
            float sum = t->sum[r], factor = 1;
            if (sinks)
                factor = sink_scale(t->max[r], &sum, sinks[head]);
            factor /= sum;
            float *to = (float *)(void *)((uint8_t *)j->out->data + row * j->out->stride_bytes[0]) +
                        (int64_t)head * t->v_dim;
            const float *acc = t->acc + (int64_t)r * t->v_dim_padded;
            for (int32_t d = 0; d < t->v_dim; d++)
                to[d] = acc[d] * factor;
            if (kv_codec_of(t->v_type)->rotated)
                turbo_unrotate(to, t->v_dim, TURBO_VALUES);
        }
}

static void tile_in_order(void *arg, int chunk, int thread)
{
    const struct attention_job *j = arg;
    struct tile_place p = place_of(j, chunk);
    struct attention_tile total, part = open_tile(j, &p, thread, &total);
    clear_state(&total);
    int32_t last = split_of(p.end_key - 1);
    for (int32_t s = split_of(p.first_key); s <= last; s++) {
        run_split(j, &p, &part, s);
        j->vector->attention_merge(&total, part.max, part.sum, part.acc);
    }
    write_out(j, &p, &total);
}

/* Chunks: first all (tile, split), then one merge for each tile, which waits for its splits. */
static void tile_split(void *arg, int chunk, int thread)
{
    const struct attention_job *j = arg;
    int32_t n_parts = j->n_tiles * j->max_splits;
    int32_t tile = chunk < n_parts ? chunk / j->max_splits : chunk - n_parts;
    struct tile_place p = place_of(j, tile);
    struct attention_tile total, part = open_tile(j, &p, thread, &total);
    int32_t first = split_of(p.first_key), n = split_of(p.end_key - 1) - first + 1;
    float *state = j->partial + (size_t)tile * (size_t)j->max_splits * j->partial_floats;
    if (chunk < n_parts) {
        int32_t s = chunk % j->max_splits;
        if (s >= n)
            return;
        float *at = state + (size_t)s * j->partial_floats;
        carve_state(j, &part, &at);
        run_split(j, &p, &part, first + s);
        atomic_fetch_add_explicit(&j->ready[tile], 1, memory_order_release);
        return;
    }
    thread_pool_await(&j->ready[tile], n);
    clear_state(&total);
    for (int32_t s = 0; s < n; s++) {
        float *at = state + (size_t)s * j->partial_floats;
        carve_state(j, &part, &at);
        j->vector->attention_merge(&total, part.max, part.sum, part.acc);
    }
    write_out(j, &p, &total);
}

/* --- the op ------------------------------------------------------------------------------- */

static int32_t count_tiles(const struct attention_job *j, int32_t *max_splits)
{
    const struct batch *b = j->step->batch;
    int32_t n = 0;
    *max_splits = 0;
    for (int32_t i = 0; i < b->n_sequences; i++)
        n += tiles_of(j, &b->sequence[i]) * j->kv->n_kv_heads;
    for (int32_t i = 0; i < n; i++) {
        struct tile_place p = place_of(j, i);
        *max_splits = MAX(*max_splits, split_of(p.end_key - 1) - split_of(p.first_key) + 1);
    }
    return n;
}

/* Room for the states of parallel splits, if it is there; planned when measuring. */
static enum status take_partials(struct step *s, struct attention_job *j, int32_t max_splits,
                                 int n_threads)
{
    j->partial_floats = state_floats(j);
    if (n_threads == 1 || j->n_tiles >= 4 * n_threads)
        return STATUS_OK;
    int32_t splits = s->measure ? SPLITS_MEASURED : max_splits;
    if (splits < 2)
        return STATUS_OK;
    size_t ready = (size_t)j->n_tiles * sizeof(atomic_int) + 64;
    size_t bytes = (size_t)j->n_tiles * (size_t)splits * j->partial_floats * sizeof(float);
    if (!s->measure && s->scratch_bytes - s->scratch_used < bytes + ready + 64)
        return STATUS_OK;
    void *partial, *counters;
    TRY(step_alloc_bytes(s, bytes, &partial));
    TRY(step_alloc_bytes(s, ready, &counters));
    j->partial = partial;
    j->ready = counters;
    j->max_splits = splits;
    if (!s->measure)
        for (int32_t i = 0; i < j->n_tiles; i++)
            atomic_init(&j->ready[i], 0);
    return STATUS_OK;
}

enum status cpu_attention(struct step *s, struct tensor *out, const struct tensor *q,
                          const struct kv_layer *kv, const struct attention_options *o)
{
    struct cpu_device *d = cpu_of(s);
    int n_threads = thread_pool_threads(d->pool);
    struct attention_job job = { .step = s, .vector = d->vector, .kv = kv, .q = q, .out = out,
                                 .options = o, .group = (int32_t)(q->dim[1] / kv->n_kv_heads),
                                 .v_dim_padded = (kv->v_dim + 15) & ~15 };
    size_t mark = step_mark(s);
    job.tile_tokens = MAX(1, TILE_QUERIES / job.group);
    int32_t longest = 1, max_splits;
    for (int32_t i = 0; i < s->batch->n_sequences; i++)
        longest = MAX(longest, s->batch->sequence[i].n_rows);
    job.tile_tokens = MIN(job.tile_tokens, longest);
    job.n_tiles = count_tiles(&job, &max_splits);
    job.thread_bytes = thread_floats(&job) * sizeof(float);
    void *scratch;
    TRY(step_alloc_bytes(s, (size_t)n_threads * job.thread_bytes, &scratch));
    job.thread_scratch = scratch;
    TRY(take_partials(s, &job, max_splits, n_threads));
    if (!s->measure) {
        if (job.max_splits)
            thread_pool_run(d->pool, job.n_tiles * (job.max_splits + 1), tile_split, &job);
        else
            thread_pool_run(d->pool, job.n_tiles, tile_in_order, &job);
    }
    step_release(s, mark);
    return STATUS_OK;
}
