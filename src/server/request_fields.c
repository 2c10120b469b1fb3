#include "server/request_fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "base/strbuf.h"
#include "engine/drafter.h"
#include "engine/session_file.h"

const json_t *field_get(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

enum status field_bool(const json_t *body, const char *name, bool *out, struct error *err)
{
    const json_t *value = field_get(body, name);
    if (!value)
        return STATUS_OK;
    if (!json_is_boolean(value))
        return error_set(err, STATUS_INVALID, "%s: expected true or false", name);
    *out = json_is_true(value);
    return STATUS_OK;
}

/* A number as Python prints it. */
static const char *put_number(char *buffer, size_t n, const json_t *number)
{
    struct strbuf text;
    strbuf_init(&text, 256);
    if (json_is_integer(number))
        strbuf_printf(&text, "%lld", (long long)json_integer_value(number));
    else
        number_put_double(&text, json_real_value(number));
    snprintf(buffer, n, "%s", text.ptr);
    strbuf_release(&text);
    return buffer;
}

enum status field_int(const json_t *body, const char *name, int64_t low, int64_t high, int64_t *out,
                      struct error *err)
{
    const json_t *value = field_get(body, name);
    if (!value)
        return STATUS_OK;
    char found[40];
    double real = json_number_value(value);
    if (!json_is_number(value) || real != floor(real))
        return error_set(err, STATUS_INVALID, "%s: expected a whole number", name);
    if (real < (double)low || real > (double)high)
        return error_set(err, STATUS_INVALID, "%s: expected %lld to %lld, found %s", name,
                         (long long)low, (long long)high, put_number(found, sizeof found, value));
    *out = json_is_integer(value) ? json_integer_value(value) : (int64_t)real;
    return STATUS_OK;
}

enum status field_double(const json_t *body, const char *name, double low, double high, double *out,
                         struct error *err)
{
    const json_t *value = field_get(body, name);
    if (!value)
        return STATUS_OK;
    if (!json_is_number(value))
        return error_set(err, STATUS_INVALID, "%s: expected a number", name);
    char found[40];
    double real = json_number_value(value);
    if (!(real >= low && real <= high))
        return error_set(err, STATUS_INVALID, "%s: expected %.15g to %.15g, found %s", name, low,
                         high, put_number(found, sizeof found, value));
    *out = real;
    return STATUS_OK;
}

static enum status read_double(const json_t *body, const char *name, double low, double high,
                               double *out, struct error *err)
{
    return field_double(body, name, low, high, out, err);
}

static enum status read_int32_t(const json_t *body, const char *name, double low, double high,
                                int32_t *out, struct error *err)
{
    int64_t value = *out;
    TRY(field_int(body, name, (int64_t)low, (int64_t)high, &value, err));
    *out = (int32_t)value;
    return STATUS_OK;
}

/* Other spellings of the sampling settings that llama.cpp's clients use. */
static const char *alias_of(const char *name)
{
    static const char *const aliases[][2] = {
        { "repetition_penalty", "repeat_penalty" },
        { "penalty_window", "repeat_last_n" },
        { "typical_p", "typ_p" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (strcmp(aliases[i][0], name) == 0)
            return aliases[i][1];
    return name;
}

static const char *spelling(const json_t *body, const char *name)
{
    return field_get(body, name) ? name : alias_of(name);
}

static enum status read_sampling(const json_t *body, struct request_fields *f, struct error *err)
{
#define READ_FIELD(name, type, value, low, high) \
    if (field_get(body, spelling(body, #name))) { \
        snprintf(f->param, sizeof f->param, "%s", spelling(body, #name)); \
        TRY(read_##type(body, spelling(body, #name), low, high, &f->sampling.name, err)); \
        f->sampling.given |= 1u << SAMPLING_##name; \
    }
    SAMPLING_FIELDS(READ_FIELD)
#undef READ_FIELD
    if ((f->sampling.given & 1u << SAMPLING_top_p) && f->sampling.top_p == 0)
        return error_set(err, STATUS_INVALID, "top_p: expected more than 0, at most 1; found 0");
    return STATUS_OK;
}

/* A negative seed other than -1 is taken as its two's complement, as other servers do. */
static enum status read_seed(const json_t *body, struct str text, struct request_fields *f,
                             struct error *err)
{
    const json_t *seed = field_get(body, "seed");
    if (!seed)
        return STATUS_OK;
    snprintf(f->param, sizeof f->param, "seed");
    if (json_is_integer(seed)) {
        f->sampling.has_seed = json_integer_value(seed) != -1;
        f->sampling.seed = (uint64_t)json_integer_value(seed);
        return STATUS_OK;
    }
    f->sampling.has_seed =
        json_is_real(seed) && json_get_u64(text, body, "seed", &f->sampling.seed);
    if (!f->sampling.has_seed)
        return error_set(err, STATUS_INVALID, "seed: expected a whole number of at most 64 bits");
    return STATUS_OK;
}

static enum status add_stop(struct request_fields *f, const json_t *value, struct error *err)
{
    struct str text = json_str(value);
    if (!json_is_string(value))
        return error_set(err, STATUS_INVALID, "stop: expected a string or a list of strings");
    if (text.len > LIMIT_STOP_BYTES)
        return error_set(err, STATUS_INVALID, "stop: a text of %zu bytes is longer than %d",
                         text.len, LIMIT_STOP_BYTES);
    if (text.len == 0)
        return STATUS_OK;
    if (f->n_stop == LIMIT_STOP_STRINGS)
        return error_set(err, STATUS_INVALID, "stop: more than %d texts", LIMIT_STOP_STRINGS);
    f->stop[f->n_stop++] = text;
    return STATUS_OK;
}

static enum status read_stop(const json_t *body, struct request_fields *f, struct error *err)
{
    const json_t *stop = field_get(body, "stop");
    if (!stop)
        stop = field_get(body, "stop_sequences");
    if (!stop)
        return STATUS_OK;
    snprintf(f->param, sizeof f->param, "stop");
    if (!json_is_array(stop))
        return add_stop(f, stop, err);
    size_t i;
    json_t *item;
    json_array_foreach(stop, i, item) TRY(add_stop(f, item, err));
    return STATUS_OK;
}

static enum status add_bias(struct request_fields *f, int64_t token, const json_t *bias,
                            int32_t n_vocab, struct error *err)
{
    double value = json_is_false(bias) ? -INFINITY : json_number_value(bias);
    if (!json_is_number(bias) && !json_is_false(bias))
        return error_set(err, STATUS_INVALID, "logit_bias: the bias of token %lld is no number",
                         (long long)token);
    if (fabs(value) > LIMIT_BIAS && !json_is_false(bias))
        return error_set(err, STATUS_INVALID,
                         "logit_bias: token %lld: expected %g to %g (or false), found %g",
                         (long long)token, -LIMIT_BIAS, LIMIT_BIAS, value);
    if (token < 0 || token >= n_vocab)
        return error_set(err, STATUS_INVALID,
                         "logit_bias: token %lld is outside the vocabulary of %d", (long long)token,
                         n_vocab);
    if (f->sampling.n_bias == LIMIT_LOGIT_BIAS)
        return error_set(err, STATUS_INVALID, "logit_bias: more than %d entries", LIMIT_LOGIT_BIAS);
    f->bias[f->sampling.n_bias++] = (struct logit_bias){ (int32_t)token, (float)value };
    return STATUS_OK;
}

/* {"15043": 1.5} as OpenAI has it, or [[15043, 1.5], ...] as llama.cpp does. */
static enum status read_bias(const json_t *body, int32_t n_vocab, struct request_fields *f,
                             struct error *err)
{
    const json_t *bias = field_get(body, "logit_bias");
    if (!bias)
        return STATUS_OK;
    snprintf(f->param, sizeof f->param, "logit_bias");
    f->sampling.bias = f->bias;
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(bias)) {
        json_object_foreach((json_t *)bias, key, value)
        {
            int64_t token;
            if (!number_parse_i64(str_of(key), &token))
                return error_set(err, STATUS_INVALID, "logit_bias: '%s' is no token id", key);
            TRY(add_bias(f, token, value, n_vocab, err));
        }
        return STATUS_OK;
    }
    if (!json_is_array(bias))
        return error_set(err, STATUS_INVALID, "logit_bias: expected an object of token ids");
    json_array_foreach(bias, i, value)
    {
        if (json_array_size(value) != 2 || !json_is_integer(json_array_get(value, 0)))
            return error_set(err, STATUS_INVALID, "logit_bias: expected pairs [token, bias]");
        TRY(add_bias(f, json_integer_value(json_array_get(value, 0)), json_array_get(value, 1),
                     n_vocab, err));
    }
    return STATUS_OK;
}

/* A value of 0 or less means "the default", as LangChain and llama.cpp's clients send it. */
static enum status read_max_tokens(const json_t *body, struct request_fields *f, struct error *err)
{
    static const char *const names[] = { "max_completion_tokens", "max_tokens", "n_predict" };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!field_get(body, names[i]))
            continue;
        snprintf(f->param, sizeof f->param, "%s", names[i]);
        int64_t value = 0;
        TRY(field_int(body, names[i], INT64_MIN / 2, INT64_MAX / 2, &value, err));
        f->max_tokens = value <= 0 ? 0 : (int32_t)MIN(value, INT32_MAX);
        break;
    }
    return STATUS_OK;
}

/* Fields that would change the answer: a neutral value passes, anything else is refused. */
static enum status refuse_unsupported(const json_t *body, struct request_fields *f,
                                      struct error *err)
{
    static const struct {
        const char *name;
        double neutral;
    } numbers[] = {
        { "mirostat", 0 },         { "dynatemp_range", 0 }, { "xtc_probability", 0 },
        { "dry_multiplier", 0 },   { "top_n_sigma", -1 },   { "t_max_predict_ms", 0 },
        { "adaptive_target", -1 },
    };
    static const char *const present[] = {
        "samplers", "lora", "grammar", "json_schema", "audio", "web_search_options",
    };
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const json_t *value = field_get(body, numbers[i].name);
        double real = json_number_value(value);
        if (!value || (json_is_number(value) && (real == numbers[i].neutral || real == 0)))
            continue;
        snprintf(f->param, sizeof f->param, "%s", numbers[i].name);
        return error_set(err, STATUS_UNSUPPORTED, "%s is not supported by this server",
                         numbers[i].name);
    }
    for (size_t i = 0; i < ARRAY_SIZE(present); i++) {
        const json_t *value = field_get(body, present[i]);
        bool empty = !value || (json_is_string(value) && json_string_length(value) == 0) ||
                     (json_is_array(value) && json_array_size(value) == 0) || json_is_false(value);
        if (empty)
            continue;
        snprintf(f->param, sizeof f->param, "%s", present[i]);
        return error_set(err, STATUS_UNSUPPORTED, "%s is not supported by this server", present[i]);
    }
    return STATUS_OK;
}

static enum status read_small(const json_t *body, struct request_fields *f, struct error *err)
{
    struct {
        const char *name;
        int64_t low, high, value;
    } numbers[] = {
        { "n", 1, LIMIT_N, 1 },
        { "min_tokens", 0, INT32_MAX, 0 },
        { "priority", 0, 9, -1 },
        { "lookup", 0, DRAFT_MOST, -1 },
    };
    struct {
        const char *name;
        bool *out;
    } switches[] = {
        { "ignore_eos", &f->ignore_eos },
        { "cache_prompt", &f->cache_prompt },
        { "session_strict", &f->session_strict },
        { "stream", &f->stream },
        { "timings_per_token", &f->timings_per_token },
        { "prefill_progress", &f->prefill_progress },
        { "return_progress", &f->prefill_progress },
    };
    f->cache_prompt = true;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        snprintf(f->param, sizeof f->param, "%s", numbers[i].name);
        TRY(field_int(body, numbers[i].name, numbers[i].low, numbers[i].high, &numbers[i].value,
                      err));
    }
    f->n = (int32_t)numbers[0].value;
    f->min_tokens = (int32_t)numbers[1].value;
    f->priority = (int)numbers[2].value;
    if (numbers[3].value >= 0)
        f->lookup = numbers[3].value > 0 ? (int32_t)numbers[3].value : -1;
    for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
        snprintf(f->param, sizeof f->param, "%s", switches[i].name);
        TRY(field_bool(body, switches[i].name, switches[i].out, err));
    }
    const json_t *options = field_get(body, "stream_options");
    snprintf(f->param, sizeof f->param, "stream_options");
    if (options && !json_is_object(options))
        return error_set(err, STATUS_INVALID, "stream_options: expected an object");
    if (options)
        TRY(field_bool(options, "include_usage", &f->include_usage, err));
    return STATUS_OK;
}

static enum status read_session(const json_t *body, struct request_fields *f, struct error *err)
{
    const json_t *name = field_get(body, "session");
    snprintf(f->param, sizeof f->param, name ? "session" : "session_strict");
    if (!name && f->session_strict)
        return error_set(err, STATUS_INVALID, "session_strict: expected a session, too");
    if (!name)
        return STATUS_OK;
    if (!json_is_string(name))
        return error_set(err, STATUS_INVALID, "session: expected a name");
    TRY(session_name_check(json_str(name), err));
    f->session = json_string_value(name);
    if (f->n > 1)
        return error_set(err, STATUS_INVALID, "session: expected n 1, found %d", f->n);
    if (!f->cache_prompt)
        return error_set(err, STATUS_INVALID, "session: nothing is kept with cache_prompt: false");
    return STATUS_OK;
}

enum status request_fields_read(const json_t *body, struct str text, int32_t n_vocab,
                                struct request_fields *f, struct error *err)
{
    TRY(read_small(body, f, err));
    TRY(read_sampling(body, f, err));
    TRY(read_seed(body, text, f, err));
    TRY(read_stop(body, f, err));
    TRY(read_bias(body, n_vocab, f, err));
    TRY(read_max_tokens(body, f, err));
    TRY(refuse_unsupported(body, f, err));
    TRY(read_session(body, f, err));
    f->param[0] = 0;
    return STATUS_OK;
}
