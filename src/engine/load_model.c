#include "engine/load_model.h"

#include <string.h>

#include "base/mem.h"
#include "engine/kv_learning.h"
#include "engine/load_text.h"
#include "engine/memory_lock.h"
#include "engine/model_defaults.h"
#include "engine/model_sizes.h"
#include "engine/scheduler.h"
#include "formats/model_source.h"
#include "text/template/chat_template.h"

static const char *source_basename(const char *path, size_t *n)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    *n = end - begin;
    return path + begin;
}

static char *name_of(const struct model_source *source)
{
    struct str name;
    if (source->gguf && gguf_get_str(source->gguf, "general.name", &name, NULL) == STATUS_OK &&
        name.len > 0)
        return mem_string(name.ptr, name.len);
    size_t n;
    const char *base = source_basename(source->path, &n);
    if (n > 5 && memcmp(base + n - 5, ".gguf", 5) == 0)
        n -= 5;
    return mem_string(base, n);
}

/* The type that most bytes of the weights have. */
static const char *main_type(const struct weight_file *f)
{
    size_t best = 0;
    enum tensor_type type = TENSOR_TYPE_F32;
    for (size_t i = 0; i < f->n_tensors; i++) {
        size_t bytes = 0;
        for (size_t k = 0; k < f->n_tensors; k++)
            if (f->tensors[k].type == f->tensors[i].type)
                bytes += f->tensors[k].n_bytes;
        if (bytes > best) {
            best = bytes;
            type = f->tensors[i].type;
        }
        if (i > 64)
            break; /* every type that matters appears in the first layers */
    }
    return tensor_type_name(type);
}

static int64_t file_bytes(const struct weight_file *f)
{
    int64_t all = 0;
    for (size_t i = 0; i < f->n_parts; i++)
        all += (int64_t)f->parts[i].size;
    return all;
}

static void fill_info(struct engine_model *m)
{
    const struct model_shape *shape = &m->model->shape;
    struct engine_model_info *info = &m->info;
    info->path = m->source->path;
    info->name = m->name;
    info->family = m->model->family->name;
    info->type_name = main_type(m->source->weights);
    info->tokenizer = m->tokenizer;
    info->chat = m->chat;
    info->chat_is_fallback = m->chat && chat_template_is_fallback(m->chat);
    info->context_trained = shape->context_length;
    info->n_vocab = shape->n_vocab;
    info->n_parameters = shape->n_parameters;
    info->file_bytes = file_bytes(m->source->weights);
    info->model = m->model;
}

static void fill_defaults(struct engine_model *m, const struct log_sink *log)
{
    struct model_defaults defaults;
    model_defaults_read(&defaults, m->source, log);
    m->info.defaults = defaults.sampling;
    memcpy(m->info.default_source, defaults.source, sizeof(defaults.source));
    m->info.default_max_tokens = defaults.max_tokens;
    struct token_list ends = { 0 };
    model_end_tokens(m->source, m->tokenizer, m->model->shape.n_vocab, &ends);
    m->end_tokens = ends.ids;
    m->info.end_tokens = ends.ids;
    m->info.n_end_tokens = (int32_t)ends.n;
}

/* What seems free and is not: the loaded models will come to use it. */
static int64_t promised_bytes(const struct engine *e)
{
    int64_t bytes = 0;
    for (const struct engine_model *m = e->models; m; m = m->next)
        bytes += scheduler_untouched(m->scheduler);
    return bytes;
}

static enum status check_weights_fit(struct engine *e, const struct model_source *source,
                                     struct device *dev, struct error *err)
{
    int64_t resident, mapped;
    TRY(model_plan_bytes(source, e->options.family, dev, &resident, &mapped, err));
    if (e->options.no_mmap)
        resident += file_bytes(source->weights);
    return model_sizes_check_weights(resident, promised_bytes(e), err);
}

static enum status load_weights(struct engine *e, struct engine_model *m, struct device *dev,
                                const struct model_progress *progress, struct error *err)
{
    if (progress)
        TRY(check_weights_fit(e, m->source, dev, err));
    if (progress && e->options.no_mmap)
        TRY(model_source_read_in(m->source, err));
    return model_load(m->source, e->options.family, dev, &m->model, progress, err);
}

static enum status take_state(struct engine_model *m, struct device *dev, bool plan,
                              struct error *err)
{
    struct model_sizes *sizes = &m->sizes;
    TRY(state_pool_new(&m->model->state, dev, &sizes->state, &m->pool, err));
    TRY(pass_measure(m->model, m->engine->dev, m->pool, sizes->pass, &sizes->scratch_bytes, err));
    sizes->kv_bytes = m->pool->bytes;
    sizes->weight_bytes = m->model->weight_bytes;
    m->info.context = sizes->state.context;
    m->info.n_sequences = sizes->state.n_sequences;
    m->info.kv_bytes = sizes->kv_bytes;
    m->info.weight_bytes = sizes->weight_bytes;
    m->info.scratch_bytes = (int64_t)sizes->scratch_bytes;
    if (plan)
        return STATUS_OK;
    TRY(kv_learn(m->model, m->tokenizer, m->pool, sizes->pass, sizes->scratch_bytes, err));
    return scheduler_new(m, &m->scheduler, err);
}

static enum status fill(struct engine *e, struct device *dev, const char *path,
                        const struct model_progress *progress, struct engine_model *m,
                        struct error *err)
{
    bool plan = !progress;
    TRY(model_source_open(&m->source, path, err));
    TRY(model_source_need_weights(m->source, err));
    TRY(load_weights(e, m, dev, progress, err));
    if (!plan && !e->options.no_text)
        TRY(load_text(&e->options, m->source, &m->tokenizer, &m->chat, err));
    m->name = name_of(m->source);
    fill_info(m);
    fill_defaults(m, plan ? NULL : e->options.log);
    TRY(model_sizes_choose(&e->options, m->model, dev, promised_bytes(e), &m->sizes, err));
    TRY(take_state(m, dev, plan, err));
    if (!plan && e->options.mlock)
        TRY(memory_lock_model(m, err));
    return STATUS_OK;
}

/* A file that somebody cuts while it is read can fail anywhere, or nowhere: what the reader met
 * is not what is wrong. */
static enum status check_whole(const struct model_source *source, enum status status,
                               struct error *err)
{
    const struct weight_file *file = source ? source->weights : NULL;
    if (!file || !(weight_file_damaged(file) || weight_file_changed(file)))
        return status;
    return error_set(err, STATUS_IO, "%s: the file was cut short or written to while it was read",
                     source->path);
}

enum status load_model(struct engine *e, struct device *dev, const char *path,
                       const struct model_progress *progress, struct engine_model **out,
                       struct error *err)
{
    struct engine_model *m = mem_new(struct engine_model);
    m->engine = e;
    enum status status = fill(e, dev, path, progress, m, err);
    status = check_whole(m->source, status, err);
    if (status != STATUS_OK) {
        load_model_free(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void load_model_free(struct engine_model *m)
{
    if (!m)
        return;
    scheduler_free(m->scheduler);
    state_pool_free(m->pool);
    model_free(m->model);
    chat_template_free(m->chat);
    tokenizer_free(m->tokenizer);
    model_source_free(m->source);
    mem_free(m->name);
    mem_free(m->end_tokens);
    mem_free(m);
}
