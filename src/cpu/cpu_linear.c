/* cpu_linear: embedding rows and matrix products with their norm before and activation after.
 *
 * A product, or a group of products of one x, is one region: its first chunks normalize rows of x
 * and turn them into the operands that the weights take, the others multiply ranges of row groups
 * and wait for the first. */
#include <string.h>

#include "cpu/cpu_internal.h"
#include "cpu/matmul.h"
#include "cpu/vector_kernels.h"

/* About 3 us of work for one thread: smaller chunks cost more to hand out than they balance. */
#define MULTIPLIES_PER_CHUNK 65536
#define CHUNKS_PER_THREAD 4
#define TILES_PER_CHUNK 4
#define N_OPERANDS 2

/* One matrix of a job. */
struct product {
    struct matmul_args args;
    int64_t n_groups, groups_each;
    int first_chunk;
};

struct linear_job {
    const struct cpu_device *dev;
    const struct tensor *x;
    struct norm_before norm;
    int64_t n_tokens, n_cols;
    float *normed;               /* [n_tokens][n_cols]; NULL without a norm */
    void *operand[N_OPERANDS];   /* by enum matmul_operand; NULL: not needed */
    float *row;                  /* [n_threads][n_cols]: rows decoded from the file */
    struct product product[LINEAR_GROUP_MAX];
    int n_products, n_prepare, n_chunks;
    atomic_int prepared;
};

/* --- embedding ---------------------------------------------------------------------------- */

static void weight_row(const struct weight *w, int64_t row, float *out)
{
    if (w->layout == WEIGHT_LAYOUT_ROWS16)
        matmul_unpack_row(w, 0, row, out);
    else if (w->layout == WEIGHT_LAYOUT_F32)
        memcpy(out, (const float *)w->data + row * w->n_cols, (size_t)w->n_cols * sizeof(float));
    else
        cpu_file_row(w, row, out);
}

enum status cpu_embed(struct step *s, struct tensor *out, const struct weight *table,
                      const int32_t *token, float scale)
{
    for (int64_t r = 0; r < out->dim[0]; r++) {
        float *row = (float *)(void *)((uint8_t *)out->data + r * out->stride_bytes[0]);
        weight_row(table, token[r], row);
        if (scale != 1.0f)
            cpu_of(s)->vector->scale(row, scale, table->n_cols);
    }
    return STATUS_OK;
}

/* --- the chunks of a region --------------------------------------------------------------- */

static const float *x_row(const struct linear_job *j, int64_t token)
{
    return (const float *)(const void *)((const uint8_t *)j->x->data +
                                         token * j->x->stride_bytes[0]);
}

static void prepare_chunk(struct linear_job *j, int chunk)
{
    int64_t from = (int64_t)chunk * TILES_PER_CHUNK;
    int64_t to = MIN(from + TILES_PER_CHUNK, matmul_token_tiles(j->n_tokens));
    const float *x = j->x->data;
    int64_t stride = j->x->stride_bytes[0] / (int64_t)sizeof(float);
    if (j->normed) {
        for (int64_t t = from * MATMUL_TOKENS; t < MIN(to * MATMUL_TOKENS, j->n_tokens); t++)
            j->dev->vector->rms_norm(j->normed + t * j->n_cols, x_row(j, t), j->norm.w->data,
                                     j->n_cols, j->norm.eps);
        x = j->normed;
        stride = j->n_cols;
    }
    for (int o = 0; o < N_OPERANDS; o++)
        if (j->operand[o])
            matmul_activate(j->dev->products, (enum matmul_operand)o, x, stride, j->n_tokens,
                            j->n_cols, j->operand[o], from, to);
    atomic_fetch_add_explicit(&j->prepared, 1, memory_order_release);
}

/* Rows as they lie in the file: decoded once, multiplied with every token. */
static void multiply_file_rows(const struct linear_job *j, const struct product *p, int thread,
                               int64_t from, int64_t to)
{
    const struct matmul_args *a = &p->args;
    float *row = j->row + (int64_t)thread * j->n_cols;
    for (int64_t r = from; r < to; r++) {
        weight_row(a->w, r, row);
        for (int64_t t = 0; t < j->n_tokens; t++) {
            const float *x = j->normed ? j->normed + t * j->n_cols : x_row(j, t);
            float *out = a->out + t * a->out_stride + r;
            float value = j->dev->vector->dot(row, x, j->n_cols) + (a->bias ? a->bias[r] : 0);
            *out = a->add ? *out + value : value;
        }
    }
}

static void linear_chunk(void *arg, int chunk, int thread)
{
    struct linear_job *j = arg;
    if (chunk < j->n_prepare) {
        prepare_chunk(j, chunk);
        return;
    }
    int i = j->n_products - 1;
    while (chunk < j->product[i].first_chunk)
        i--;
    const struct product *p = &j->product[i];
    int64_t from = (chunk - p->first_chunk) * p->groups_each;
    int64_t to = MIN(from + p->groups_each, p->n_groups);
    thread_pool_await(&j->prepared, j->n_prepare);
    if (p->args.w->layout == WEIGHT_LAYOUT_ROWS16)
        matmul_run(j->dev->products, &p->args, from, to);
    else
        multiply_file_rows(j, p, thread, from * MATMUL_ROWS,
                           MIN(to * MATMUL_ROWS, p->args.w->n_rows));
}

/* --- building a job ----------------------------------------------------------------------- */

static void open_job(struct linear_job *j, struct step *s, const struct tensor *x,
                     const struct norm_before *norm)
{
    *j = (struct linear_job){ .dev = cpu_of(s), .x = x, .n_tokens = x->dim[0],
                              .n_cols = x->dim[1] };
    if (norm)
        j->norm = *norm;
}

static void add_product(struct linear_job *j, const struct tensor *out, const struct weight *w,
                        const struct weight *up, const struct weight *bias, bool add)
{
    j->product[j->n_products++] = (struct product){
        .args = { .w = w, .up = up, .operand = matmul_operand_for(w->type, j->dev->base.exact),
                  .n_tokens = j->n_tokens, .out = out->data,
                  .out_stride = out->stride_bytes[0] / (int64_t)sizeof(float),
                  .bias = bias ? bias->data : NULL, .add = add },
        .n_groups = matmul_row_groups(w->n_rows),
    };
}

static enum status take_scratch(struct step *s, struct linear_job *j, int n_threads)
{
    void *p;
    bool file_rows = false;
    if (j->norm.w) {
        TRY(step_alloc_bytes(s, (size_t)(j->n_tokens * j->n_cols) * sizeof(float), &p));
        j->normed = p;
    }
    for (int i = 0; i < j->n_products; i++) {
        struct product *q = &j->product[i];
        if (q->args.w->layout != WEIGHT_LAYOUT_ROWS16) {
            file_rows = true;
            continue;
        }
        enum matmul_operand o = q->args.operand;
        if (!j->operand[o] || s->measure) {
            TRY(step_alloc_bytes(s, matmul_operand_bytes(o, j->n_tokens, j->n_cols), &p));
            j->operand[o] = p;
        }
        q->args.x = j->operand[o];
    }
    if (file_rows) {
        TRY(step_alloc_bytes(s, (size_t)(n_threads * j->n_cols) * sizeof(float), &p));
        j->row = p;
    }
    return STATUS_OK;
}

static void cut_into_chunks(struct linear_job *j, int n_threads)
{
    int64_t all = 0;
    for (int i = 0; i < j->n_products; i++)
        all += j->product[i].n_groups;
    int64_t group_multiplies = MAX(1, MATMUL_ROWS * j->n_cols * j->n_tokens);
    int64_t each = MAX(all / (CHUNKS_PER_THREAD * n_threads),
                       MULTIPLIES_PER_CHUNK / group_multiplies);
    each = MAX(1, each);
    int64_t tiles = matmul_token_tiles(j->n_tokens);
    j->n_prepare = (int)((tiles + TILES_PER_CHUNK - 1) / TILES_PER_CHUNK);
    int chunk = j->n_prepare;
    for (int i = 0; i < j->n_products; i++) {
        struct product *p = &j->product[i];
        p->groups_each = each;
        p->first_chunk = chunk;
        chunk += (int)((p->n_groups + each - 1) / each);
    }
    j->n_chunks = chunk;
}

static enum status run_job(struct step *s, struct linear_job *j)
{
    struct thread_pool *pool = cpu_of(s)->pool;
    int n_threads = thread_pool_threads(pool);
    size_t mark = step_mark(s);
    TRY(take_scratch(s, j, n_threads));
    if (!s->measure && j->n_tokens > 0) {
        cut_into_chunks(j, n_threads);
        thread_pool_run(pool, j->n_chunks, linear_chunk, j);
    }
    step_release(s, mark);
    return STATUS_OK;
}

/* --- ops ---------------------------------------------------------------------------------- */

enum status cpu_linear(struct step *s, struct tensor *out, const struct tensor *x,
                       const struct weight *w, const struct linear_options *o)
{
    struct linear_job j;
    open_job(&j, s, x, &o->norm);
    add_product(&j, out, w, NULL, o->bias, o->add);
    return run_job(s, &j);
}

enum status cpu_linear_group(struct step *s, const struct tensor *x, int n,
                             const struct linear_item *items, const struct norm_before *norm)
{
    struct linear_job j;
    open_job(&j, s, x, norm);
    for (int i = 0; i < n; i++)
        add_product(&j, &items[i].out, items[i].w, NULL, items[i].bias, false);
    return run_job(s, &j);
}

struct glu_job {
    matmul_glu_function *glu;
    const struct tensor *out, *up;
};

static void glu_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    const struct glu_job *j = arg;
    float *out = (float *)(void *)((uint8_t *)j->out->data + chunk * j->out->stride_bytes[0]);
    const float *up = (const float *)j->up->data + chunk * j->up->dim[1];
    j->glu(out, out, up, (int)j->up->dim[1]);
}

/* Gate and up of different types: two products, then the activation. */
static enum status glu_apart(struct step *s, struct tensor *out, const struct tensor *x,
                             const struct weight *gate, const struct weight *up,
                             enum activation activation, const struct norm_before *norm)
{
    size_t mark = step_mark(s);
    struct tensor raised;
    TRY(step_alloc(s, &raised, TENSOR_TYPE_F32, x->dim[0], up->n_rows));
    struct linear_item items[2] = { { .out = *out, .w = gate }, { .out = raised, .w = up } };
    TRY(cpu_linear_group(s, x, 2, items, norm));
    struct glu_job job = { .glu = cpu_of(s)->vector->glu[activation], .out = out, .up = &raised };
    if (!s->measure)
        thread_pool_run(cpu_of(s)->pool, (int)x->dim[0], glu_chunk, &job);
    step_release(s, mark);
    return STATUS_OK;
}

enum status cpu_linear_glu(struct step *s, struct tensor *out, const struct tensor *x,
                           const struct weight *gate, const struct weight *up,
                           enum activation activation, const struct norm_before *norm)
{
    if (gate->type != up->type || gate->layout != WEIGHT_LAYOUT_ROWS16 ||
        up->layout != WEIGHT_LAYOUT_ROWS16)
        return glu_apart(s, out, x, gate, up, activation, norm);
    struct linear_job j;
    open_job(&j, s, x, norm);
    add_product(&j, out, gate, up, NULL, false);
    j.product[0].args.glu = cpu_of(s)->vector->glu[activation];
    return run_job(s, &j);
}
