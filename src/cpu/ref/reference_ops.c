/* reference_ops: every op in plain C, one thread, sums in binary64: what the fast kernels are
 * tested against, and what runs where the processor has none of their instruction sets. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_internal.h"
#include "cpu/kv_pages.h"

static float *row_of(const struct tensor *t, int64_t row)
{
    return (float *)(void *)((uint8_t *)t->data + row * t->stride_bytes[0]);
}

static int64_t row_values(const struct tensor *t)
{
    return t->n_dims == 3 ? t->dim[1] * t->dim[2] : t->dim[1];
}

static void weight_row(const struct weight *w, int64_t row, float *out)
{
    if (w->layout == WEIGHT_LAYOUT_F32)
        memcpy(out, (const float *)w->data + row * w->n_cols, (size_t)w->n_cols * sizeof(float));
    else
        cpu_file_row(w, row, out);
}

static enum status reference_embed(struct step *s, struct tensor *out, const struct weight *table,
                                   const int32_t *token, float scale)
{
    (void)s;
    for (int64_t r = 0; r < out->dim[0]; r++) {
        weight_row(table, token[r], row_of(out, r));
        for (int64_t c = 0; c < table->n_cols; c++)
            row_of(out, r)[c] *= scale;
    }
    return STATUS_OK;
}

static void norm(float *out, const float *x, const float *w, int64_t n, float eps)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    double factor = 1.0 / sqrt(sum / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(x[i] * factor * (w ? w[i] : 1.0f));
}

static enum status reference_rms_norm(struct step *s, struct tensor *out, const struct tensor *x,
                                      const struct weight *w, float eps)
{
    (void)s;
    int64_t width = x->dim[x->n_dims - 1];
    for (int64_t r = 0; r < x->dim[0]; r++)
        for (int64_t p = 0; p < row_values(x); p += width)
            norm(row_of(out, r) + p, row_of(x, r) + p, w ? w->data : NULL, width, eps);
    return STATUS_OK;
}

static void multiply_row(const struct weight *w, const float *row, int64_t r, const float *x,
                         const float *bias, bool add, float *out)
{
    double sum = bias ? bias[r] : 0.0;
    for (int64_t c = 0; c < w->n_cols; c++)
        sum += (double)x[c] * row[c];
    *out = (float)(add ? *out + sum : sum);
}

static enum status reference_linear(struct step *s, struct tensor *out, const struct tensor *x,
                                    const struct weight *w, const struct linear_options *o)
{
    size_t mark = step_mark(s);
    struct tensor row, normed;
    TRY(step_alloc(s, &row, TENSOR_TYPE_F32, 1, w->n_cols));
    TRY(step_alloc(s, &normed, TENSOR_TYPE_F32, x->dim[0], w->n_cols));
    if (!s->measure) {
        for (int64_t t = 0; t < x->dim[0]; t++)
            if (o->norm.w)
                norm(row_of(&normed, t), row_of(x, t), o->norm.w->data, w->n_cols, o->norm.eps);
            else
                memcpy(row_of(&normed, t), row_of(x, t), (size_t)w->n_cols * sizeof(float));
        for (int64_t r = 0; r < w->n_rows; r++) {
            weight_row(w, r, row.data);
            for (int64_t t = 0; t < x->dim[0]; t++)
                multiply_row(w, row.data, r, row_of(&normed, t), o->bias ? o->bias->data : NULL,
                             o->add, row_of(out, t) + r);
        }
    }
    step_release(s, mark);
    return STATUS_OK;
}

static void turn(float *a, float *b, double angle, double magnitude)
{
    double c = cos(angle) * magnitude, s = sin(angle) * magnitude, x = *a, y = *b;
    *a = (float)(x * c - y * s);
    *b = (float)(x * s + y * c);
}

/* The position that turns pair i of a row: t, h or w. */
static int32_t position_of(const struct batch *b, const struct rope *r, int64_t row, int32_t i)
{
    int axis = 0;
    if (b->multi_section && r->interleaved_sections) {
        if (i % 3 != 0 && i < 3 * r->section[i % 3])
            axis = i % 3;
    } else if (b->multi_section) {
        if (i >= r->section[0])
            axis = i < r->section[0] + r->section[1] ? 1 : 2;
        if (i >= r->section[0] + r->section[1] + r->section[2])
            axis = 0;
    }
    return b->position[axis * b->n_rows + row];
}

static enum status reference_rope(struct step *s, struct tensor *x, const struct rope *r)
{
    int32_t half = r->n_rotated / 2;
    for (int64_t row = 0; row < x->dim[0]; row++)
        for (int64_t h = 0; h < x->dim[1]; h++) {
            float *head = row_of(x, row) + h * x->dim[2];
            for (int32_t i = 0; i < half; i++) {
                double angle = (double)position_of(s->batch, r, row, i) * r->frequency[i];
                if (r->style == ROPE_HALVES)
                    turn(head + i, head + i + half, angle, r->magnitude);
                else
                    turn(head + 2 * i, head + 2 * i + 1, angle, r->magnitude);
            }
        }
    return STATUS_OK;
}

/* One query head against all visible keys: scores, their maximum, then the weighted mean. */
struct attention_head {
    const struct kv_layer *kv;
    const int32_t *table;
    int32_t key_head, first, end;
    const float *q;
    float *key, *value;
    double *sum; /* [v_dim] */
};

static double score(const struct attention_head *a, const struct attention_options *o, int32_t j)
{
    int32_t line = j % a->kv->page_tokens;
    kv_load_key(a->kv, kv_page_of(a->kv, a->table, j), a->key_head, line, a->key);
    double sum = 0;
    for (int32_t d = 0; d < a->kv->k_dim; d++)
        sum += (double)a->q[d] * a->key[d];
    sum *= o->scale;
    return o->softcap > 0 ? o->softcap * tanh(sum / o->softcap) : sum;
}

static void attend(const struct attention_head *a, const struct attention_options *o,
                   const float *sink, float *out)
{
    double largest = sink ? *sink : -INFINITY;
    for (int32_t j = a->first; j < a->end; j++)
        largest = fmax(largest, score(a, o, j));
    double all = sink ? exp(*sink - largest) : 0;
    memset(a->sum, 0, (size_t)a->kv->v_dim * sizeof(double));
    for (int32_t j = a->first; j < a->end; j++) {
        double p = exp(score(a, o, j) - largest);
        all += p;
        kv_load_value(a->kv, kv_page_of(a->kv, a->table, j), a->key_head,
                      j % a->kv->page_tokens, a->value);
        for (int32_t d = 0; d < a->kv->v_dim; d++)
            a->sum[d] += p * a->value[d];
    }
    for (int32_t d = 0; d < a->kv->v_dim; d++)
        out[d] = (float)(a->sum[d] / all);
}

static enum status reference_attention(struct step *s, struct tensor *out, const struct tensor *q,
                                       const struct kv_layer *kv,
                                       const struct attention_options *o)
{
    size_t mark = step_mark(s);
    void *key, *value, *sum;
    TRY(step_alloc_bytes(s, (size_t)kv->k_dim * sizeof(float), &key));
    TRY(step_alloc_bytes(s, (size_t)kv->v_dim * sizeof(float), &value));
    TRY(step_alloc_bytes(s, (size_t)kv->v_dim * sizeof(double), &sum));
    const struct batch *b = s->batch;
    for (int32_t r = 0; r < b->n_rows && !s->measure; r++) {
        const struct batch_sequence *seq = &b->sequence[b->row_sequence[r]];
        int32_t place = seq->n_past + r - seq->first_row;
        for (int32_t h = 0; h < q->dim[1]; h++) {
            struct attention_head a = {
                .kv = kv, .table = kv->window ? seq->window_page : seq->page,
                .key_head = (int32_t)(h / (q->dim[1] / kv->n_kv_heads)),
                .first = kv->window ? MAX(0, place - kv->window + 1) : 0, .end = place + 1,
                .q = row_of(q, r) + (int64_t)h * kv->k_dim, .key = key, .value = value, .sum = sum,
            };
            attend(&a, o, o->sinks ? (const float *)o->sinks->data + h : NULL,
                   row_of(out, r) + (int64_t)h * kv->v_dim);
        }
    }
    step_release(s, mark);
    return STATUS_OK;
}

static double activated(double x, enum activation a)
{
    switch (a) {
    case ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case ACTIVATION_GELU_TANH: /* arXiv:1606.08415, section 2 */
        return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    default:
        return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
    }
}

/* Elementwise ops differ in one line. */
#define EACH(name, arguments, result)                                  \
    static enum status reference_##name arguments                      \
    {                                                                  \
        (void)s;                                                       \
        for (int64_t r = 0; r < out->dim[0]; r++) {                    \
            float *a = row_of(out, r);                                 \
            for (int64_t i = 0; i < row_values(out); i++)              \
                a[i] = (float)(result);                                \
        }                                                              \
        return STATUS_OK;                                              \
    }
EACH(add, (struct step *s, struct tensor *out, const struct tensor *x), a[i] + row_of(x, r)[i])
EACH(multiply, (struct step *s, struct tensor *out, const struct tensor *x), a[i] * row_of(x, r)[i])
EACH(scale, (struct step *s, struct tensor *out, float factor), a[i] * factor)
EACH(softcap, (struct step *s, struct tensor *out, float cap), cap * tanh((double)a[i] / cap))
EACH(activate, (struct step *s, struct tensor *out, enum activation f), activated((double)a[i], f))

const struct op_kernels cpu_reference_kernels = {
    .embed = reference_embed,
    .rms_norm = reference_rms_norm,
    .linear = reference_linear,
    .rope = reference_rope,
    .kv_append = cpu_kv_append,
    .attention = reference_attention,
    .causal_conv = cpu_causal_conv,
    .delta_net = cpu_delta_net,
    .add = reference_add,
    .multiply = reference_multiply,
    .scale = reference_scale,
    .softcap = reference_softcap,
    .activate = reference_activate,
    .select_rows = cpu_select_rows,
};
