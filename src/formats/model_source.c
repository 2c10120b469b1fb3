#include "formats/model_source.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/safetensors.h"

#define MAX_GENERATION_CONFIG_BYTES ((size_t)1 << 20)

/* What users see, and what it points to. */
struct storage {
    struct model_source source;
    struct gguf gguf;
    struct hf_config hf;
    struct weight_file safetensors;
    json_t *generation_config; /* the one beside a GGUF */
};

static enum status load_generation_config_beside(struct storage *s, struct error *err)
{
    struct strbuf path;
    strbuf_init(&path, 65536);
    const char *slash = strrchr(s->source.path, '/');
    if (slash)
        strbuf_append(&path, s->source.path, (size_t)(slash - s->source.path) + 1);
    strbuf_puts(&path, "generation_config.json");
    enum status status = STATUS_OK;
    if (file_exists(path.ptr))
        status = json_parse_file(path.ptr, MAX_GENERATION_CONFIG_BYTES,
                                 JSON_STRICT_UTF8 | JSON_PYTHON_NUMBERS, &s->generation_config,
                                 err);
    if (status == STATUS_OK && s->generation_config && !json_is_object(s->generation_config))
        status = error_set(err, STATUS_INVALID, "%s: expected a JSON object", path.ptr);
    strbuf_release(&path);
    s->source.generation_config = s->generation_config;
    return status;
}

static enum status open_gguf(struct storage *s, const char *path, struct error *err)
{
    s->source.kind = MODEL_SOURCE_GGUF;
    s->source.path = mem_string(path, strlen(path));
    TRY(gguf_open(&s->gguf, path, err));
    s->source.gguf = &s->gguf;
    s->source.config.gguf = &s->gguf;
    if (s->gguf.weights.n_tensors)
        s->source.weights = &s->gguf.weights;
    return load_generation_config_beside(s, err);
}

static enum status open_folder(struct storage *s, const char *path, struct error *err)
{
    s->source.kind = MODEL_SOURCE_HF;
    TRY(hf_resolve_folder(path, &s->source.path, err));
    TRY(hf_config_open(&s->hf, s->source.path, err));
    s->source.hf = &s->hf;
    s->source.config.json = s->hf.config;
    s->source.generation_config = s->hf.generation_config;
    enum status status = safetensors_open_folder(&s->safetensors, s->source.path, err);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK; /* configuration or tokenizer alone */
    if (status == STATUS_OK && s->safetensors.n_tensors)
        s->source.weights = &s->safetensors;
    return status;
}

static enum status open_tensors(struct storage *s, const char *path,
                                enum status (*open)(struct weight_file *, const char *,
                                                    struct error *), struct error *err)
{
    s->source.kind = MODEL_SOURCE_TENSORS;
    s->source.path = mem_string(path, strlen(path));
    TRY(open(&s->safetensors, path, err));
    if (s->safetensors.n_tensors)
        s->source.weights = &s->safetensors;
    return STATUS_OK;
}

static enum status open_any(struct storage *s, const char *path, struct error *err)
{
    struct str name = str_of(path);
    if (file_is_directory(path))
        return open_folder(s, path, err);
    if (!file_exists(path))
        return error_set(err, STATUS_NOT_FOUND, "%s: no such file or folder", path);
    if (str_ends(name, STR(".safetensors")))
        return open_tensors(s, path, safetensors_open, err);
    if (str_ends(name, STR(".safetensors.index.json")))
        return open_tensors(s, path, safetensors_open_index, err);
    if (str_ends(name, STR(".json"))) {
        s->source.kind = MODEL_SOURCE_TOKENIZER;
        s->source.path = mem_string(path, strlen(path));
        return STATUS_OK;
    }
    return open_gguf(s, path, err);
}

enum status model_source_open(struct model_source **out, const char *path, struct error *err)
{
    struct storage *s = mem_new(struct storage);
    enum status status = open_any(s, path, err);
    *out = status == STATUS_OK ? &s->source : NULL;
    if (status != STATUS_OK)
        model_source_free(&s->source);
    return status;
}

enum status model_source_read_in(struct model_source *source, struct error *err)
{
    struct storage *s = (struct storage *)source; /* its first member */
    TRY(weight_file_read_in(&s->gguf.weights, err));
    return weight_file_read_in(&s->safetensors, err);
}

void model_source_free(struct model_source *source)
{
    if (!source)
        return;
    struct storage *s = (struct storage *)source; /* its first member */
    gguf_close(&s->gguf);
    hf_config_close(&s->hf);
    weight_file_close(&s->safetensors);
    json_decref(s->generation_config);
    mem_free(s->source.path);
    mem_free(s);
}

enum status model_source_need_weights(const struct model_source *s, struct error *err)
{
    if (s->kind == MODEL_SOURCE_TENSORS)
        return error_set(err, STATUS_NOT_FOUND, "%s: weights alone: give the folder that holds it "
                         "and its config.json", s->path);
    if (s->weights)
        return STATUS_OK;
    static const char *const what[] = {
        [MODEL_SOURCE_GGUF] = "a GGUF without tensors",
        [MODEL_SOURCE_HF] = "a folder without .safetensors files",
        [MODEL_SOURCE_TOKENIZER] = "a tokenizer alone",
    };
    return error_set(err, STATUS_NOT_FOUND, "%s: has no weights, it is %s", s->path,
                     what[s->kind]);
}
