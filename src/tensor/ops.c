#include "tensor/ops.h"

#include <math.h>
#include <stdio.h>

#include "base/compiler.h"
#include "tensor/device.h"
#include "tensor/kv_balance.h"
#include "tensor/op_kernels.h"

/* --- shapes ------------------------------------------------------------------------------- */

struct shape_text {
    char text[96];
};

static struct shape_text shape_text(const struct tensor *t)
{
    struct shape_text s;
    int n = snprintf(s.text, sizeof s.text, "%s [", tensor_type_name(t->type));
    for (int i = 0; i < t->n_dims && n < (int)sizeof s.text; i++)
        n += snprintf(s.text + n, sizeof s.text - (size_t)n, "%s%lld", i ? ", " : "",
                      (long long)t->dim[i]);
    if (n < (int)sizeof s.text)
        snprintf(s.text + n, sizeof s.text - (size_t)n, "]");
    return s;
}

/* Polls for cancellation: every op passes here first. */
static enum status begin(struct step *s)
{
    if (!s->measure && s->cancelled && s->cancelled(s->cancel_user))
        return STATUS_CANCELLED;
    return STATUS_OK;
}

static enum status bad(struct step *s, const char *op, const char *what, const struct tensor *t,
                       const char *expected)
{
    return error_set(s->err, STATUS_INTERNAL, "%s: %s: expected %s, found %s", op, what, expected,
                     shape_text(t).text);
}

/* f32, at least two dimensions, contiguous inside a row. */
static bool is_rows(const struct tensor *t)
{
    if (t->type != TENSOR_TYPE_F32 || t->n_dims < 2 || t->n_dims > 3)
        return false;
    int64_t stride = (int64_t)sizeof(float);
    for (int i = t->n_dims - 1; i > 0; i--) {
        if (t->dim[i] != 1 && t->stride_bytes[i] != stride)
            return false;
        stride *= t->dim[i];
    }
    return t->stride_bytes[0] % (int64_t)sizeof(float) == 0;
}

static int64_t row_length(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 1; i < t->n_dims; i++)
        n *= t->dim[i];
    return n;
}

static enum status check_rows(struct step *s, const char *op, const char *what,
                              const struct tensor *t, int64_t rows, int64_t cols)
{
    if (is_rows(t) && t->dim[0] == rows && row_length(t) == cols)
        return STATUS_OK;
    char expected[64];
    snprintf(expected, sizeof expected, "F32 [%lld, %lld]", (long long)rows, (long long)cols);
    return bad(s, op, what, t, expected);
}

static enum status check_heads(struct step *s, const char *op, const char *what,
                               const struct tensor *t, int64_t rows, int64_t heads, int64_t dim)
{
    if (is_rows(t) && t->n_dims == 3 && t->dim[0] == rows && t->dim[1] == heads &&
        t->dim[2] == dim)
        return STATUS_OK;
    char expected[96];
    snprintf(expected, sizeof expected, "F32 [%lld, %lld, %lld]", (long long)rows,
             (long long)heads, (long long)dim);
    return bad(s, op, what, t, expected);
}

static enum status check_weight(struct step *s, const char *op, const struct weight *w,
                                int64_t rows, int64_t cols)
{
    if (w->n_rows == rows && w->n_cols == cols && w->n_experts == 1)
        return STATUS_OK;
    return error_set(s->err, STATUS_INTERNAL, "%s: %.*s: expected [%lld, %lld], found [%lld, %lld]",
                     op, STR_ARG(w->name), (long long)rows, (long long)cols, (long long)w->n_rows,
                     (long long)w->n_cols);
}

static enum status check_vector(struct step *s, const char *op, const struct weight *w, int64_t n)
{
    return w ? check_weight(s, op, w, 1, n) : STATUS_OK;
}

static enum status check_same(struct step *s, const char *op, const struct tensor *out,
                              const struct tensor *x)
{
    if (!is_rows(out))
        return bad(s, op, "out", out, "F32 rows");
    return check_rows(s, op, "x", x, out->dim[0], row_length(out));
}

/* --- ops ---------------------------------------------------------------------------------- */

enum status op_embed(struct step *s, struct tensor *out, const struct weight *table,
                     const int32_t *token, float scale)
{
    TRY(begin(s));
    TRY(check_rows(s, "embed", "out", out, out->dim[0], table->n_cols));
    if (s->measure)
        return STATUS_OK;
    for (int64_t r = 0; r < out->dim[0]; r++)
        if (token[r] < 0 || token[r] >= table->n_rows)
            return error_set(s->err, STATUS_INVALID, "%.*s: expected a token below %lld, found %d",
                             STR_ARG(table->name), (long long)table->n_rows, token[r]);
    return s->dev->kernels->embed(s, out, table, token, scale);
}

enum status op_rms_norm(struct step *s, struct tensor *out, const struct tensor *x,
                        const struct weight *w, float eps)
{
    TRY(begin(s));
    TRY(check_same(s, "rms_norm", out, x));
    TRY(check_vector(s, "rms_norm", w, x->dim[x->n_dims - 1]));
    return s->measure ? STATUS_OK : s->dev->kernels->rms_norm(s, out, x, w, eps);
}

/* The norm as an op of its own, into scratch, for devices that do not fuse it. */
static enum status norm_apart(struct step *s, const struct tensor *x, const struct norm_before *n,
                              struct tensor *scratch, const struct tensor **normed)
{
    *normed = x;
    if (!n || !n->w)
        return STATUS_OK;
    TRY(step_alloc(s, scratch, TENSOR_TYPE_F32, x->dim[0], x->dim[1]));
    *normed = scratch;
    return op_rms_norm(s, scratch, x, n->w, n->eps);
}

static enum status check_linear(struct step *s, const char *op, const struct tensor *out,
                                const struct tensor *x, const struct weight *w,
                                const struct weight *bias)
{
    if (!is_rows(x) || x->n_dims != 2)
        return bad(s, op, "x", x, "F32 [rows, cols]");
    TRY(check_weight(s, op, w, w->n_rows, x->dim[1]));
    TRY(check_rows(s, op, "out", out, x->dim[0], w->n_rows));
    return check_vector(s, op, bias, w->n_rows);
}

enum status op_linear(struct step *s, struct tensor *out, const struct tensor *x,
                      const struct weight *w, const struct linear_options *o)
{
    static const struct linear_options plain = { 0 };
    o = o ? o : &plain;
    TRY(begin(s));
    TRY(check_linear(s, "linear", out, x, w, o->bias));
    TRY(check_vector(s, "linear", o->norm.w, x->dim[1]));
    return s->dev->kernels->linear(s, out, x, w, o);
}

enum status op_linear_group(struct step *s, const struct tensor *x, int n,
                            const struct linear_item *items, const struct norm_before *norm)
{
    CHECK(n >= 1 && n <= LINEAR_GROUP_MAX);
    TRY(begin(s));
    for (int i = 0; i < n; i++)
        TRY(check_linear(s, "linear_group", &items[i].out, x, items[i].w, items[i].bias));
    if (norm)
        TRY(check_vector(s, "linear_group", norm->w, x->dim[1]));
    if (s->dev->kernels->linear_group)
        return s->dev->kernels->linear_group(s, x, n, items, norm);
    s->dev->composed_ops++;
    size_t mark = step_mark(s);
    struct tensor scratch;
    TRY(norm_apart(s, x, norm, &scratch, &x));
    for (int i = 0; i < n; i++) {
        struct tensor out = items[i].out;
        TRY(op_linear(s, &out, x, items[i].w, &(struct linear_options){ .bias = items[i].bias }));
    }
    step_release(s, mark);
    return STATUS_OK;
}

enum status op_linear_glu(struct step *s, struct tensor *out, const struct tensor *x,
                          const struct weight *gate, const struct weight *up,
                          enum activation activation, const struct norm_before *norm)
{
    TRY(begin(s));
    TRY(check_linear(s, "linear_glu", out, x, gate, NULL));
    TRY(check_weight(s, "linear_glu", up, gate->n_rows, gate->n_cols));
    if (norm)
        TRY(check_vector(s, "linear_glu", norm->w, x->dim[1]));
    if (s->dev->kernels->linear_glu)
        return s->dev->kernels->linear_glu(s, out, x, gate, up, activation, norm);
    s->dev->composed_ops++;
    size_t mark = step_mark(s);
    struct tensor scratch, raised;
    TRY(norm_apart(s, x, norm, &scratch, &x));
    TRY(step_alloc(s, &raised, TENSOR_TYPE_F32, out->dim[0], gate->n_rows));
    TRY(op_linear(s, out, x, gate, NULL));
    TRY(op_activate(s, out, activation));
    TRY(op_linear(s, &raised, x, up, NULL));
    TRY(op_multiply(s, out, &raised));
    step_release(s, mark);
    return STATUS_OK;
}

enum status op_rope(struct step *s, struct tensor *x, const struct rope *r)
{
    TRY(begin(s));
    TRY(check_heads(s, "rope", "x", x, s->batch->n_rows, x->dim[1], x->dim[2]));
    if (r->n_rotated < 0 || r->n_rotated % 2 || r->n_rotated > x->dim[2])
        return error_set(s->err, STATUS_INTERNAL,
                         "rope: expected an even width up to %lld, found %d",
                         (long long)x->dim[2], r->n_rotated);
    return s->measure ? STATUS_OK : s->dev->kernels->rope(s, x, r);
}

/* The first tokens of a text are looked at whatever they say: their keys are like no others. */
#define LEARN_FROM 4

static void note(struct step *s, struct kv_balance *b, const struct tensor *x,
                 void (*note_row)(struct kv_balance *, const struct tensor *, int64_t))
{
    if (s->measure || !kv_balance_learns(b))
        return;
    for (int32_t i = 0; i < s->batch->n_sequences; i++) {
        const struct batch_sequence *q = &s->batch->sequence[i];
        for (int32_t r = MAX(0, LEARN_FROM - q->n_past); r < q->n_rows; r++)
            note_row(b, x, q->first_row + r);
    }
}

enum status op_kv_append(struct step *s, const struct kv_layer *kv, const struct tensor *k,
                         const struct tensor *v)
{
    TRY(begin(s));
    TRY(check_heads(s, "kv_append", "k", k, s->batch->n_rows, kv->n_kv_heads, kv->k_dim));
    TRY(check_heads(s, "kv_append", "v", v, s->batch->n_rows, kv->n_kv_heads, kv->v_dim));
    note(s, kv->balance, k, kv_balance_note_keys);
    return s->measure ? STATUS_OK : s->dev->kernels->kv_append(s, kv, k, v);
}

enum status op_attention(struct step *s, struct tensor *out, const struct tensor *q,
                         const struct kv_layer *kv, const struct attention_options *o)
{
    TRY(begin(s));
    TRY(check_heads(s, "attention", "q", q, s->batch->n_rows, q->dim[1], kv->k_dim));
    TRY(check_heads(s, "attention", "out", out, s->batch->n_rows, q->dim[1], kv->v_dim));
    TRY(check_vector(s, "attention", o->sinks, q->dim[1]));
    if (q->dim[1] % kv->n_kv_heads)
        return error_set(s->err, STATUS_INTERNAL,
                         "attention: expected a multiple of %d heads, found %lld", kv->n_kv_heads,
                         (long long)q->dim[1]);
    note(s, kv->balance, q, kv_balance_note_queries);
    if (kv->balance && (o->softcap > 0 || o->sinks))
        kv->balance->no_shift = true;
    return s->dev->kernels->attention(s, out, q, kv, o);
}

static enum status check_state(struct step *s, const char *op, const struct fixed_state *state,
                               int64_t bytes)
{
    if (state->bytes == bytes && (state->base || s->measure))
        return STATUS_OK;
    return error_set(s->err, STATUS_INTERNAL, "%s: expected a state of %lld bytes, found %lld", op,
                     (long long)bytes, (long long)(state->base || s->measure ? state->bytes : 0));
}

enum status op_causal_conv(struct step *s, struct tensor *out, const struct tensor *x,
                           const struct causal_conv *c)
{
    TRY(begin(s));
    TRY(check_same(s, "causal_conv", out, x));
    TRY(check_rows(s, "causal_conv", "x", x, s->batch->n_rows, row_length(x)));
    TRY(check_weight(s, "causal_conv", c->w, row_length(x), c->w->n_cols));
    if (!c->w->lookup || c->dilation < 1 || (out->data == x->data && !s->measure))
        return error_set(s->err, STATUS_INTERNAL,
                         "causal_conv: %.*s: expected a lookup, a dilation above 0 and an output "
                         "of its own", STR_ARG(c->w->name));
    int64_t rows = (c->w->n_cols - 1) * c->dilation;
    TRY(check_state(s, "causal_conv", &c->state, rows * row_length(x) * (int64_t)sizeof(float)));
    return s->dev->kernels->causal_conv(s, out, x, c);
}

enum status op_delta_net(struct step *s, struct tensor *out, const struct delta_net *d)
{
    int64_t n = s->batch->n_rows, heads = d->v.dim[1], width = row_length(&d->decay);
    int64_t key_heads = d->k.dim[1], k_dim = d->k.dim[2], v_dim = d->v.dim[2];
    TRY(begin(s));
    TRY(check_heads(s, "delta_net", "k", &d->k, n, key_heads, k_dim));
    TRY(check_heads(s, "delta_net", "q", &d->q, n, key_heads, k_dim));
    TRY(check_heads(s, "delta_net", "v", &d->v, n, heads, v_dim));
    TRY(check_heads(s, "delta_net", "out", out, n, heads, v_dim));
    TRY(check_rows(s, "delta_net", "beta", &d->beta, n, heads));
    TRY(check_rows(s, "delta_net", "decay", &d->decay, n,
                   width == heads ? heads : heads * k_dim));
    TRY(check_weight(s, "delta_net", d->a, 1, heads));
    TRY(check_vector(s, "delta_net", d->bias, width));
    if (heads % key_heads)
        return error_set(s->err, STATUS_INTERNAL,
                         "delta_net: expected a multiple of %lld heads, found %lld",
                         (long long)key_heads, (long long)heads);
    TRY(check_state(s, "delta_net", &d->state,
                    heads * k_dim * v_dim * (int64_t)sizeof(float)));
    return s->dev->kernels->delta_net(s, out, d);
}

enum status op_add(struct step *s, struct tensor *out, const struct tensor *x)
{
    TRY(begin(s));
    TRY(check_same(s, "add", out, x));
    return s->measure ? STATUS_OK : s->dev->kernels->add(s, out, x);
}

enum status op_multiply(struct step *s, struct tensor *out, const struct tensor *x)
{
    TRY(begin(s));
    TRY(check_same(s, "multiply", out, x));
    return s->measure ? STATUS_OK : s->dev->kernels->multiply(s, out, x);
}

enum status op_scale(struct step *s, struct tensor *out, float factor)
{
    TRY(begin(s));
    TRY(check_same(s, "scale", out, out));
    return s->measure ? STATUS_OK : s->dev->kernels->scale(s, out, factor);
}

enum status op_softcap(struct step *s, struct tensor *out, float cap)
{
    TRY(begin(s));
    TRY(check_same(s, "softcap", out, out));
    if (!(cap > 0) || !isfinite(cap))
        return error_set(s->err, STATUS_INTERNAL, "softcap: expected a cap above 0, found %g",
                         (double)cap);
    return s->measure ? STATUS_OK : s->dev->kernels->softcap(s, out, cap);
}

enum status op_activate(struct step *s, struct tensor *out, enum activation activation)
{
    TRY(begin(s));
    TRY(check_same(s, "activate", out, out));
    return s->measure ? STATUS_OK : s->dev->kernels->activate(s, out, activation);
}

enum status op_select_rows(struct step *s, struct tensor *out, const struct tensor *x,
                           const int32_t *row, int32_t n)
{
    TRY(begin(s));
    if (!is_rows(x))
        return bad(s, "select_rows", "x", x, "F32 rows");
    TRY(check_rows(s, "select_rows", "out", out, n, row_length(x)));
    if (s->measure)
        return STATUS_OK;
    for (int32_t i = 0; i < n; i++)
        if (row[i] < 0 || row[i] >= x->dim[0])
            return error_set(s->err, STATUS_INTERNAL,
                             "select_rows: expected a row below %lld, found %d",
                             (long long)x->dim[0], row[i]);
    return s->dev->kernels->select_rows(s, out, x, row, n);
}
