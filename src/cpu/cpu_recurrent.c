/* cpu_recurrent: ops with state of a fixed size: causal convolution, the gated delta rule. Plain C
 * for every instruction set, one head or run of channels on one thread, rows in order: a row's
 * result depends on the rows before it alone, not on where batches end. */
#include <math.h>
#include <string.h>

#include "cpu/cpu_internal.h"

#define CHANNELS_PER_CHUNK 64

static float *row_of(const struct tensor *t, int64_t row)
{
    return (float *)(void *)((uint8_t *)t->data + row * t->stride_bytes[0]);
}

static float *block_of(const struct fixed_state *state, int32_t slot)
{
    return (float *)(void *)(state->base + slot * state->bytes);
}

/* --- convolution ---------------------------------------------------------------------------- */

struct conv_job {
    const struct batch *batch;
    const struct causal_conv *conv;
    const struct tensor *out, *x;
    int64_t n_channels, n_before;
    float *taps; /* [n_channels][n_taps] */
};

/* A sequence as one channel sees it. */
struct conv_view {
    const struct tensor *x;
    const float *before; /* [n_before][n_channels] */
    int64_t first_row, n_before, n_channels;
};

/* Row t of the sequence's rows in this batch; those before it are negative. */
static float at(const struct conv_view *v, int64_t t, int64_t channel)
{
    if (t < 0)
        return v->before[(v->n_before + t) * v->n_channels + channel];
    return row_of(v->x, v->first_row + t)[channel];
}

/* The window behind the first n rows. `to` may be the window before them: rows move forward. */
static void keep_window(const struct conv_view *v, int64_t n, float *to, int64_t from_channel,
                        int64_t to_channel)
{
    for (int64_t i = 0; i < v->n_before; i++)
        for (int64_t c = from_channel; c < to_channel; c++)
            to[i * v->n_channels + c] = at(v, n - v->n_before + i, c);
}

static void conv_rows(const struct conv_job *j, const struct conv_view *v, int32_t n_rows,
                      int64_t from, int64_t to)
{
    int64_t n_taps = j->conv->w->n_cols;
    for (int64_t r = 0; r < n_rows; r++) {
        float *out = row_of(j->out, v->first_row + r);
        for (int64_t c = from; c < to; c++) {
            float sum = 0;
            for (int64_t k = 0; k < n_taps; k++)
                sum += j->taps[c * n_taps + k] * at(v, r - (n_taps - 1 - k) * j->conv->dilation, c);
            out[c] = j->conv->silu ? sum / (1.0f + expf(-sum)) : sum;
        }
    }
}

static void conv_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    const struct conv_job *j = arg;
    int64_t from = (int64_t)chunk * CHANNELS_PER_CHUNK;
    int64_t to = MIN(from + CHANNELS_PER_CHUNK, j->n_channels);
    for (int32_t i = 0; i < j->batch->n_sequences; i++) {
        const struct batch_sequence *seq = &j->batch->sequence[i];
        float *block = block_of(&j->conv->state, seq->state_slot);
        struct conv_view v = { j->x, block, seq->first_row, j->n_before, j->n_channels };
        conv_rows(j, &v, seq->n_rows, from, to);
        if (seq->n_drafted > 0)
            keep_window(&v, seq->n_rows, block_of(&j->conv->state, seq->draft_slot), from, to);
        keep_window(&v, seq->n_rows - seq->n_drafted, block, from, to);
    }
}

enum status cpu_causal_conv(struct step *s, struct tensor *out, const struct tensor *x,
                            const struct causal_conv *c)
{
    struct conv_job job = { .batch = s->batch,
                            .conv = c,
                            .out = out,
                            .x = x,
                            .n_channels = c->w->n_rows,
                            .n_before = (c->w->n_cols - 1) * c->dilation };
    size_t mark = step_mark(s);
    void *taps;
    TRY(step_alloc_bytes(s, (size_t)(c->w->n_rows * c->w->n_cols) * sizeof(float), &taps));
    if (!s->measure) {
        job.taps = taps;
        for (int64_t i = 0; i < c->w->n_rows; i++)
            cpu_file_row(c->w, i, job.taps + i * c->w->n_cols);
        int64_t n = (job.n_channels + CHANNELS_PER_CHUNK - 1) / CHANNELS_PER_CHUNK;
        thread_pool_run(cpu_of(s)->pool, (int)n, conv_chunk, &job);
    }
    step_release(s, mark);
    return STATUS_OK;
}

/* --- delta rule ----------------------------------------------------------------------------- */

struct delta_job {
    const struct batch *batch;
    const struct delta_net *net;
    const struct tensor *out;
    int64_t k_dim, v_dim, n_heads, n_key_heads;
    bool each_row;  /* of the key has a decay of its own */
    float *scratch; /* of each thread: q, k, error */
};

/* One head of one sequence. */
struct delta_head {
    int64_t head, key_head;
    float *state;         /* [k_dim][v_dim] */
    float *q, *k, *error; /* unit vectors; beta * (v - S^T k) */
};

static void unit_vector(float *out, const float *x, int64_t n, float eps, float scale)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    float factor = scale / sqrtf(sum + eps);
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * factor;
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* exp(g) of key row i. */
static float decay_of(const struct delta_job *j, int64_t row, int64_t head, int64_t i)
{
    const struct delta_net *net = j->net;
    int64_t index = j->each_row ? head * j->k_dim + i : head;
    float x = row_of(&net->decay, row)[index];
    float a = ((const float *)net->a->data)[head] * net->a_factor;
    x += net->bias ? ((const float *)net->bias->data)[index] : 0.0f;
    return expf(net->lower_bound < 0 ? net->lower_bound * sigmoid(a * x) : a * softplus(x));
}

static void delta_row(const struct delta_job *j, const struct delta_head *h, int64_t row)
{
    const struct delta_net *net = j->net;
    const float *v = row_of(&net->v, row) + h->head * j->v_dim;
    float *out = row_of(j->out, row) + h->head * j->v_dim;
    float beta = sigmoid(row_of(&net->beta, row)[h->head]), decay = 0;
    unit_vector(h->q, row_of(&net->q, row) + h->key_head * j->k_dim, j->k_dim, net->l2_eps,
                net->scale);
    unit_vector(h->k, row_of(&net->k, row) + h->key_head * j->k_dim, j->k_dim, net->l2_eps, 1.0f);
    memset(h->error, 0, (size_t)j->v_dim * sizeof(float));
    for (int64_t i = 0; i < j->k_dim; i++) {
        float *line = h->state + i * j->v_dim;
        if (i == 0 || j->each_row)
            decay = decay_of(j, row, h->head, i);
        for (int64_t c = 0; c < j->v_dim; c++) {
            line[c] *= decay;
            h->error[c] += line[c] * h->k[i];
        }
    }
    for (int64_t c = 0; c < j->v_dim; c++) {
        h->error[c] = beta * (v[c] - h->error[c]);
        out[c] = 0;
    }
    for (int64_t i = 0; i < j->k_dim; i++) {
        float *line = h->state + i * j->v_dim;
        for (int64_t c = 0; c < j->v_dim; c++) {
            line[c] += h->k[i] * h->error[c];
            out[c] += line[c] * h->q[i];
        }
    }
}

static void delta_chunk(void *arg, int chunk, int thread)
{
    const struct delta_job *j = arg;
    const struct delta_net *net = j->net;
    const struct batch_sequence *seq = &j->batch->sequence[chunk / j->n_heads];
    int64_t head = chunk % j->n_heads, head_values = j->k_dim * j->v_dim;
    float *scratch = j->scratch + (int64_t)thread * (2 * j->k_dim + j->v_dim);
    struct delta_head h = {
        .head = head,
        .key_head = net->tiled ? head % j->n_key_heads : head / (j->n_heads / j->n_key_heads),
        .state = block_of(&net->state, seq->state_slot) + head * head_values,
        .q = scratch,
        .k = scratch + j->k_dim,
        .error = scratch + 2 * j->k_dim,
    };
    for (int32_t r = 0; r < seq->n_rows; r++) {
        if (seq->n_drafted > 0 && r == seq->n_rows - seq->n_drafted) {
            float *draft = block_of(&net->state, seq->draft_slot) + head * head_values;
            memcpy(draft, h.state, (size_t)head_values * sizeof(float));
            h.state = draft;
        }
        delta_row(j, &h, seq->first_row + r);
    }
}

enum status cpu_delta_net(struct step *s, struct tensor *out, const struct delta_net *net)
{
    struct delta_job job = { .batch = s->batch,
                             .net = net,
                             .out = out,
                             .k_dim = net->k.dim[2],
                             .v_dim = net->v.dim[2],
                             .n_heads = net->v.dim[1],
                             .n_key_heads = net->k.dim[1] };
    job.each_row = tensor_count(&net->decay) > net->decay.dim[0] * job.n_heads;
    size_t mark = step_mark(s);
    size_t values = (size_t)(2 * job.k_dim + job.v_dim);
    void *scratch;
    TRY(step_alloc_bytes(s, values * (size_t)thread_pool_threads(cpu_of(s)->pool) * sizeof(float),
                         &scratch));
    job.scratch = scratch;
    if (!s->measure)
        thread_pool_run(cpu_of(s)->pool, (int)(s->batch->n_sequences * job.n_heads), delta_chunk,
                        &job);
    step_release(s, mark);
    return STATUS_OK;
}
