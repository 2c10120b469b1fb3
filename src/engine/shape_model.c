#include "engine/shape_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "engine/quantize_recipe.h"
#include "formats/gguf_write.h"
#include "quant/quantize.h"

#define POOL_ELEMENTS 262144 /* quantized once; tensors are runs of its blocks */
#define RUN_BYTES 65536      /* about that much of a tensor is copied from one place */
#define MAX_TENSORS 8192
#define WEIGHT_DEVIATION 0.02
#define SEED 1

struct shape {
    const char *name, *architecture; /* architecture NULL: no family of this version */
    int n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, context;
    float rope_base, eps;
    bool tied, head_norms, biases;
};

static const struct shape shapes[] = {
    { "smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5f, 1e-5f, true, false,
      false },
    { "llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 5e5f, 1e-5f, false,
      false, false },
    { "qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, 1e6f, 1e-6f, false, false,
      true },
    { "qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6f, 1e-6f, true, true,
      false },
    { "qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 40960, 1e6f, 1e-6f, true, true,
      false },
    { "qwen3-8b", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 40960, 1e6f, 1e-6f, false, true,
      false },
    { .name = "qwen3.5-35b-a3b" },
};

struct shape_tensor {
    char name[64];
    enum tensor_type type;
    int n_dims;
    int64_t dim[2];
    float fill; /* all elements, unless NAN: random */
};

/* Quantized random blocks of one type. */
struct block_pool {
    enum tensor_type type;
    uint8_t *bytes;
    size_t n_bytes;
};

struct shape_job {
    struct shape shape;
    struct quantize_recipe recipe;
    struct gguf_writer *out;
    struct shape_tensor *tensors;
    size_t n_tensors;
    float *values; /* [POOL_ELEMENTS] of a normal distribution */
    struct block_pool pool[8];
    size_t n_pools;
    uint64_t n_runs;
};

static enum status unknown_shape(struct str name, struct error *err)
{
    struct strbuf list;
    strbuf_init(&list, 1024);
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
        if (shapes[i].architecture)
            strbuf_printf(&list, "%s%s", list.len ? ", " : "", shapes[i].name);
    enum status s = error_set(err, STATUS_UNSUPPORTED, "no shape %.*s; there are %s", STR_ARG(name),
                              list.ptr);
    strbuf_release(&list);
    return s;
}

static const struct shape *find_shape(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
        if (str_is(name, shapes[i].name))
            return &shapes[i];
    return NULL;
}

/* Cuts "-L4" off the name; 0: it has none. */
static int64_t take_layers(struct str *name)
{
    for (size_t at = name->len; at > 1; at--) {
        int64_t n;
        if (name->ptr[at - 1] != 'L' || name->ptr[at - 2] != '-')
            continue;
        if (!number_parse_i64(str_slice(*name, at, name->len), &n))
            return 0;
        name->len = at - 2;
        return n;
    }
    return 0;
}

static enum status parse(struct str spec, struct shape *shape, struct quantize_recipe *recipe,
                         struct error *err)
{
    size_t colon = str_find(spec, STR(":"), 0);
    if (colon == STR_NONE)
        return error_set(err, STATUS_INVALID, "shape: expected NAME:QUANT or NAME-Lk:QUANT, found "
                         "'%.*s'", STR_ARG(spec));
    struct str name = str_slice(spec, 0, colon);
    const struct shape *found = find_shape(name);
    int64_t n_layers = 0;
    if (!found) {
        n_layers = take_layers(&name);
        found = find_shape(name);
    }
    if (!found)
        return unknown_shape(name, err);
    if (!found->architecture)
        return error_set(err, STATUS_UNSUPPORTED, "shape %s: no family of this version computes "
                         "that network", found->name);
    *shape = *found;
    if (n_layers < 0 || n_layers > shape->n_layers ||
        (n_layers == 0 && name.len != colon))
        return error_set(err, STATUS_INVALID, "shape %s: expected 1 to %d layers, found %lld",
                         shape->name, shape->n_layers, (long long)n_layers);
    if (n_layers > 0)
        shape->n_layers = (int)n_layers;
    return quantize_recipe_named(recipe, str_slice(spec, colon + 1, spec.len), err);
}

enum status shape_model_check(struct str spec, struct error *err)
{
    struct shape shape;
    struct quantize_recipe recipe;
    return parse(spec, &shape, &recipe, err);
}

static void add(struct shape_job *j, int layer, const char *name, int64_t n_rows, int64_t n_cols,
                float fill)
{
    struct shape_tensor *t = &j->tensors[j->n_tensors++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
    t->n_dims = n_rows ? 2 : 1;
    t->dim[0] = n_rows ? n_rows : n_cols;
    t->dim[1] = n_cols;
    t->fill = fill;
    t->type = TENSOR_TYPE_F32;
    if (!n_rows)
        return;
    struct weight_tensor w = { .name = str_of(t->name), .type = TENSOR_TYPE_F32, .n_dims = 2,
                               .dim = { n_rows, n_cols } };
    const char *reason;
    t->type = quantize_recipe_type(&j->recipe, &w, &reason);
}

static void list_tensors(struct shape_job *j)
{
    const struct shape *s = &j->shape;
    int64_t n_embd = s->n_embd, n_q = (int64_t)s->n_heads * s->head_dim;
    int64_t n_kv = (int64_t)s->n_kv_heads * s->head_dim;
    add(j, -1, "token_embd.weight", s->n_vocab, n_embd, NAN);
    for (int i = 0; i < s->n_layers; i++) {
        add(j, i, "attn_norm.weight", 0, n_embd, 1.0f);
        add(j, i, "attn_q.weight", n_q, n_embd, NAN);
        add(j, i, "attn_k.weight", n_kv, n_embd, NAN);
        add(j, i, "attn_v.weight", n_kv, n_embd, NAN);
        add(j, i, "attn_output.weight", n_embd, n_q, NAN);
        if (s->head_norms) {
            add(j, i, "attn_q_norm.weight", 0, s->head_dim, 1.0f);
            add(j, i, "attn_k_norm.weight", 0, s->head_dim, 1.0f);
        }
        if (s->biases) {
            add(j, i, "attn_q.bias", 0, n_q, 0.0f);
            add(j, i, "attn_k.bias", 0, n_kv, 0.0f);
            add(j, i, "attn_v.bias", 0, n_kv, 0.0f);
        }
        add(j, i, "ffn_norm.weight", 0, n_embd, 1.0f);
        add(j, i, "ffn_gate.weight", s->n_ff, n_embd, NAN);
        add(j, i, "ffn_up.weight", s->n_ff, n_embd, NAN);
        add(j, i, "ffn_down.weight", n_embd, s->n_ff, NAN);
    }
    add(j, -1, "output_norm.weight", 0, n_embd, 1.0f);
    if (!s->tied)
        add(j, -1, "output.weight", s->n_vocab, n_embd, NAN);
}

static enum status put_u32(struct shape_job *j, const char *name, int value, struct error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", j->shape.architecture, name);
    return gguf_writer_put_u32(j->out, key, (uint32_t)value, err);
}

static enum status put_f32(struct shape_job *j, const char *name, float value, struct error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", j->shape.architecture, name);
    return gguf_writer_put_f32(j->out, key, value, err);
}

static enum status put_metadata(struct shape_job *j, struct str spec, struct error *err)
{
    const struct shape *s = &j->shape;
    TRY(gguf_writer_put_str(j->out, "general.architecture", str_of(s->architecture), err));
    TRY(gguf_writer_put_str(j->out, "general.name", spec, err));
    if (j->recipe.file_type >= 0)
        TRY(gguf_writer_put_u32(j->out, "general.file_type", (uint32_t)j->recipe.file_type, err));
    TRY(put_u32(j, "block_count", s->n_layers, err));
    TRY(put_u32(j, "embedding_length", s->n_embd, err));
    TRY(put_u32(j, "feed_forward_length", s->n_ff, err));
    TRY(put_u32(j, "attention.head_count", s->n_heads, err));
    TRY(put_u32(j, "attention.head_count_kv", s->n_kv_heads, err));
    TRY(put_u32(j, "attention.key_length", s->head_dim, err));
    TRY(put_u32(j, "attention.value_length", s->head_dim, err));
    TRY(put_u32(j, "rope.dimension_count", s->head_dim, err));
    TRY(put_u32(j, "vocab_size", s->n_vocab, err));
    TRY(put_u32(j, "context_length", s->context, err));
    TRY(put_f32(j, "rope.freq_base", s->rope_base, err));
    return put_f32(j, "attention.layer_norm_rms_epsilon", s->eps, err);
}

/* The sum of three uniform numbers is normal enough, and never far out. */
static void fill_values(struct shape_job *j)
{
    j->values = mem_array(float, POOL_ELEMENTS);
    for (size_t i = 0; i < POOL_ELEMENTS; i++) {
        struct rng_block r = rng_philox(SEED, i, 0);
        double sum = ((double)r.word[0] + r.word[1] + r.word[2]) / 4294967296.0 - 1.5;
        j->values[i] = (float)(sum * 2.0 * WEIGHT_DEVIATION);
    }
}

static enum status find_pool(struct shape_job *j, enum tensor_type type,
                             const struct block_pool **out, struct error *err)
{
    for (size_t i = 0; i < j->n_pools; i++) {
        *out = &j->pool[i];
        if (j->pool[i].type == type)
            return STATUS_OK;
    }
    struct block_pool *p = &j->pool[j->n_pools];
    bool weighs = tensor_type_info(type)->flags & TENSOR_TYPE_NEEDS_IMPORTANCE;
    if (j->n_pools == ARRAY_SIZE(j->pool) ||
        !tensor_type_row_bytes(type, POOL_ELEMENTS, &p->n_bytes))
        return error_set(err, STATUS_INTERNAL, "shape: no room for type %s",
                         tensor_type_name(type));
    float *ones = mem_array(float, POOL_ELEMENTS);
    for (size_t i = 0; i < POOL_ELEMENTS; i++)
        ones[i] = 1.0f;
    p->type = type;
    p->bytes = mem_alloc(p->n_bytes);
    j->n_pools++;
    *out = p;
    enum status s = quantize_rows(type, j->values, weighs ? ones : NULL, 1, POOL_ELEMENTS,
                                  p->bytes, err);
    mem_free(ones);
    return s;
}

static enum status write_random(struct shape_job *j, const struct shape_tensor *t,
                                struct error *err)
{
    const struct block_pool *pool = NULL;
    size_t left;
    TRY(find_pool(j, t->type, &pool, err));
    size_t block = (size_t)tensor_type_info(t->type)->block_bytes;
    if (!tensor_type_row_bytes(t->type, t->dim[0] * t->dim[1], &left))
        return error_set(err, STATUS_INTERNAL, "shape: tensor %s has no size", t->name);
    size_t run = RUN_BYTES / block * block;
    while (left > 0) {
        size_t n = MIN(run, left);
        uint64_t starts = (pool->n_bytes - n) / block + 1;
        uint64_t at = rng_philox(SEED, j->n_runs++, 1).word[0] % starts;
        TRY(gguf_writer_write(j->out, pool->bytes + at * block, n, err));
        left -= n;
    }
    return STATUS_OK;
}

static enum status write_tensor(struct shape_job *j, const struct shape_tensor *t,
                                struct error *err)
{
    if (isnan(t->fill))
        return write_random(j, t, err);
    float *values = mem_array(float, (size_t)t->dim[0]);
    for (int64_t i = 0; i < t->dim[0]; i++)
        values[i] = t->fill;
    enum status s = gguf_writer_write(j->out, values, (size_t)t->dim[0] * sizeof *values, err);
    mem_free(values);
    return s;
}

static enum status write_all(struct shape_job *j, struct str spec, const char *path,
                             bool (*progress)(void *, size_t, size_t), void *user,
                             struct error *err)
{
    j->recipe.n_layers = j->shape.n_layers;
    j->recipe.has_output = !j->shape.tied;
    list_tensors(j);
    fill_values(j);
    TRY(gguf_writer_open(&j->out, path, 0, err));
    TRY(put_metadata(j, spec, err));
    for (size_t i = 0; i < j->n_tensors; i++) {
        const struct shape_tensor *t = &j->tensors[i];
        TRY(gguf_writer_declare(j->out, str_of(t->name), t->type, t->n_dims, t->dim, err));
    }
    for (size_t i = 0; i < j->n_tensors; i++) {
        if (progress && progress(user, i, j->n_tensors))
            return error_set(err, STATUS_CANCELLED, "interrupted");
        TRY(write_tensor(j, &j->tensors[i], err));
    }
    return gguf_writer_finish(j->out, err);
}

enum status shape_model_write(struct str spec, const char *path,
                              bool (*progress)(void *user, size_t done, size_t all), void *user,
                              struct error *err)
{
    struct shape_job *j = mem_new(struct shape_job);
    j->tensors = mem_array(struct shape_tensor, MAX_TENSORS);
    enum status s = parse(spec, &j->shape, &j->recipe, err);
    if (s == STATUS_OK)
        s = write_all(j, spec, path, progress, user, err);
    gguf_writer_free(j->out);
    for (size_t i = 0; i < j->n_pools; i++)
        mem_free(j->pool[i].bytes);
    mem_free(j->values);
    mem_free(j->tensors);
    mem_free(j);
    return s;
}
