#include "engine/model_defaults.h"

#include "formats/model_source.h"

static double field_value(const struct sampling *s, enum sampling_field field)
{
    switch (field) {
#define FIELD_GET(name, type, value, low, high) \
    case SAMPLING_##name:                       \
        return (double)s->name;
        SAMPLING_FIELDS(FIELD_GET)
#undef FIELD_GET
    default:
        return 0.0;
    }
}

/* false: out of range */
static bool field_set(struct sampling *s, enum sampling_field field, double value)
{
    switch (field) {
#define FIELD_SET(name, type, default_value, low, high) \
    case SAMPLING_##name:                               \
        if (!(value >= (low) && value <= (high)))       \
            return false;                               \
        s->name = (type)value;                          \
        return true;
        SAMPLING_FIELDS(FIELD_SET)
#undef FIELD_SET
    default:
        return false;
    }
}

static void take(struct model_defaults *d, enum sampling_field field, double value,
                 const char *source, const char *key, const struct log_sink *log)
{
    if (field_set(&d->sampling, field, value))
        d->source[field] = source;
    else
        log_write(log, LOG_WARNING, "%s: %s = %g is out of range, %g is used", source, key, value,
                  field_value(&d->sampling, field));
}

static void read_gguf(struct model_defaults *d, const struct gguf *g, const struct log_sink *log)
{
    static const struct {
        const char *key;
        enum sampling_field field;
    } rows[] = {
        { "general.sampling.temp", SAMPLING_temperature },
        { "general.sampling.top_k", SAMPLING_top_k },
        { "general.sampling.top_p", SAMPLING_top_p },
        { "general.sampling.min_p", SAMPLING_min_p },
        { "general.sampling.penalty_repeat", SAMPLING_repetition_penalty },
        { "general.sampling.penalty_last_n", SAMPLING_penalty_window },
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct gguf_value *v = gguf_find(g, rows[i].key);
        double value;
        if (v && !v->is_array && gguf_value_f64(v, 0, &value))
            take(d, rows[i].field, value, "gguf", rows[i].key, log);
    }
}

static void read_generation_config(struct model_defaults *d, const json_t *config,
                                   const struct log_sink *log)
{
    static const char *const names[SAMPLING_N_FIELDS] = {
#define FIELD_NAME(name, type, value, low, high) [SAMPLING_##name] = #name,
        SAMPLING_FIELDS(FIELD_NAME)
#undef FIELD_NAME
    };
    for (int i = 0; i < SAMPLING_N_FIELDS; i++) {
        const json_t *v = json_object_get(config, names[i]);
        if (json_is_number(v))
            take(d, (enum sampling_field)i, json_number_value(v), "generation_config", names[i],
                 log);
    }
    if (json_is_false(json_object_get(config, "do_sample")))
        take(d, SAMPLING_temperature, 0.0, "generation_config", "do_sample", log);
    const json_t *most = json_object_get(config, "max_new_tokens");
    if (json_is_integer(most) && json_integer_value(most) > 0 &&
        json_integer_value(most) <= INT32_MAX)
        d->max_tokens = (int32_t)json_integer_value(most);
}

void model_defaults_read(struct model_defaults *d, const struct model_source *source,
                         const struct log_sink *log)
{
    *d = (struct model_defaults){ .sampling = sampling_builtin };
    for (int i = 0; i < SAMPLING_N_FIELDS; i++)
        d->source[i] = "built-in";
    if (source->gguf)
        read_gguf(d, source->gguf, log);
    if (source->generation_config)
        read_generation_config(d, source->generation_config, log);
}

static void add_end(struct token_list *out, int64_t id, int32_t n_vocab)
{
    if (id < 0 || id >= n_vocab)
        return;
    for (size_t i = 0; i < out->n; i++)
        if (out->ids[i] == id)
            return;
    token_list_add(out, (int32_t)id);
}

static void add_json(struct token_list *out, const json_t *config, int32_t n_vocab)
{
    const json_t *v = json_object_get(config, "eos_token_id");
    if (json_is_integer(v))
        add_end(out, json_integer_value(v), n_vocab);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (json_is_integer(json_array_get(v, i)))
            add_end(out, json_integer_value(json_array_get(v, i)), n_vocab);
}

/* The spellings that end a turn in one family or another, for when no tokenizer is built. */
static void search_vocabulary(struct token_list *out, const struct gguf *g, int32_t n_vocab)
{
    static const char *const spellings[] = {
        "<|im_end|>", "<|ifm|im_end|>", "<|endoftext|>", "<turn|>", "<eos>", "<|eot_id|>",
        "<end_of_turn>",
    };
    const struct gguf_value *tokens;
    if (gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, NULL) != STATUS_OK)
        return;
    struct gguf_string_iter it = gguf_strings_begin(tokens);
    int32_t id = 0;
    for (struct str s; gguf_strings_next(&it, &s); id++) {
        if (s.len < 5 || s.ptr[0] != '<' || s.ptr[s.len - 1] != '>')
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
            if (str_is(s, spellings[i]))
                add_end(out, id, n_vocab);
    }
}

void model_end_tokens(const struct model_source *source, const struct tokenizer *tokenizer,
                      int32_t n_vocab, struct token_list *out)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",
    };
    for (size_t i = 0; source->gguf && i < ARRAY_SIZE(keys); i++) {
        const struct gguf_value *v = gguf_find(source->gguf, keys[i]);
        int64_t id;
        if (v && gguf_value_i64(v, 0, &id))
            add_end(out, id, n_vocab);
    }
    if (tokenizer) {
        const int32_t *ids;
        size_t n = tokenizer_stop_ids(tokenizer, &ids);
        for (size_t i = 0; i < n; i++)
            add_end(out, ids[i], n_vocab);
    } else if (source->gguf) {
        search_vocabulary(out, source->gguf, n_vocab);
    }
    if (source->generation_config)
        add_json(out, source->generation_config, n_vocab);
    if (source->hf && source->hf->config)
        add_json(out, source->hf->config, n_vocab);
}
