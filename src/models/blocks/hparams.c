#include "models/blocks/hparams.h"

#include <stdio.h>
#include <string.h>

#define MAX_LAYERS 512
#define MAX_WIDTH (1 << 20)

/* An integer key; `otherwise` 0: required. */
static enum status get(const struct model_source *s, const char *gguf, const char *hf, int32_t high,
                       int32_t otherwise, int32_t *out, struct error *err)
{
    if (otherwise)
        return config_get_i32_or(&s->config, gguf, hf, 1, high, otherwise, out, err);
    return config_get_i32(&s->config, gguf, hf, 1, high, out, err);
}

/* In a GGUF the table itself says how many tokens there are. */
static enum status read_vocabulary(struct hparams *h, const struct model_source *s,
                                   int32_t otherwise, struct error *err)
{
    const struct weight_tensor *table =
        h->gguf && s->weights ? weight_file_find(s->weights, STR("token_embd.weight")) : NULL;
    if (table && table->n_dims == 2 && table->dim[0] >= 1 && table->dim[0] <= INT32_MAX) {
        h->n_vocab = (int32_t)table->dim[0];
        return STATUS_OK;
    }
    return get(s, "vocab_size", "vocab_size", INT32_MAX, otherwise, &h->n_vocab, err);
}

static enum status read_heads(struct hparams *h, const struct model_source *s,
                              const struct hparam_defaults *d, struct error *err)
{
    TRY(get(s, "attention.head_count", "num_attention_heads", 4096, d->n_heads, &h->n_heads, err));
    TRY(get(s, "attention.head_count_kv", "num_key_value_heads", 4096,
            !h->gguf && d->n_kv_heads ? d->n_kv_heads : h->n_heads, &h->n_kv_heads, err));
    if (h->n_heads % h->n_kv_heads)
        return error_set(err, STATUS_INVALID,
                         "%s: expected heads to be a multiple of key heads, found %d and %d",
                         s->path, h->n_heads, h->n_kv_heads);
    int32_t otherwise = !h->gguf && d->head_dim ? d->head_dim : MAX(1, h->n_embd / h->n_heads);
    TRY(get(s, "attention.key_length", "head_dim", MAX_WIDTH, otherwise, &h->k_dim, err));
    return get(s, "attention.value_length", NULL, MAX_WIDTH, h->gguf ? otherwise : h->k_dim,
               &h->v_dim, err);
}

enum status hparams_read(struct hparams *h, const struct model_source *s,
                         const struct hparam_defaults *d, struct error *err)
{
    const struct config_source *c = &s->config;
    *h = (struct hparams){ .gguf = s->kind == MODEL_SOURCE_GGUF };
    bool hf = !h->gguf; /* a GGUF states all sizes */
    TRY(get(s, "block_count", "num_hidden_layers", MAX_LAYERS, hf ? d->n_layers : 0, &h->n_layers,
            err));
    TRY(get(s, "embedding_length", "hidden_size", MAX_WIDTH, hf ? d->n_embd : 0, &h->n_embd, err));
    TRY(get(s, "feed_forward_length", "intermediate_size", MAX_WIDTH, hf ? d->n_ff : 0, &h->n_ff,
            err));
    TRY(read_heads(h, s, d, err));
    TRY(config_get_i32_or(c, "context_length", "max_position_embeddings", 0, INT32_MAX, d->context,
                          &h->context, err));
    TRY(config_get_f32_or(c, "attention.layer_norm_rms_epsilon", "rms_norm_eps", d->eps, &h->eps,
                          err));
    if (!(h->eps >= 0 && h->eps < 1))
        return error_set(err, STATUS_INVALID, "%s: expected a norm epsilon from 0 to 1, found %g",
                         s->path, (double)h->eps);
    TRY(config_get_bool_or(c, NULL, "tie_word_embeddings", hf && d->tied, &h->tied, err));
    return read_vocabulary(h, s, hf ? d->n_vocab : 0, err);
}

void hparams_to_shape(const struct hparams *h, struct model *m)
{
    m->shape = (struct model_shape){ .n_layers = h->n_layers, .n_embd = h->n_embd,
                                     .n_vocab = h->n_vocab, .n_heads = h->n_heads,
                                     .n_kv_heads = h->n_kv_heads, .head_dim = h->k_dim,
                                     .context_length = h->context };
}

/* Set to something: not absent, false, zero or empty. */
static bool is_set(const struct config_source *c, const char *gguf, const char *hf)
{
    bool flag;
    double number;
    struct str text;
    if (!config_has(c, gguf, hf))
        return false;
    if (config_get_bool(c, gguf, hf, &flag, NULL) == STATUS_OK)
        return flag;
    if (config_get_f64(c, gguf, hf, &number, NULL) == STATUS_OK)
        return number != 0;
    if (config_get_str(c, gguf, hf, &text, NULL) == STATUS_OK)
        return text.len != 0;
    size_t n;
    return config_count(c, gguf, hf, &n, NULL) != STATUS_OK || n != 0;
}

enum status hparams_refuse(const struct model_source *s, const char *const *gguf,
                           const char *const *hf, struct error *err)
{
    bool is_gguf = s->kind == MODEL_SOURCE_GGUF;
    const char *const *key = is_gguf ? gguf : hf;
    for (; key && *key; key++)
        if (is_set(&s->config, is_gguf ? *key : NULL, is_gguf ? NULL : *key))
            return error_set(err, STATUS_UNSUPPORTED, "%s: the key %s is set and not supported",
                             s->path, *key);
    return STATUS_OK;
}

enum status hparams_need_activation(const struct model_source *s, const char *expected,
                                    struct error *err)
{
    struct str found;
    TRY(config_get_str_or(&s->config, NULL, "hidden_activation|hidden_act", str_of(expected),
                          &found, err));
    if (str_is(found, expected))
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "%s: hidden_act: expected %s, found %.*s", s->path,
                     expected, STR_ARG(found));
}

void hparams_declare_kv(const struct hparams *h, struct model *m, const int32_t *window)
{
    m->state.n_pieces = h->n_layers;
    m->state.piece = arena_array(&m->arena, struct state_piece, (size_t)h->n_layers);
    for (int32_t i = 0; i < h->n_layers; i++) {
        struct state_piece *p = &m->state.piece[i];
        snprintf(p->name, sizeof p->name, "blk.%d kv", i);
        p->kind = window && window[i] ? STATE_WINDOW : STATE_PAGED;
        p->layer = i;
        p->n_kv_heads = h->n_kv_heads;
        p->k_dim = h->k_dim;
        p->v_dim = h->v_dim;
        p->window = window ? window[i] : 0;
        m->shape.sliding_window = MAX(m->shape.sliding_window, p->window);
    }
}
