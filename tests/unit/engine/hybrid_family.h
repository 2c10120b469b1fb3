/* hybrid_family: a small network for tests that has every kind of state: two layers of gated delta
 * rule behind a causal convolution (fixed), one of full attention (pages), one with a window.
 *
 * It declares and computes its state as a family of the engine does; its file is made on the spot,
 * with random weights. Threads: those of its engine. */
#ifndef TESTS_HYBRID_FAMILY_H
#define TESTS_HYBRID_FAMILY_H

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/gguf_write.h"
#include "models/blocks/attention.h"
#include "models/blocks/ffn.h"
#include "models/blocks/head.h"
#include "models/blocks/rope_config.h"
#include "unit/cmocka_setup.h"

enum {
    HYBRID_LAYERS = 4,
    HYBRID_EMBD = 64,
    HYBRID_FF = 96,
    HYBRID_VOCAB = 199,
    HYBRID_HEADS = 2, /* of attention */
    HYBRID_HEAD = 64,
    HYBRID_WINDOW = 100,
    HYBRID_KEYS = 2, /* of the delta rule */
    HYBRID_VALUES = 4,
    HYBRID_DIM = 16,
    HYBRID_TAPS = 4,
    HYBRID_CHANNELS = (2 * HYBRID_KEYS + HYBRID_VALUES) * HYBRID_DIM,
    HYBRID_INNER = HYBRID_VALUES * HYBRID_DIM,
};

struct hybrid_layer {
    struct attention_weights attention;
    struct ffn_weights ffn;
    const struct weight *norm, *qkv, *conv, *alpha, *beta, *a, *dt, *inner_norm, *out;
    int32_t kv, window, matrix; /* pieces of the state; -1: none */
};

struct hybrid {
    struct hparams shape;
    struct rope rope;
    struct head_weights head;
    struct hybrid_layer layer[HYBRID_LAYERS];
};

static inline bool hybrid_attends(int32_t layer)
{
    return layer % 2 == 1;
}

static inline int32_t hybrid_declare(struct state_layout *layout, const char *what, int32_t layer,
                                     struct state_piece piece)
{
    snprintf(piece.name, sizeof piece.name, "blk.%d %s", layer, what);
    piece.layer = layer;
    layout->piece[layout->n_pieces] = piece;
    return layout->n_pieces++;
}

static inline enum status hybrid_read_config(struct model *m, const struct model_source *source,
                                             struct error *err)
{
    struct hybrid *h = m->impl = arena_array(&m->arena, struct hybrid, 1);
    TRY(hparams_read(&h->shape, source, &(struct hparam_defaults){ .context = 2048, .eps = 1e-6f },
                     err));
    TRY(rope_config_read(&h->rope, source,
                         &(struct rope_request){ .gguf_base = "rope.freq_base",
                                                 .default_base = 10000,
                                                 .head_dim = h->shape.k_dim,
                                                 .context = h->shape.context },
                         &m->arena, err));
    hparams_to_shape(&h->shape, m);
    m->state.piece = arena_array(&m->arena, struct state_piece, 2 * HYBRID_LAYERS);
    for (int32_t i = 0; i < HYBRID_LAYERS; i++) {
        struct hybrid_layer *layer = &h->layer[i];
        struct state_piece kv = { .kind = i == 1 ? STATE_PAGED : STATE_WINDOW,
                                  .n_kv_heads = h->shape.n_kv_heads,
                                  .k_dim = h->shape.k_dim,
                                  .v_dim = h->shape.v_dim,
                                  .window = i == 1 ? 0 : HYBRID_WINDOW };
        struct state_piece window = { .kind = STATE_FIXED,
                                      .fixed_bytes = (HYBRID_TAPS - 1) * HYBRID_CHANNELS * 4 };
        struct state_piece matrix = { .kind = STATE_FIXED,
                                      .fixed_bytes = HYBRID_INNER * HYBRID_DIM * 4 };
        layer->kv = layer->window = layer->matrix = -1;
        if (hybrid_attends(i)) {
            layer->kv = hybrid_declare(&m->state, "kv", i, kv);
        } else {
            layer->window = hybrid_declare(&m->state, "conv", i, window);
            layer->matrix = hybrid_declare(&m->state, "delta", i, matrix);
        }
    }
    return STATUS_OK;
}

static inline enum status hybrid_bind_delta(struct hybrid_layer *l, struct weight_set *set,
                                            int32_t layer, struct error *err)
{
    const struct {
        const struct weight **out;
        const char *name;
        int64_t rows, cols;
        unsigned flags;
    } list[] = {
        { &l->norm, "attn_norm.weight", 1, HYBRID_EMBD, 0 },
        { &l->qkv, "attn_qkv.weight", HYBRID_CHANNELS, HYBRID_EMBD, 0 },
        { &l->conv, "ssm_conv1d.weight", HYBRID_CHANNELS, HYBRID_TAPS, WEIGHT_LOOKUP },
        { &l->alpha, "ssm_alpha.weight", HYBRID_VALUES, HYBRID_EMBD, 0 },
        { &l->beta, "ssm_beta.weight", HYBRID_VALUES, HYBRID_EMBD, 0 },
        { &l->a, "ssm_a", 1, HYBRID_VALUES, 0 },
        { &l->dt, "ssm_dt.bias", 1, HYBRID_VALUES, 0 },
        { &l->inner_norm, "ssm_norm.weight", 1, HYBRID_DIM, 0 },
        { &l->out, "ssm_out.weight", HYBRID_EMBD, HYBRID_INNER, 0 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        TRY(weight_set_bind(set, list[i].out, list[i].name, NULL, layer, list[i].rows, list[i].cols,
                            list[i].flags, err));
    return STATUS_OK;
}

static inline enum status hybrid_bind(struct model *m, struct weight_set *set, struct error *err)
{
    struct hybrid *h = m->impl;
    TRY(head_bind(&h->head, set, &h->shape, 0, err));
    for (int32_t i = 0; i < HYBRID_LAYERS; i++) {
        if (hybrid_attends(i))
            TRY(attention_bind(&h->layer[i].attention, set, &h->shape, i, 0, 0, err));
        else
            TRY(hybrid_bind_delta(&h->layer[i], set, i, err));
        TRY(ffn_bind(&h->layer[i].ffn, set, &h->shape, i, "", 0, err));
    }
    return STATUS_OK;
}

/* h += W_out norm(delta(conv(W_qkv rms(h)))) */
static inline enum status hybrid_delta_block(const struct model *m, struct step *s,
                                             struct tensor *h, const struct hybrid_layer *l,
                                             const struct state_view *state)
{
    const struct hybrid *p = m->impl;
    int64_t n = h->dim[0];
    size_t mark = step_mark(s);
    struct tensor x, qkv, mixed, alpha, beta, out;
    TRY(step_alloc(s, &x, TENSOR_TYPE_F32, n, HYBRID_EMBD));
    TRY(step_alloc(s, &qkv, TENSOR_TYPE_F32, n, HYBRID_CHANNELS));
    TRY(step_alloc(s, &mixed, TENSOR_TYPE_F32, n, HYBRID_CHANNELS));
    TRY(step_alloc(s, &alpha, TENSOR_TYPE_F32, n, HYBRID_VALUES));
    TRY(step_alloc(s, &beta, TENSOR_TYPE_F32, n, HYBRID_VALUES));
    TRY(step_alloc(s, &out, TENSOR_TYPE_F32, n, HYBRID_INNER));
    TRY(op_rms_norm(s, &x, h, l->norm, p->shape.eps));
    const struct linear_item items[] = { { qkv, l->qkv, NULL },
                                         { alpha, l->alpha, NULL },
                                         { beta, l->beta, NULL } };
    TRY(op_linear_group(s, &x, 3, items, NULL));
    const struct causal_conv conv = {
        .w = l->conv,
        .dilation = 1,
        .silu = true,
        .state = { state->fixed[l->window], m->state.piece[l->window].fixed_bytes },
    };
    TRY(op_causal_conv(s, &mixed, &qkv, &conv));
    const int64_t n_keys = (int64_t)HYBRID_KEYS * HYBRID_DIM;
    struct tensor q = tensor_columns(&mixed, 0, n_keys);
    struct tensor k = tensor_columns(&mixed, n_keys, n_keys);
    struct tensor v = tensor_columns(&mixed, 2 * n_keys, HYBRID_INNER);
    struct tensor heads = tensor_split(&out, HYBRID_VALUES, HYBRID_DIM);
    const struct delta_net net = {
        .q = tensor_split(&q, HYBRID_KEYS, HYBRID_DIM),
        .k = tensor_split(&k, HYBRID_KEYS, HYBRID_DIM),
        .v = tensor_split(&v, HYBRID_VALUES, HYBRID_DIM),
        .decay = alpha,
        .beta = beta,
        .a = l->a,
        .a_factor = 1,
        .bias = l->dt,
        .scale = 1.0f / sqrtf(HYBRID_DIM),
        .l2_eps = 1e-6f,
        .tiled = true,
        .state = { state->fixed[l->matrix], m->state.piece[l->matrix].fixed_bytes },
    };
    TRY(op_delta_net(s, &heads, &net));
    TRY(op_rms_norm(s, &heads, &heads, l->inner_norm, p->shape.eps));
    TRY(op_linear(s, h, &out, l->out, &(struct linear_options){ .add = true }));
    step_release(s, mark);
    return STATUS_OK;
}

static inline enum status hybrid_forward(const struct model *m, struct step *s,
                                         const struct state_view *state, struct forward_result *out)
{
    const struct hybrid *p = m->impl;
    const struct attention_settings attention = {
        .shape = &p->shape,
        .rope = &p->rope,
        .options = { .scale = 1.0f / sqrtf((float)p->shape.k_dim) }
    };
    struct tensor h;
    TRY(step_alloc(s, &h, TENSOR_TYPE_F32, s->batch->n_rows, HYBRID_EMBD));
    TRY(op_embed(s, &h, p->head.embedding, s->batch->token, 1));
    for (int32_t i = 0; i < HYBRID_LAYERS; i++) {
        const struct hybrid_layer *l = &p->layer[i];
        if (hybrid_attends(i))
            TRY(attention_block(s, &h, &h, &l->attention, &attention, &state->kv[l->kv], true));
        else
            TRY(hybrid_delta_block(m, s, &h, l, state));
        TRY(ffn_block(s, &h, &h, &l->ffn, &p->shape, ACTIVATION_SILU, true));
    }
    return head_block(s, out, &h, &p->head, &p->shape, 0);
}

static const struct model_family hybrid_family = {
    .name = "hybrid",
    .architectures = (const char *const[]){ "hybrid", NULL },
    .model_types = (const char *const[]){ "hybrid", NULL },
    .read_config = hybrid_read_config,
    .bind = hybrid_bind,
    .forward = hybrid_forward,
};

/* --- its file ------------------------------------------------------------------------------- */

struct hybrid_tensor {
    char name[64];
    int64_t rows, cols; /* rows 0: a vector */
    float fill, spread; /* value +- spread */
};

struct hybrid_file {
    struct hybrid_tensor tensor[64];
    int n;
};

static inline void hybrid_add(struct hybrid_file *f, int32_t layer, const char *name, int64_t rows,
                              int64_t cols, float fill, float spread)
{
    struct hybrid_tensor *t = &f->tensor[f->n++];
    *t = (struct hybrid_tensor){ .rows = rows, .cols = cols, .fill = fill, .spread = spread };
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
}

static inline void hybrid_list(struct hybrid_file *f)
{
    const float wide = 0.3f;
    const int64_t inner = HYBRID_HEADS * HYBRID_HEAD;
    hybrid_add(f, -1, "token_embd.weight", HYBRID_VOCAB, HYBRID_EMBD, 0, 1);
    for (int32_t i = 0; i < HYBRID_LAYERS; i++) {
        hybrid_add(f, i, "attn_norm.weight", 0, HYBRID_EMBD, 1, 0.1f);
        if (hybrid_attends(i)) {
            hybrid_add(f, i, "attn_q.weight", inner, HYBRID_EMBD, 0, wide);
            hybrid_add(f, i, "attn_k.weight", HYBRID_HEAD, HYBRID_EMBD, 0, wide);
            hybrid_add(f, i, "attn_v.weight", HYBRID_HEAD, HYBRID_EMBD, 0, wide);
            hybrid_add(f, i, "attn_output.weight", HYBRID_EMBD, inner, 0, wide);
        } else {
            hybrid_add(f, i, "attn_qkv.weight", HYBRID_CHANNELS, HYBRID_EMBD, 0, wide);
            hybrid_add(f, i, "ssm_conv1d.weight", HYBRID_CHANNELS, HYBRID_TAPS, 0, 0.8f);
            hybrid_add(f, i, "ssm_alpha.weight", HYBRID_VALUES, HYBRID_EMBD, 0, wide);
            hybrid_add(f, i, "ssm_beta.weight", HYBRID_VALUES, HYBRID_EMBD, 0, wide);
            hybrid_add(f, i, "ssm_a", 0, HYBRID_VALUES, -0.05f, 0.04f);
            hybrid_add(f, i, "ssm_dt.bias", 0, HYBRID_VALUES, 0, 0.5f);
            hybrid_add(f, i, "ssm_norm.weight", 0, HYBRID_DIM, 1, 0.1f);
            hybrid_add(f, i, "ssm_out.weight", HYBRID_EMBD, HYBRID_INNER, 0, wide);
        }
        hybrid_add(f, i, "ffn_norm.weight", 0, HYBRID_EMBD, 1, 0.1f);
        hybrid_add(f, i, "ffn_gate.weight", HYBRID_FF, HYBRID_EMBD, 0, wide);
        hybrid_add(f, i, "ffn_up.weight", HYBRID_FF, HYBRID_EMBD, 0, wide);
        hybrid_add(f, i, "ffn_down.weight", HYBRID_EMBD, HYBRID_FF, 0, wide);
    }
    hybrid_add(f, -1, "output_norm.weight", 0, HYBRID_EMBD, 1, 0.1f);
    hybrid_add(f, -1, "output.weight", HYBRID_VOCAB, HYBRID_EMBD, 0, wide);
}

static inline enum status hybrid_write_tensors(struct gguf_writer *w, const struct hybrid_file *f,
                                               struct error *err)
{
    for (int i = 0; i < f->n; i++) {
        const struct hybrid_tensor *t = &f->tensor[i];
        const int64_t dim[] = { t->rows ? t->rows : t->cols, t->cols };
        TRY(gguf_writer_declare(w, str_of(t->name), TENSOR_TYPE_F32, t->rows ? 2 : 1, dim, err));
    }
    for (int i = 0; i < f->n; i++) {
        const struct hybrid_tensor *t = &f->tensor[i];
        for (int64_t k = 0; k < MAX(t->rows, 1) * t->cols; k++) {
            double u = 2 * rng_uniform(1, (uint64_t)i, (uint64_t)k) - 1;
            float value = t->fill + t->spread * (float)u;
            TRY(gguf_writer_write(w, &value, sizeof value, err));
        }
    }
    return STATUS_OK;
}

static inline enum status hybrid_write(struct gguf_writer **w, const char *path, struct error *err)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        { "hybrid.block_count", HYBRID_LAYERS },
        { "hybrid.embedding_length", HYBRID_EMBD },
        { "hybrid.feed_forward_length", HYBRID_FF },
        { "hybrid.attention.head_count", HYBRID_HEADS },
        { "hybrid.attention.head_count_kv", 1 },
        { "hybrid.attention.key_length", HYBRID_HEAD },
        { "hybrid.attention.value_length", HYBRID_HEAD },
        { "hybrid.context_length", 4096 },
    };
    struct hybrid_file f = { 0 };
    hybrid_list(&f);
    TRY(gguf_writer_open(w, path, 0, err));
    TRY(gguf_writer_put_str(*w, "general.architecture", STR("hybrid"), err));
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        TRY(gguf_writer_put_u32(*w, numbers[i].key, numbers[i].value, err));
    TRY(hybrid_write_tensors(*w, &f, err));
    return gguf_writer_finish(*w, err);
}

/* The path of a file that the caller unlinks; borrowed from a static buffer. */
static inline const char *hybrid_make_file(void)
{
    static char path[64];
    struct gguf_writer *w = NULL;
    struct error err = { 0 };
    snprintf(path, sizeof path, "/tmp/ingot-hybrid-%ld.gguf", (long)getpid());
    enum status status = hybrid_write(&w, path, &err);
    gguf_writer_free(w);
    if (status != STATUS_OK)
        fail_msg("%s", err.message);
    return path;
}

#endif
