#include "engine/quantize_recipe.h"

#include <strings.h>

#include "base/number.h"
#include "quant/quantize.h"

/* name, base, mixture, general.file_type */
static const struct {
    const char *name;
    enum tensor_type base;
    enum quantize_mixture mixture;
    int file_type;
} recipes[] = {
    { "F32", TENSOR_TYPE_F32, MIXTURE_NONE, 0 },
    { "F16", TENSOR_TYPE_F16, MIXTURE_NONE, 1 },
    { "Q4_0", TENSOR_TYPE_Q4_0, MIXTURE_NONE, 2 },
    { "Q4_1", TENSOR_TYPE_Q4_1, MIXTURE_NONE, 3 },
    { "Q8_0", TENSOR_TYPE_Q8_0, MIXTURE_NONE, 7 },
    { "Q5_0", TENSOR_TYPE_Q5_0, MIXTURE_NONE, 8 },
    { "Q5_1", TENSOR_TYPE_Q5_1, MIXTURE_NONE, 9 },
    { "Q2_K", TENSOR_TYPE_Q2_K, MIXTURE_NONE, 10 },
    { "Q3_K", TENSOR_TYPE_Q3_K, MIXTURE_NONE, 11 },
    { "Q3_K_S", TENSOR_TYPE_Q3_K, MIXTURE_SMALL, 11 },
    { "Q3_K_M", TENSOR_TYPE_Q3_K, MIXTURE_MEDIUM, 12 },
    { "Q3_K_L", TENSOR_TYPE_Q3_K, MIXTURE_LARGE, 13 },
    { "Q4_K", TENSOR_TYPE_Q4_K, MIXTURE_NONE, 14 },
    { "Q4_K_S", TENSOR_TYPE_Q4_K, MIXTURE_SMALL, 14 },
    { "Q4_K_M", TENSOR_TYPE_Q4_K, MIXTURE_MEDIUM, 15 },
    { "Q5_K", TENSOR_TYPE_Q5_K, MIXTURE_NONE, 16 },
    { "Q5_K_S", TENSOR_TYPE_Q5_K, MIXTURE_SMALL, 16 },
    { "Q5_K_M", TENSOR_TYPE_Q5_K, MIXTURE_MEDIUM, 17 },
    { "Q6_K", TENSOR_TYPE_Q6_K, MIXTURE_NONE, 18 },
    { "BF16", TENSOR_TYPE_BF16, MIXTURE_NONE, 32 },
};

/* Small or delicate tensors that stay as they are, although they are matrices: routers, positions,
 * the convolutions and per-channel numbers of recurrent blocks. */
static const char *const delicate[] = {
    "_norm.weight", "ffn_gate_inp", "position_embd.weight", "token_types.weight", "ssm_conv1d",
    "shortconv.conv.weight", "time_mix_", "attn_rel_b", "altup", "laurel", "per_layer_model_proj",
    "indexer.proj",
};

enum status quantize_recipe_named(struct quantize_recipe *r, struct str name, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(recipes); i++) {
        if (name.len == strlen(recipes[i].name) &&
            strncasecmp(name.ptr, recipes[i].name, name.len) == 0) {
            *r = (struct quantize_recipe){ recipes[i].base, recipes[i].mixture,
                                           recipes[i].file_type, 0, false };
            return STATUS_OK;
        }
    }
    enum tensor_type type;
    if (tensor_type_from_name(name, &type) && tensor_type_writable(type)) {
        *r = (struct quantize_recipe){ type, MIXTURE_NONE, -1, 0, false };
        return STATUS_OK;
    }
    struct strbuf list;
    strbuf_init(&list, 1024);
    tensor_type_list_writable(&list);
    enum status s = error_set(err, STATUS_UNSUPPORTED,
                              "cannot write type %.*s; writable types: %s; mixtures: Q3_K_S, "
                              "Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M",
                              STR_ARG(name), list.ptr);
    strbuf_release(&list);
    return s;
}

/* N of "blk.N."; -1: the tensor belongs to no layer. */
static int64_t layer_of(struct str name)
{
    int64_t layer;
    if (!str_starts(name, STR("blk.")))
        return -1;
    size_t dot = str_find(name, STR("."), 4);
    if (dot == STR_NONE || !number_parse_i64(str_slice(name, 4, dot), &layer) || layer < 0)
        return -1;
    return layer;
}

void quantize_recipe_fit(struct quantize_recipe *r, const struct weight_file *f)
{
    r->n_layers = 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        r->n_layers = MAX(r->n_layers, layer_of(f->tensors[i].name) + 1);
    r->has_output = weight_file_find(f, STR("output.weight")) != NULL;
}

/* The first and last eighth of the layers and every third between. */
static bool wants_more_bits(int64_t layer, int64_t n_layers)
{
    int64_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

static bool has(struct str name, struct str part)
{
    return str_find(name, part, 0) != STR_NONE;
}

/* What the mixtures of Q4_K and Q5_K give to attn_v and ffn_down. */
static enum tensor_type k4_or_k5(const struct quantize_recipe *r, int64_t layer, bool is_value)
{
    if (r->mixture == MIXTURE_MEDIUM)
        return wants_more_bits(layer, r->n_layers) ? TENSOR_TYPE_Q6_K : r->base;
    if (r->base != TENSOR_TYPE_Q4_K)
        return r->base;
    int64_t first = is_value ? 4 : r->n_layers / 8;
    return layer < first ? TENSOR_TYPE_Q5_K : r->base;
}

static enum tensor_type k3(const struct quantize_recipe *r, int64_t layer, bool is_value)
{
    if (r->mixture == MIXTURE_SMALL)
        return r->base;
    if (r->mixture == MIXTURE_LARGE)
        return TENSOR_TYPE_Q5_K;
    return layer < (is_value ? 2 : r->n_layers / 16) ? TENSOR_TYPE_Q5_K : TENSOR_TYPE_Q4_K;
}

static enum tensor_type mixed_type(const struct quantize_recipe *r, struct str name)
{
    int64_t layer = layer_of(name);
    bool is_head = str_is(name, "output.weight") ||
                   (!r->has_output && str_is(name, "token_embd.weight"));
    bool is_value = has(name, STR("attn_v.weight"));
    if (is_head)
        return TENSOR_TYPE_Q6_K;
    if (is_value || has(name, STR("ffn_down")))
        return r->base == TENSOR_TYPE_Q3_K ? k3(r, layer, is_value) : k4_or_k5(r, layer, is_value);
    if (has(name, STR("attn_qkv.weight")) && r->mixture != MIXTURE_SMALL)
        return r->base == TENSOR_TYPE_Q3_K   ? TENSOR_TYPE_Q4_K
               : r->base == TENSOR_TYPE_Q4_K ? TENSOR_TYPE_Q5_K
                                             : TENSOR_TYPE_Q6_K;
    if (has(name, STR("attn_output.weight")) && r->base == TENSOR_TYPE_Q3_K)
        return r->mixture == MIXTURE_LARGE    ? TENSOR_TYPE_Q5_K
               : r->mixture == MIXTURE_MEDIUM ? TENSOR_TYPE_Q4_K
                                              : r->base;
    return r->base;
}

/* A type of about as many bits whose block is 32 long; F16 where not even that divides the row. */
static enum tensor_type narrower_block(enum tensor_type type, int64_t n_cols)
{
    if (n_cols % 32 != 0)
        return TENSOR_TYPE_F16;
    switch (type) {
    case TENSOR_TYPE_Q4_K: return TENSOR_TYPE_Q5_0;
    case TENSOR_TYPE_Q5_K: return TENSOR_TYPE_Q5_1;
    case TENSOR_TYPE_Q6_K: return TENSOR_TYPE_Q8_0;
    default: return TENSOR_TYPE_Q4_0;
    }
}

enum tensor_type quantize_recipe_type(const struct quantize_recipe *r,
                                      const struct weight_tensor *t, const char **reason)
{
    const struct tensor_type_info *from = tensor_type_info(t->type);
    *reason = NULL;
    if (from->flags & TENSOR_TYPE_INTEGER || t->type == TENSOR_TYPE_F64) {
        *reason = "has numbers of a kind that is not converted";
        return t->type;
    }
    if (r->base == TENSOR_TYPE_F32)
        return TENSOR_TYPE_F32;
    if (t->n_dims < 2 || !str_ends(t->name, STR("weight"))) {
        *reason = "is no matrix";
        return t->type;
    }
    for (size_t i = 0; i < ARRAY_SIZE(delicate); i++) {
        if (has(t->name, str_of(delicate[i]))) {
            *reason = "is small and delicate";
            return t->type;
        }
    }
    enum tensor_type type = r->mixture == MIXTURE_NONE ? r->base : mixed_type(r, t->name);
    int64_t n_cols = t->dim[t->n_dims - 1];
    if (n_cols % tensor_type_info(type)->block_elements == 0)
        return type;
    *reason = "has rows that are no multiple of the block";
    return narrower_block(type, n_cols);
}
