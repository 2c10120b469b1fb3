#include "cli/inspect_report.h"

#include <math.h>

#include "base/utf8.h"
#include "models/family.h"

#define MAX_TEXT_BYTES (64u << 20)

static json_t *text_json(struct str s)
{
    json_t *value = json_stringn(s.ptr ? s.ptr : "", s.len);
    if (value)
        return value;
    struct strbuf repaired; /* elements of arrays are not checked when a file is opened */
    strbuf_init(&repaired, MAX_TEXT_BYTES);
    utf8_repair(&repaired, s);
    value = json_stringn(repaired.ptr ? repaired.ptr : "", repaired.len);
    strbuf_release(&repaired);
    return value;
}

static json_t *real_json(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* A number of a value; unsigned ones beyond 2^63 - 1 become reals. */
static json_t *number_json(const struct gguf_value *v, uint64_t index)
{
    int64_t i;
    uint64_t u;
    double x;
    bool truth;
    if (v->type == GGUF_BOOL)
        return gguf_value_bool(v, index, &truth) ? json_boolean(truth) : json_null();
    if (v->type == GGUF_F32 || v->type == GGUF_F64)
        return gguf_value_f64(v, index, &x) ? real_json(x) : json_null();
    if (gguf_value_i64(v, index, &i))
        return json_integer(i);
    return gguf_value_u64(v, index, &u) ? json_real((double)u) : json_null();
}

static json_t *array_json(const struct gguf_value *v)
{
    json_t *first = json_array();
    uint64_t n = MIN(v->count, INSPECT_ARRAY_SHOWN);
    if (v->type == GGUF_STRING) {
        struct gguf_string_iter it = gguf_strings_begin(v);
        struct str s;
        for (uint64_t i = 0; i < n && gguf_strings_next(&it, &s); i++)
            json_array_append_new(first, text_json(s));
    } else if (v->type != GGUF_ARRAY) {
        for (uint64_t i = 0; i < n; i++)
            json_array_append_new(first, number_json(v, i));
    }
    return json_pack("{s:s, s:I, s:o}", "array_of", gguf_type_name(v->type), "count",
                     (json_int_t)v->count, "first", first);
}

static json_t *value_json(const struct gguf_value *v)
{
    struct str s;
    if (v->is_array)
        return array_json(v);
    if (v->type == GGUF_STRING)
        return gguf_value_str(v, &s) ? text_json(s) : json_null();
    return number_json(v, 0);
}

static json_t *metadata_json(const struct model_source *source)
{
    if (!source->gguf)
        return source->config.json ? json_deep_copy(source->config.json) : json_object();
    json_t *all = json_object();
    for (size_t i = 0; i < source->gguf->n_pairs; i++) {
        const struct gguf_pair *p = &source->gguf->pairs[i];
        json_object_setn_new(all, p->key.ptr, p->key.len, value_json(&p->value));
    }
    return all;
}

static json_t *tensors_json(const struct weight_file *f)
{
    json_t *all = json_array();
    for (size_t i = 0; f && i < f->n_tensors; i++) {
        const struct weight_tensor *t = &f->tensors[i];
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dims; d++)
            json_array_append_new(shape, json_integer(t->dim[d]));
        json_array_append_new(all, json_pack("{s:o, s:s, s:o, s:I}", "name", text_json(t->name),
                                             "type", tensor_type_name(t->type), "shape", shape,
                                             "bytes", (json_int_t)t->n_bytes));
    }
    return all;
}

static void add_to(json_t *object, const char *key, json_int_t n)
{
    json_object_set_new(object, key,
                        json_integer(json_integer_value(json_object_get(object, key)) + n));
}

/* Bytes, elements and number of tensors by type, in order of first appearance. */
static json_t *types_json(const struct weight_file *f)
{
    json_t *types = json_object();
    for (size_t i = 0; f && i < f->n_tensors; i++) {
        const char *name = tensor_type_name(f->tensors[i].type);
        json_t *row = json_object_get(types, name);
        if (!row) {
            row = json_object();
            json_object_set_new(types, name, row);
        }
        add_to(row, "tensors", 1);
        add_to(row, "elements", weight_tensor_elements(&f->tensors[i]));
        add_to(row, "bytes", (json_int_t)f->tensors[i].n_bytes);
    }
    return types;
}

static bool is_embedding(struct str name)
{
    return str_is(name, "token_embd.weight") || str_ends(name, STR("embed_tokens.weight"));
}

static void add_counts(json_t *report, const struct weight_file *f)
{
    int64_t bytes = 0, all = 0, embedding = 0;
    for (size_t i = 0; f && i < f->n_parts; i++)
        bytes += (int64_t)f->parts[i].size;
    for (size_t i = 0; f && i < f->n_tensors; i++) {
        int64_t n = weight_tensor_elements(&f->tensors[i]);
        all += n;
        embedding += is_embedding(f->tensors[i].name) ? n : 0;
    }
    json_object_set_new(report, "parts", json_integer(f ? (json_int_t)f->n_parts : 0));
    json_object_set_new(report, "file_bytes", json_integer(bytes));
    json_object_set_new(report, "n_tensors", json_integer(f ? (json_int_t)f->n_tensors : 0));
    json_object_set_new(report, "parameters", json_integer(all));
    json_object_set_new(report, "embedding_parameters", json_integer(embedding));
}

/* Kind and size of the vocabulary, from headers alone. */
static json_t *tokenizer_json(const struct model_source *source)
{
    struct str kind, pre = { 0 };
    const struct gguf_value *tokens;
    json_t *file = NULL;
    if (source->gguf) {
        if (gguf_get_str(source->gguf, "tokenizer.ggml.model", &kind, NULL) != STATUS_OK)
            return json_null();
        bool has_pre = gguf_get_str(source->gguf, "tokenizer.ggml.pre", &pre, NULL) == STATUS_OK;
        uint64_t n = 0;
        if (gguf_get_array(source->gguf, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, NULL) ==
            STATUS_OK)
            n = tokens->count;
        return json_pack("{s:o, s:o, s:I}", "kind", text_json(kind), "pre",
                         has_pre ? text_json(pre) : json_null(), "tokens", (json_int_t)n);
    }
    enum status s = source->hf ? hf_config_load_tokenizer(source->hf, &file, NULL)
                               : json_parse_file(source->path, MAX_TEXT_BYTES, 0, &file, NULL);
    if (s != STATUS_OK)
        return json_null();
    json_t *model = json_object_get(file, "model");
    json_t *vocab = json_object_get(model, "vocab");
    size_t n = json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab);
    kind = json_str(json_object_get(model, "type"));
    json_t *out = json_pack("{s:o, s:n, s:I}", "kind", kind.ptr ? text_json(kind) : json_null(),
                            "pre", "tokens", (json_int_t)n);
    json_decref(file);
    return out;
}

enum status inspect_template(const struct model_source *source, struct strbuf *out,
                             struct error *err)
{
    struct str text;
    if (source->gguf &&
        gguf_get_str(source->gguf, "tokenizer.chat_template", &text, NULL) == STATUS_OK) {
        strbuf_add(out, text);
        return STATUS_OK;
    }
    if (source->hf)
        return hf_config_chat_template(source->hf, NULL, out, err);
    return error_set(err, STATUS_NOT_FOUND, "%s: no chat template", source->path);
}

/* Which parts of the state have a bounded window, and of what length. */
static int32_t window_of(const struct model *m, int32_t *n_layers)
{
    int32_t window = 0;
    *n_layers = 0;
    for (int32_t i = 0; i < m->state.n_pieces; i++) {
        if (m->state.piece[i].kind != STATE_WINDOW)
            continue;
        window = m->state.piece[i].window;
        ++*n_layers;
    }
    return window;
}

static json_t *geometry_json(const struct model *m)
{
    const struct model_shape *s = &m->shape;
    int32_t n_windowed, window = window_of(m, &n_windowed);
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "layers", s->n_layers,
                     "embedding", s->n_embd, "vocabulary", s->n_vocab, "heads", s->n_heads,
                     "kv_heads", s->n_kv_heads, "head_dim", s->head_dim, "context",
                     s->context_length, "sliding_window", window ? window : s->sliding_window,
                     "sliding_layers", n_windowed);
}

static void add_family(json_t *report, const struct model_source *source)
{
    const struct model_family *family;
    struct model *m = NULL;
    struct error err = { 0 };
    bool known = model_family_find(source, &family, NULL) == STATUS_OK;
    json_object_set_new(report, "family", known ? json_string(family->name) : json_null());
    bool good = known && model_open_config(source, &m, &err) == STATUS_OK;
    json_object_set_new(report, "problem", known && !good ? json_string(err.message) : json_null());
    json_object_set_new(report, "geometry", good ? geometry_json(m) : json_null());
    model_free(m);
}

static const char *format_name(const struct model_source *source)
{
    switch (source->kind) {
    case MODEL_SOURCE_GGUF: return "GGUF";
    case MODEL_SOURCE_HF:
    case MODEL_SOURCE_TENSORS: return "safetensors";
    case MODEL_SOURCE_TOKENIZER: break;
    }
    return "tokenizer.json";
}

json_t *inspect_report(const struct model_source *source)
{
    struct str name, architecture = config_architecture(&source->config);
    json_t *r = json_object();
    json_object_set_new(r, "path", text_json(str_of(source->path)));
    json_object_set_new(r, "format", json_string(format_name(source)));
    json_object_set_new(r, "version",
                        source->gguf ? json_integer(source->gguf->version) : json_null());
    json_object_set_new(r, "alignment",
                        source->gguf ? json_integer(source->gguf->alignment) : json_null());
    bool named = source->gguf &&
                 gguf_get_str(source->gguf, "general.name", &name, NULL) == STATUS_OK;
    json_object_set_new(r, "name", named ? text_json(name) : json_null());
    json_object_set_new(r, "architecture",
                        architecture.len ? text_json(architecture) : json_null());
    add_family(r, source);
    add_counts(r, source->weights);
    json_object_set_new(r, "types", types_json(source->weights));
    json_object_set_new(r, "tokenizer", tokenizer_json(source));
    struct strbuf text;
    strbuf_init(&text, MAX_TEXT_BYTES);
    bool has = inspect_template(source, &text, NULL) == STATUS_OK;
    json_object_set_new(r, "chat_template", json_boolean(has));
    strbuf_release(&text);
    json_object_set_new(r, "metadata", metadata_json(source));
    json_object_set_new(r, "tensors", tensors_json(source->weights));
    return r;
}
