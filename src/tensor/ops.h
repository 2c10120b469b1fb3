/* ops: what models compute. Every op checks shapes here, with the names of the weights in the
 * message, then runs the device's kernel or composes it from smaller ops.
 *
 * x, out: f32 [rows][cols]. Options are zero-initialized defaults. In a measuring step an op
 * returns OK without touching data. */
#ifndef TENSOR_OPS_H
#define TENSOR_OPS_H

#include "base/error.h"
#include "tensor/kv.h"
#include "tensor/step.h"
#include "tensor/tensor.h"

/* out[r] = scale * table[token[r]]; token: host ids [rows], checked against the table. */
MUST_CHECK enum status op_embed(struct step *, struct tensor *out, const struct weight *table,
                                const int32_t *token, float scale);

/* out = x / sqrt(mean(x^2) + eps) * w over the last dimension of x, which is [rows][cols] or
 * [rows][heads][dim]. w NULL: no weight. In place is allowed.
 * Source: Zhang & Sennrich, arXiv:1910.07467, eq. 4. */
MUST_CHECK enum status op_rms_norm(struct step *, struct tensor *out, const struct tensor *x,
                                   const struct weight *w, float eps);

/* A norm of x before a product, so that a device may fuse it. w NULL: none. */
struct norm_before {
    const struct weight *w;
    float eps;
};

struct linear_options {
    struct norm_before norm;
    const struct weight *bias; /* [n_rows of w]; NULL: none */
    bool add;                  /* out += instead of out = */
};
/* out[r][o] = sum_c x[r][c] * w[o][c] (+ bias[o]) (+ out[r][o]) */
MUST_CHECK enum status op_linear(struct step *, struct tensor *out, const struct tensor *x,
                                 const struct weight *w, const struct linear_options *);

#define LINEAR_GROUP_MAX 4
/* Several products of one x (query, key, value): x is normalized and quantized once. */
struct linear_item {
    struct tensor out;
    const struct weight *w;
    const struct weight *bias;
};
MUST_CHECK enum status op_linear_group(struct step *, const struct tensor *x, int n,
                                       const struct linear_item *items,
                                       const struct norm_before *norm);

enum activation { ACTIVATION_SILU, ACTIVATION_GELU_TANH, ACTIVATION_GELU };
/* out = activation(x * gate^T) * (x * up^T).  Source: Shazeer, arXiv:2002.05202, section 2. */
MUST_CHECK enum status op_linear_glu(struct step *, struct tensor *out, const struct tensor *x,
                                     const struct weight *gate, const struct weight *up,
                                     enum activation, const struct norm_before *norm);

enum rope_style { ROPE_HALVES /* pairs (i, i + n/2) */, ROPE_NEIGHBOURS /* pairs (2i, 2i + 1) */ };
/* Pair i at position p turns by p * frequency[i]; cos and sin are multiplied by magnitude.
 * Source: Su et al., arXiv:2104.09864, eq. 34; frequency and magnitude carry any scaling. */
struct rope {
    enum rope_style style;
    int32_t n_rotated;      /* elements of a head that turn, from its start; even */
    const float *frequency; /* [n_rotated / 2], owned by the model */
    float magnitude;
    int32_t section[4];     /* multi-section: pairs for t, h, w, extra; all 0: plain */
    bool interleaved_sections;
};
/* In place on x [rows][heads][dim]; rows are the batch's rows. */
MUST_CHECK enum status op_rope(struct step *, struct tensor *x, const struct rope *);

/* Writes keys and values [rows][n_kv_heads][dim] of the batch's rows into the state. */
MUST_CHECK enum status op_kv_append(struct step *, const struct kv_layer *, const struct tensor *k,
                                    const struct tensor *v);

struct attention_options {
    float scale;                /* of q.k; required */
    float softcap;              /* cap * tanh(s / cap) before the softmax; 0: none */
    const struct weight *sinks; /* [n_heads] extra logits that only take probability; NULL: none */
};
/* out[r][h] = sum_j softmax_j(scale * q[r][h] . k_j) v_j over the visible keys j <= position of
 * row r, its own (already appended) included. q [rows][n_heads][k_dim], out
 * [rows][n_heads][v_dim]; head h reads key head h / (n_heads / n_kv_heads).
 * Source: Vaswani et al., arXiv:1706.03762, eq. 1; online softmax: arXiv:1805.02867. */
MUST_CHECK enum status op_attention(struct step *, struct tensor *out, const struct tensor *q,
                                    const struct kv_layer *, const struct attention_options *);

/* A piece of fixed-size state: one block for each slot. */
struct fixed_state {
    uint8_t *base; /* on the device; NULL in a measuring step */
    int64_t bytes; /* of a block */
};

struct causal_conv {
    const struct weight *w; /* [channels][taps], bound as a lookup; the last is the row's own */
    struct fixed_state state; /* [(taps - 1) * dilation][channels] f32: the rows before, in order */
    int32_t dilation;
    bool silu;              /* of the result */
};
/* out[r][c] = sum_j w[c][j] * x[r - (taps - 1 - j) * dilation][c], each channel alone, over the
 * rows of one sequence; those before the batch come from the state, which moves on. out is not x.
 */
MUST_CHECK enum status op_causal_conv(struct step *, struct tensor *out, const struct tensor *x,
                                      const struct causal_conv *);

struct delta_net {
    struct tensor q, k;       /* [rows][n_k_heads][k_dim] */
    struct tensor v;          /* [rows][n_heads][v_dim] */
    struct tensor decay;      /* [rows][n_heads]; for each key row: [rows][n_heads * k_dim] */
    struct tensor beta;       /* [rows][n_heads] */
    const struct weight *a;   /* [n_heads] */
    const struct weight *bias; /* as wide as decay; NULL: none */
    float a_factor;           /* -1: the file stores A instead of -A */
    float lower_bound;        /* below 0: the bounded gate */
    float scale, l2_eps;      /* of q; inside the root when q and k are made unit vectors */
    bool tiled;               /* head h reads key head h % n_k_heads; else runs share one */
    struct fixed_state state; /* [n_heads][k_dim][v_dim] f32 */
};
/* The gated delta rule: for each row in order, with q^ and k^ unit vectors,
 *   S = exp(g) * S;  S += k^ (beta * (v - S^T k^))^T;  out = scale * S^T q^,  beta = sigmoid(beta)
 *   g = a * softplus(decay + bias), or bounded: lower_bound * sigmoid(a * (decay + bias))
 * S is computed row by row, so where a batch ends changes no bit of it.
 * Source: Yang et al., arXiv:2412.06464, eq. 10; gate of each key row: arXiv:2510.26692, eq. 1. */
MUST_CHECK enum status op_delta_net(struct step *, struct tensor *out, const struct delta_net *);

MUST_CHECK enum status op_add(struct step *, struct tensor *out, const struct tensor *x);
MUST_CHECK enum status op_multiply(struct step *, struct tensor *out, const struct tensor *x);
MUST_CHECK enum status op_scale(struct step *, struct tensor *out, float factor);
/* out = cap * tanh(out / cap) */
MUST_CHECK enum status op_softcap(struct step *, struct tensor *out, float cap);
MUST_CHECK enum status op_activate(struct step *, struct tensor *out, enum activation);

/* out[i] = x[row[i]] for i < n */
MUST_CHECK enum status op_select_rows(struct step *, struct tensor *out, const struct tensor *x,
                                      const int32_t *row, int32_t n);

#endif
