#include "cli/op_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cpu/matmul.h"
#include "quant/dequant.h"
#include "quant/float_convert.h"
#include "tensor/ops.h"

#define PAGE_TOKENS 16
#define DISTINCT_BLOCKS 61 /* of a random matrix */
#define SCRATCH_BYTES ((size_t)256 << 20)

/* One run in progress. Device blocks are dropped at its end. */
struct op_run {
    const struct op_case *c;
    struct device *dev;
    struct error *err;
    struct arena arena;
    uint64_t drawn;
    struct rng_block random;
    struct step step;
    struct batch batch;
    struct batch_sequence sequence[2];
    struct {
        void *block;
        size_t bytes;
    } block[32];
    int n_blocks;
    struct weight *weight[8];
    int n_weights;
};

/* --- input -------------------------------------------------------------------------------- */

/* One of 2^24 numbers from -1 to 1. */
static float draw(struct op_run *r)
{
    uint32_t word = r->random.word[r->drawn % 4];
    if (++r->drawn % 4 == 0)
        r->random = rng_philox((uint64_t)r->c->number, r->drawn, 0);
    return (float)(word >> 8) * 0x1p-23f - 1;
}

static enum status take(struct op_run *r, size_t bytes, void **out)
{
    CHECK(r->n_blocks < (int)ARRAY_SIZE(r->block));
    TRY(r->dev->ops->memory_take(r->dev, bytes, out, r->err));
    r->block[r->n_blocks].block = *out;
    r->block[r->n_blocks++].bytes = bytes;
    return STATUS_OK;
}

/* [rows][cols] of random numbers, one in 64 of them large. */
static enum status input(struct op_run *r, struct tensor *out, int64_t rows, int64_t cols)
{
    size_t n = (size_t)(rows * cols);
    float *host = arena_array(&r->arena, float, n + 1);
    for (size_t i = 0; i < n; i++) {
        float x = draw(r);
        host[i] = r->drawn % 64 == 0 ? 8 * x : x;
    }
    void *data;
    TRY(take(r, (n + 1) * sizeof(float), &data));
    TRY(r->dev->ops->copy_in(r->dev, data, host, n * sizeof(float), r->err));
    *out = tensor_2d(data, TENSOR_TYPE_F32, rows, cols);
    return STATUS_OK;
}

static uint16_t small_half(struct op_run *r)
{
    return (uint16_t)(0x2000 + (int)(draw(r) * 1023 + 1024)); /* about 2^-7 */
}

/* One block of random codes whose numbers are neither huge nor all zero. Random bytes make valid
 * blocks of every type; scales that are not sane are drawn again. */
static void random_block(struct op_run *r, const struct tensor_type_info *t, uint8_t *block)
{
    float values[256];
    for (int attempt = 0; attempt < 200; attempt++) {
        for (int i = 0; i < t->block_bytes; i++)
            block[i] = (uint8_t)(draw(r) * 127 + 128);
        if (attempt % 2) { /* most types begin or end with a binary16 scale */
            uint16_t d = small_half(r);
            memcpy(block, &d, 2);
            memcpy(block + t->block_bytes - 2, &d, 2);
        }
        dequant_row(t->type, block, values, t->block_elements);
        float largest = 0;
        for (int i = 0; i < t->block_elements; i++)
            largest = isfinite(values[i]) ? fmaxf(largest, fabsf(values[i])) : INFINITY;
        if (largest > 0.01f && largest < 4)
            return;
    }
    memset(block, 0, (size_t)t->block_bytes);
}

static void random_number(struct op_run *r, enum tensor_type type, uint8_t *out)
{
    float x = draw(r);
    uint16_t half = type == TENSOR_TYPE_F16 ? f32_to_f16(x) : f32_to_bf16(x);
    uint8_t byte = type == TENSOR_TYPE_F8_E4M3 ? f32_to_f8_e4m3(x) : f32_to_f8_e5m2(x);
    switch (tensor_type_info(type)->block_bytes) {
    case 4:
        memcpy(out, &x, sizeof x);
        break;
    case 2:
        memcpy(out, &half, sizeof half);
        break;
    default:
        *out = type == TENSOR_TYPE_F8_E8M0 ? (uint8_t)(120 + (int)(4 * x)) : byte;
    }
}

static enum status matrix(struct op_run *r, const struct weight **out, enum tensor_type type,
                          int64_t rows, int64_t cols, const char *name)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    size_t row_bytes;
    if (!tensor_type_row_bytes(type, cols, &row_bytes))
        return error_set(r->err, STATUS_INTERNAL, "case: %s rows of %lld", info->name,
                         (long long)cols);
    /* Some devices borrow the bytes: they live as long as the run. */
    uint8_t *bytes = arena_array(&r->arena, uint8_t, (size_t)rows * row_bytes);
    size_t block = (size_t)info->block_bytes, n_blocks = (size_t)rows * row_bytes / block;
    for (size_t i = 0; i < n_blocks; i++)
        if (info->block_elements == 1)
            random_number(r, type, bytes + i * block);
        else if (i < DISTINCT_BLOCKS)
            random_block(r, info, bytes + i * block);
        else /* good blocks are rare in some types: these come again in another order */
            memcpy(bytes + i * block, bytes + i * 7 % DISTINCT_BLOCKS * block, block);
    struct weight *w = arena_array(&r->arena, struct weight, 1);
    *w = (struct weight){ .name = str_of(name), .type = type, .n_experts = 1, .n_rows = rows,
                          .n_cols = cols, .scale = { .tensor_factor = 1 } };
    const struct weight_bytes from = { .data = bytes, .n = (size_t)rows * row_bytes };
    TRY(r->dev->ops->weight_load(r->dev, w, &from, r->err));
    r->weight[r->n_weights++] = w;
    *out = w;
    return STATUS_OK;
}

static enum status vector(struct op_run *r, const struct weight **out, int64_t n)
{
    return matrix(r, out, TENSOR_TYPE_F32, 1, n, "vector");
}

/* Two sequences: the first has one row, the second the others. */
static void fill_batch(struct op_run *r)
{
    int32_t n = r->c->rows;
    int32_t *position = arena_array(&r->arena, int32_t, (size_t)(3 * n));
    int32_t *token = arena_array(&r->arena, int32_t, (size_t)n);
    int32_t *row_sequence = arena_array(&r->arena, int32_t, (size_t)n);
    int32_t n_pages = (r->c->past + n + PAGE_TOKENS) / PAGE_TOKENS;
    for (int s = 0; s < 2; s++) {
        int32_t *page = arena_array(&r->arena, int32_t, (size_t)n_pages);
        for (int32_t i = 0; i < n_pages; i++)
            page[i] = 2 * i + s;
        r->sequence[s] = (struct batch_sequence){ .first_row = s, .n_rows = s ? n - 1 : 1,
                                                  .n_past = r->c->past, .page = page,
                                                  .window_page = page };
    }
    for (int32_t i = 0; i < n; i++) {
        row_sequence[i] = i > 0;
        position[i] = r->c->past + (i ? i - 1 : 0);
        position[n + i] = position[i] / 2;
        position[2 * n + i] = position[i] / 3;
        token[i] = i % MAX(1, r->c->out_width);
    }
    r->batch = (struct batch){ .n_rows = n, .n_sequences = n > 1 ? 2 : 1, .token = token,
                               .position = position, .sequence = r->sequence,
                               .row_sequence = row_sequence };
}

/* --- the ops ------------------------------------------------------------------------------ */

/* What is timed and compared: run() may be called again on the same input. */
struct op_body {
    enum status (*prepare)(struct op_run *);
    enum status (*run)(struct op_run *);
};

/* Operands of all ops. */
struct operands {
    struct tensor x, y, out, out2, out3;
    const struct weight *w, *w2, *w3, *norm, *bias;
    struct kv_layer kv;
    struct rope rope;
};
static struct operands *operands_of(struct op_run *r);

struct op_run_with_operands {
    struct op_run run;
    struct operands operands;
};
static struct operands *operands_of(struct op_run *r)
{
    return &((struct op_run_with_operands *)(void *)r)->operands;
}

static enum status prepare_linear(struct op_run *r)
{
    struct operands *o = operands_of(r);
    const struct op_case *c = r->c;
    TRY(input(r, &o->x, c->rows, c->width));
    TRY(input(r, &o->out, c->rows, c->out_width));
    TRY(input(r, &o->out2, c->rows, c->out_width));
    TRY(matrix(r, &o->w, c->type, c->out_width, c->width, "w"));
    TRY(matrix(r, &o->w2, c->type, c->out_width, c->width, "w2"));
    TRY(vector(r, &o->norm, c->width));
    return vector(r, &o->bias, c->out_width);
}

/* variant: bit 0 norm, bit 1 bias, bit 2 add */
static enum status run_linear(struct op_run *r)
{
    struct operands *o = operands_of(r);
    struct linear_options options = { .add = r->c->variant & 4 };
    if (r->c->variant & 1)
        options.norm = (struct norm_before){ o->norm, 1e-5f };
    if (r->c->variant & 2)
        options.bias = o->bias;
    return op_linear(&r->step, &o->out, &o->x, o->w, &options);
}

static enum status run_linear_group(struct op_run *r)
{
    struct operands *o = operands_of(r);
    const struct linear_item items[2] = { { o->out, o->w, o->bias }, { o->out2, o->w2, NULL } };
    TRY(op_linear_group(&r->step, &o->x, 2, items, &(struct norm_before){ o->norm, 1e-5f }));
    return op_add(&r->step, &o->out, &o->out2);
}

/* variant: enum activation */
static enum status run_linear_glu(struct op_run *r)
{
    struct operands *o = operands_of(r);
    return op_linear_glu(&r->step, &o->out, &o->x, o->w, o->w2, (enum activation)r->c->variant,
                         &(struct norm_before){ o->norm, 1e-5f });
}

static enum status prepare_embed(struct op_run *r)
{
    struct operands *o = operands_of(r);
    TRY(input(r, &o->out, r->c->rows, r->c->width));
    return matrix(r, &o->w, r->c->type, r->c->out_width, r->c->width, "table");
}

static enum status run_embed(struct op_run *r)
{
    struct operands *o = operands_of(r);
    return op_embed(&r->step, &o->out, o->w, r->batch.token, 1.5f);
}

static enum status prepare_rows(struct op_run *r)
{
    struct operands *o = operands_of(r);
    TRY(input(r, &o->x, r->c->rows, (int64_t)r->c->heads * r->c->width));
    TRY(input(r, &o->out, r->c->rows, (int64_t)r->c->heads * r->c->width));
    return vector(r, &o->norm, r->c->width);
}

/* variant 1: no weight */
static enum status run_rms_norm(struct op_run *r)
{
    struct operands *o = operands_of(r);
    struct tensor x = tensor_split(&o->x, r->c->heads, r->c->width);
    struct tensor out = tensor_split(&o->out, r->c->heads, r->c->width);
    return op_rms_norm(&r->step, &out, &x, r->c->variant ? NULL : o->norm, 1e-5f);
}

/* variant: bit 0 neighbours, bit 1 sections, bit 2 interleaved sections, bit 3 half the head */
static enum status run_rope(struct op_run *r)
{
    struct operands *o = operands_of(r);
    int32_t variant = r->c->variant, width = r->c->width / (variant & 8 ? 2 : 1);
    float *frequency = arena_array(&r->arena, float, (size_t)width);
    for (int32_t i = 0; i < width / 2; i++)
        frequency[i] = powf(10000, -2.0f * (float)i / (float)width);
    struct rope rope = { .style = variant & 1 ? ROPE_NEIGHBOURS : ROPE_HALVES,
                         .n_rotated = width, .frequency = frequency, .magnitude = 1.25f };
    r->batch.multi_section = variant & 6;
    rope.interleaved_sections = variant & 4;
    if (variant & 6)
        for (int i = 0; i < 3; i++)
            rope.section[i] = width / 2 / 3;
    struct tensor x = tensor_split(&o->out, r->c->heads, r->c->width);
    return op_rope(&r->step, &x, &rope);
}

static enum status run_add(struct op_run *r)
{
    return op_add(&r->step, &operands_of(r)->out, &operands_of(r)->x);
}
static enum status run_multiply(struct op_run *r)
{
    return op_multiply(&r->step, &operands_of(r)->out, &operands_of(r)->x);
}
static enum status run_scale(struct op_run *r)
{
    return op_scale(&r->step, &operands_of(r)->out, 0.37f);
}
static enum status run_softcap(struct op_run *r)
{
    return op_softcap(&r->step, &operands_of(r)->out, 3);
}
static enum status run_activate(struct op_run *r)
{
    return op_activate(&r->step, &operands_of(r)->out, (enum activation)r->c->variant);
}
static enum status run_select_rows(struct op_run *r)
{
    struct operands *o = operands_of(r);
    int32_t *row = arena_array(&r->arena, int32_t, (size_t)r->c->rows);
    for (int32_t i = 0; i < r->c->rows; i++)
        row[i] = (i * 5 + 2) % r->c->rows;
    return op_select_rows(&r->step, &o->out, &o->x, row, r->c->rows);
}

/* Fills the past of both sequences, then appends the batch's rows. */
static enum status fill_cache(struct op_run *r, const struct tensor *k, const struct tensor *v)
{
    struct operands *o = operands_of(r);
    const struct op_case *c = r->c;
    struct batch batch = r->batch;
    for (int s = 0; s < 2; s++) {
        struct batch_sequence sequence = r->sequence[s];
        sequence.first_row = 0;
        sequence.n_rows = c->past + (s ? c->rows - 1 : 1);
        sequence.n_past = 0;
        if (sequence.n_rows <= 0)
            continue;
        int32_t *zero = arena_array(&r->arena, int32_t, (size_t)sequence.n_rows);
        struct batch one = { .n_rows = sequence.n_rows, .n_sequences = 1, .token = zero,
                             .position = zero, .sequence = &sequence, .row_sequence = zero };
        r->batch = one;
        struct tensor keys = tensor_rows(k, s, sequence.n_rows);
        struct tensor values = tensor_rows(v, s, sequence.n_rows);
        keys = tensor_split(&keys, c->kv_heads, c->width);
        values = tensor_split(&values, c->kv_heads, c->out_width);
        TRY(op_kv_append(&r->step, &o->kv, &keys, &values));
    }
    r->batch = batch;
    return STATUS_OK;
}

static enum status prepare_attention(struct op_run *r)
{
    struct operands *o = operands_of(r);
    const struct op_case *c = r->c;
    struct tensor k, v;
    int64_t tokens = c->past + c->rows + 1;
    TRY(input(r, &o->x, c->rows, (int64_t)c->heads * c->width));
    TRY(input(r, &o->out, c->rows, (int64_t)c->heads * c->out_width));
    TRY(input(r, &k, tokens, (int64_t)c->kv_heads * c->width));
    TRY(input(r, &v, tokens, (int64_t)c->kv_heads * c->out_width));
    TRY(vector(r, &o->bias, c->heads));
    o->kv = (struct kv_layer){ .n_kv_heads = c->kv_heads, .k_dim = c->width, .v_dim = c->out_width,
                               .page_tokens = PAGE_TOKENS, .k_type = c->type,
                               .v_type = c->value_type, .window = c->window };
    o->kv.k_page_bytes = r->dev->ops->kv_page_bytes(r->dev, c->type, c->kv_heads, c->width,
                                                    PAGE_TOKENS);
    o->kv.v_page_bytes = r->dev->ops->kv_page_bytes(r->dev, c->value_type, c->kv_heads,
                                                    c->out_width, PAGE_TOKENS);
    if (!o->kv.k_page_bytes || !o->kv.v_page_bytes)
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: no cache of types %s and %s",
                         r->dev->name, tensor_type_name(c->type),
                         tensor_type_name(c->value_type));
    size_t n_pages = 2 * (size_t)((tokens + PAGE_TOKENS) / PAGE_TOKENS);
    void *pages;
    TRY(take(r, n_pages * (size_t)o->kv.k_page_bytes, &pages));
    o->kv.k_pages = pages;
    TRY(take(r, n_pages * (size_t)o->kv.v_page_bytes, &pages));
    o->kv.v_pages = pages;
    return fill_cache(r, &k, &v);
}

/* variant 1: sinks */
static enum status run_attention(struct op_run *r)
{
    struct operands *o = operands_of(r);
    const struct op_case *c = r->c;
    struct tensor q = tensor_split(&o->x, c->heads, c->width);
    struct tensor out = tensor_split(&o->out, c->heads, c->out_width);
    return op_attention(&r->step, &out, &q, &o->kv,
                        &(struct attention_options){ .scale = 1.0f / sqrtf((float)c->width),
                                                     .softcap = c->softcap,
                                                     .sinks = c->variant ? o->bias : NULL });
}

static const struct {
    const char *op;
    struct op_body body;
    double multiplies; /* of one run: times rows * width * out_width; 0: by itself */
} bodies[] = {
    { "linear", { prepare_linear, run_linear }, 1 },
    { "linear_group", { prepare_linear, run_linear_group }, 2 },
    { "linear_glu", { prepare_linear, run_linear_glu }, 2 },
    { "embed", { prepare_embed, run_embed }, 0 },
    { "rms_norm", { prepare_rows, run_rms_norm }, 0 },
    { "rope", { prepare_rows, run_rope }, 0 },
    { "attention", { prepare_attention, run_attention }, 0 },
    { "add", { prepare_rows, run_add }, 0 },
    { "multiply", { prepare_rows, run_multiply }, 0 },
    { "scale", { prepare_rows, run_scale }, 0 },
    { "softcap", { prepare_rows, run_softcap }, 0 },
    { "activate", { prepare_rows, run_activate }, 0 },
    { "select_rows", { prepare_rows, run_select_rows }, 0 },
};

/* --- one case ----------------------------------------------------------------------------- */

static size_t body_of(const struct op_case *c)
{
    size_t i = 0;
    while (i < ARRAY_SIZE(bodies) && strcmp(bodies[i].op, c->op) != 0)
        i++;
    CHECK(i < ARRAY_SIZE(bodies)); /* every op of the list has a body */
    return i;
}

static double multiplies_of(const struct op_case *c, size_t body)
{
    if (bodies[body].multiplies > 0)
        return bodies[body].multiplies * c->rows * c->width * (double)c->out_width;
    if (strcmp(c->op, "attention") == 0)
        return (double)c->rows * c->heads * (c->past + c->rows / 2.0) * (c->width + c->out_width);
    return (double)c->rows * c->width * MAX(1, c->heads);
}

static enum status measure(struct op_run *r, const struct op_body *body, double time,
                           double *seconds)
{
    *seconds = 0;
    for (double start = clock_seconds(); time > 0 && clock_seconds() - start < time;) {
        double from = clock_seconds();
        TRY(body->run(r));
        double took = clock_seconds() - from;
        *seconds = *seconds == 0 || took < *seconds ? took : *seconds;
    }
    return STATUS_OK;
}

static enum status run_case(struct op_run *r, double time, struct op_result *out)
{
    size_t body = body_of(r->c);
    void *scratch;
    TRY(take(r, SCRATCH_BYTES, &scratch));
    r->step = (struct step){ .dev = r->dev, .batch = &r->batch, .scratch = scratch,
                             .scratch_bytes = SCRATCH_BYTES, .err = r->err };
    fill_batch(r);
    TRY(bodies[body].body.prepare(r));
    TRY(bodies[body].body.run(r));
    const struct tensor *t = &operands_of(r)->out;
    out->n = (size_t)tensor_count(t);
    out->values = mem_alloc(out->n * sizeof(float));
    out->multiplies = multiplies_of(r->c, body);
    TRY(r->dev->ops->copy_out(r->dev, out->values, t->data, out->n * sizeof(float), r->err));
    return measure(r, &bodies[body].body, time, &out->seconds);
}

enum status op_case_run(const struct op_case *c, struct device *dev, double time,
                        struct op_result *out, struct error *err)
{
    struct op_run_with_operands both = { .run = { .c = c, .dev = dev, .err = err } };
    struct op_run *r = &both.run;
    *out = (struct op_result){ 0 };
    arena_init(&r->arena, 0);
    r->random = rng_philox((uint64_t)c->number, 0, 0);
    enum status s = run_case(r, time, out);
    for (int i = 0; i < r->n_weights; i++)
        dev->ops->weight_release(dev, r->weight[i]);
    for (int i = 0; i < r->n_blocks; i++)
        dev->ops->memory_drop(dev, r->block[i].block, r->block[i].bytes);
    arena_release(&r->arena);
    if (s != STATUS_OK) {
        mem_free(out->values);
        out->values = NULL;
    }
    return s;
}

static double rms(const float *a, const float *b, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++) {
        double x = b ? (double)a[i] - b[i] : (double)a[i];
        square += x * x;
    }
    return sqrt(square / (double)MAX(n, 1));
}

static double largest_distance(const struct op_result *a, const struct op_result *b, double scale)
{
    double worst = 0;
    for (size_t i = 0; i < a->n; i++)
        worst = fmax(worst, fabs((double)a->values[i] - b->values[i]) /
                                (fabs((double)a->values[i]) + scale));
    return worst;
}

struct op_distance op_case_compare(const struct op_case *c, bool exact, const struct op_result *a,
                                   const struct op_result *b)
{
    CHECK(a->n == b->n);
    double scale = rms(a->values, NULL, a->n) + 1e-30, noise = rms(a->values, b->values, a->n);
    bool product = strncmp(c->op, "linear", 6) == 0;
    bool quantized = tensor_type_info(c->type)->flags & TENSOR_TYPE_QUANTIZED;
    struct op_distance d = { .limit = 2e-5 };
    if (product && quantized && !exact) {
        d.found = noise / scale; /* of 8-bit activations with large ones among them */
        d.limit = strcmp(c->op, "linear_glu") == 0 ? 0.1 : 0.03;
    } else {
        d.found = largest_distance(a, b, scale);
        if (strcmp(c->op, "rope") == 0)
            d.limit = 1e-4; /* an angle of 1000 is a binary32 with steps of 6e-5 */
        else if (strcmp(c->op, "attention") == 0)
            d.limit = 5e-5; /* a score of 50 moves by 5e-6, and its exponential with it */
    }
    if (!isfinite(noise))
        d.found = INFINITY;
    return d;
}
