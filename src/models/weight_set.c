#include "models/weight_set.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "quant/dequant.h"
#include "tensor/device.h"

/* --- names -------------------------------------------------------------------------------- */

struct tensor_name {
    char text[160];
    struct str s;
};

static struct tensor_name name_of(const struct weight_set *set, const char *gguf, const char *hf,
                                  int layer)
{
    struct tensor_name n = { .text = "" };
    bool is_gguf = set->source->kind == MODEL_SOURCE_GGUF;
    if (is_gguf && gguf && layer >= 0)
        snprintf(n.text, sizeof n.text, "blk.%d.%s", layer, gguf);
    else if (is_gguf && gguf)
        snprintf(n.text, sizeof n.text, "%s", gguf);
    else if (!is_gguf && hf && layer >= 0)
        snprintf(n.text, sizeof n.text, "%slayers.%d.%s", set->prefix, layer, hf);
    else if (!is_gguf && hf && hf[0] == '=')
        snprintf(n.text, sizeof n.text, "%s%s", set->root, hf + 1);
    else if (!is_gguf && hf)
        snprintf(n.text, sizeof n.text, "%s%s", set->prefix, hf);
    return n;
}

static const struct weight_tensor *find(const struct weight_set *set, const char *gguf,
                                        const char *hf, int layer)
{
    struct tensor_name n = name_of(set, gguf, hf, layer);
    return n.text[0] ? weight_file_find(set->file, str_of(n.text)) : NULL;
}

bool weight_set_has(const struct weight_set *set, const char *gguf, const char *hf, int layer)
{
    return find(set, gguf, hf, layer) != NULL;
}

static void choose_prefix(struct weight_set *set)
{
    static const char *const known[][2] = {
        { "model.", "" },
        { "model.language_model.", "" },
        { "language_model.model.", "language_model." },
        { "", "" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        char name[64];
        snprintf(name, sizeof name, "%sembed_tokens.weight", known[i][0]);
        bool found = weight_file_find(set->file, str_of(name)) != NULL;
        if (found || i == 0) { /* without any, messages name the usual one */
            snprintf(set->prefix, sizeof set->prefix, "%s", known[i][0]);
            snprintf(set->root, sizeof set->root, "%s", known[i][1]);
        }
        if (found)
            return;
    }
}

/* --- the set ------------------------------------------------------------------------------ */

enum status weight_set_init(struct weight_set *set, const struct model_source *source,
                            struct model *model, struct device *dev, struct error *err)
{
    *set = (struct weight_set){ .source = source, .model = model, .dev = dev };
    TRY(model_source_need_weights(source, err));
    set->file = source->weights;
    set->used = mem_array(bool, set->file->n_tensors + 1);
    for (size_t i = 0; i < set->file->n_tensors; i++)
        set->bytes_all += (int64_t)set->file->tensors[i].n_bytes;
    if (source->kind == MODEL_SOURCE_HF)
        choose_prefix(set);
    return STATUS_OK;
}

void weight_set_release(struct weight_set *set)
{
    mem_free(set->used);
    set->used = NULL;
}

static bool belongs_to_layers(const struct weight_set *set, struct str name)
{
    if (set->source->kind == MODEL_SOURCE_GGUF)
        return str_starts(name, STR("blk."));
    struct str prefix = str_of(set->prefix);
    return str_starts(name, prefix) &&
           str_starts(str_slice(name, prefix.len, name.len), STR("layers."));
}

/* Tables that some converters keep and that follow from the configuration. */
static bool is_harmless(struct str name)
{
    return str_ends(name, STR("rotary_emb.inv_freq")) ||
           str_ends(name, STR("attn_rot_embd.weight"));
}

enum status weight_set_finish(struct weight_set *set, struct error *err)
{
    for (size_t i = 0; i < set->file->n_tensors; i++) {
        struct str name = set->file->tensors[i].name;
        if (!set->used[i] && belongs_to_layers(set, name) && !is_harmless(name))
            return error_set(err, STATUS_UNSUPPORTED,
                             "%.*s: the %s family has no such tensor, or not in layer form",
                             STR_ARG(name), set->model->family->name);
    }
    return STATUS_OK;
}

/* --- one weight --------------------------------------------------------------------------- */

static bool type_supported(enum tensor_type type)
{
    if (type == TENSOR_TYPE_F32 || type == TENSOR_TYPE_F16 || type == TENSOR_TYPE_BF16)
        return true;
    const struct tensor_type_info *info = tensor_type_info(type);
    return info && (info->flags & TENSOR_TYPE_QUANTIZED) && type != TENSOR_TYPE_NVFP4 &&
           !(info->flags & TENSOR_TYPE_ACTIVATION_ONLY);
}

static void shape_text(const struct weight_tensor *t, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < t->n_dims && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    if (n < size)
        snprintf(out + n, size - n, "]");
}

static enum status check(const struct weight_set *set, const struct weight_tensor *t,
                         int64_t n_rows, int64_t n_cols, struct error *err)
{
    if (!type_supported(t->type))
        return error_set(err, STATUS_UNSUPPORTED,
                         "%.*s: expected F32, F16, BF16 or a quantized type, found %s, which is "
                         "not supported as a weight",
                         STR_ARG(t->name), tensor_type_name(t->type));
    /* Leading dimensions of 1 say nothing. */
    int first = 0;
    while (t->n_dims - first > 2 && t->dim[first] == 1)
        first++;
    int n = t->n_dims - first;
    int64_t rows = n == 2 ? t->dim[first] : 1, cols = n >= 1 ? t->dim[t->n_dims - 1] : 1;
    if (n <= 2 && rows == n_rows && cols == n_cols)
        return STATUS_OK;
    char found[128];
    shape_text(t, found, sizeof found);
    if (n_rows == 1)
        return error_set(err, STATUS_INVALID, "%.*s in %s: expected shape [%lld], found %s",
                         STR_ARG(t->name), weight_tensor_path(set->file, t), (long long)n_cols,
                         found);
    return error_set(err, STATUS_INVALID, "%.*s in %s: expected shape [%lld, %lld], found %s",
                     STR_ARG(t->name), weight_tensor_path(set->file, t), (long long)n_rows,
                     (long long)n_cols, found);
}

/* A quantized safetensors model has other names beside the missing one: those say what it is. */
static enum status missing(const struct weight_set *set, struct str name, struct error *err)
{
    static const char *const other[] = { "_packed", "_scale", "_scale_inv" };
    for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
        char text[192];
        snprintf(text, sizeof text, "%.*s%s", STR_ARG(name), other[i]);
        const struct weight_tensor *t = weight_file_find(set->file, str_of(text));
        if (t)
            return error_set(err, STATUS_UNSUPPORTED, "%s: %s weights are not supported", text,
                             tensor_type_name(t->type));
    }
    return error_set(err, STATUS_NOT_FOUND, "%s: tensor %.*s is missing", set->source->path,
                     STR_ARG(name));
}

static struct weight *remember(struct weight_set *set, const struct weight_tensor *t,
                               int64_t n_rows, int64_t n_cols)
{
    struct model *m = set->model;
    if (m->n_weights == set->capacity) {
        int32_t capacity = MAX(256, 2 * set->capacity);
        struct weight **list = arena_array(&m->arena, struct weight *, (size_t)capacity);
        if (m->n_weights)
            memcpy(list, m->weights, (size_t)m->n_weights * sizeof *list);
        m->weights = list;
        set->capacity = capacity;
    }
    struct weight *w = arena_array(&m->arena, struct weight, 1);
    *w = (struct weight){ .name = t->name, .type = t->type, .n_experts = 1, .n_rows = n_rows,
                          .n_cols = n_cols, .scale = { .tensor_factor = 1 } };
    m->weights[m->n_weights++] = w;
    m->shape.n_parameters += n_rows * n_cols;
    m->shape.n_active_parameters += n_rows * n_cols;
    return w;
}

static enum status load_plus_one(struct weight_set *set, struct weight *w,
                                 const struct weight_tensor *t, struct error *err)
{
    float *values = mem_alloc((size_t)w->n_cols * sizeof(float));
    dequant_row(t->type, t->bytes, values, w->n_cols);
    for (int64_t i = 0; i < w->n_cols; i++)
        values[i] += 1.0f;
    w->type = TENSOR_TYPE_F32;
    const struct weight_bytes from = { .data = values, .n = (size_t)w->n_cols * sizeof(float) };
    enum status s = set->dev->ops->weight_load(set->dev, w, &from, err);
    mem_free(values);
    if (!w->owned)
        w->data = NULL; /* a planning device keeps only the address, and never looks there */
    return s;
}

struct mapped_tensor {
    const struct weight_file *file;
    const struct weight_tensor *tensor;
};

/* So that no more of the file than what is being read stays in memory beside its copy. */
static void forget(void *user, size_t offset, size_t n)
{
    const struct mapped_tensor *m = user;
    weight_file_forget(m->file, m->tensor, offset, n);
}

static enum status load(struct weight_set *set, struct weight *w, const struct weight_tensor *t,
                        unsigned flags, struct error *err)
{
    struct mapped_tensor mapped = { set->file, t };
    const struct weight_bytes from = { t->bytes, t->n_bytes, forget, &mapped };
    if (flags & WEIGHT_PLUS_ONE)
        TRY(load_plus_one(set, w, t, err));
    else
        TRY(set->dev->ops->weight_load(set->dev, w, &from, err));
    set->model->weight_bytes += (int64_t)w->bytes;
    if (w->owned)
        weight_file_forget(set->file, t, 0, t->n_bytes);
    set->bytes_done += (int64_t)t->n_bytes;
    if (set->progress && set->progress->report)
        set->progress->report(set->progress->user, set->bytes_done, set->bytes_all);
    return STATUS_OK;
}

static void plan(struct weight_set *set, const struct weight *w, const struct weight_tensor *t)
{
    size_t bytes = set->dev->ops->weight_bytes(set->dev, w);
    set->planned_bytes += (int64_t)bytes;
    if (!bytes)
        set->mapped_bytes += (int64_t)t->n_bytes;
}

enum status weight_set_bind(struct weight_set *set, const struct weight **out, const char *gguf,
                            const char *hf, int layer, int64_t n_rows, int64_t n_cols,
                            unsigned flags, struct error *err)
{
    *out = NULL;
    const struct weight_tensor *t = find(set, gguf, hf, layer);
    if (!t && flags & WEIGHT_OPTIONAL)
        return STATUS_OK;
    if (!t) {
        struct tensor_name n = name_of(set, gguf, hf, layer);
        return missing(set, str_of(n.text), err);
    }
    TRY(check(set, t, n_rows, n_cols, err));
    set->used[t - set->file->tensors] = true;
    if (set->source->kind == MODEL_SOURCE_GGUF)
        flags &= ~(unsigned)WEIGHT_PLUS_ONE;
    struct weight *w = remember(set, t, n_rows, n_cols);
    w->lookup = flags & WEIGHT_LOOKUP;
    *out = w;
    if (set->plan) {
        plan(set, w, t);
        return STATUS_OK;
    }
    return load(set, w, t, flags, err);
}

enum status weight_set_numbers(struct weight_set *set, const char *gguf, const char *hf, int layer,
                               float *out, int64_t n, bool *found, struct error *err)
{
    const struct weight_tensor *t = find(set, gguf, hf, layer);
    *found = t != NULL;
    if (!t)
        return STATUS_OK;
    TRY(check(set, t, 1, n, err));
    set->used[t - set->file->tensors] = true;
    dequant_row(t->type, t->bytes, out, n);
    return STATUS_OK;
}
