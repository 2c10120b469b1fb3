#include "formats/config_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "formats/gguf.h"

/* A value in one of the two forms; both NULL when the key is absent. */
struct found {
    const struct gguf_value *gguf;
    const json_t *json;
    struct str key; /* the spelling that was found, or all that were looked for */
};

/* Cuts the part before the first `separator` off *rest. */
static struct str next_part(struct str *rest, char separator)
{
    const char *end = rest->len ? memchr(rest->ptr, separator, rest->len) : NULL;
    size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
    struct str part = str_slice(*rest, 0, n);
    *rest = str_slice(*rest, end ? n + 1 : n, rest->len);
    return part;
}

static const json_t *walk(const json_t *value, struct str path)
{
    while (path.len && value) {
        struct str member = next_part(&path, '.');
        value = json_object_getn(value, member.ptr, member.len);
    }
    return json_is_null(value) ? NULL : value;
}

static const struct gguf_value *find_gguf(const struct gguf *g, struct str key)
{
    char name[256];
    bool whole = key.len && key.ptr[0] == '=';
    if (whole)
        key = str_slice(key, 1, key.len);
    if (key.len >= sizeof(name))
        return NULL;
    memcpy(name, key.ptr, key.len);
    name[key.len] = 0;
    return whole ? gguf_find(g, name) : gguf_find_arch(g, name);
}

static struct found find(const struct config_source *c, const char *gguf, const char *hf)
{
    struct found f = { 0 };
    struct str all = str_of(c->gguf ? gguf : hf), rest = all;
    const json_t *text_config = json_object_get(c->json, "text_config");
    while (rest.len && !f.gguf && !f.json) {
        f.key = next_part(&rest, '|');
        if (c->gguf) {
            f.gguf = find_gguf(c->gguf, f.key);
        } else {
            f.json = walk(text_config, f.key);
            if (!f.json)
                f.json = walk(c->json, f.key);
        }
    }
    if (!f.gguf && !f.json)
        f.key = all.ptr ? all : str_of(gguf ? gguf : hf);
    return f;
}

static bool is_absent(const struct found *f)
{
    return !f->gguf && !f->json;
}

static bool is_array(const struct found *f)
{
    return f->gguf ? f->gguf->is_array : json_is_array(f->json);
}

static size_t count_of(const struct found *f)
{
    if (f->gguf)
        return (size_t)f->gguf->count;
    return json_is_array(f->json) ? json_array_size(f->json) : f->json ? 1 : 0;
}

static const json_t *json_at(const struct found *f, size_t i)
{
    if (json_is_array(f->json))
        return json_array_get(f->json, i);
    return i == 0 ? f->json : NULL;
}

static bool at_i64(const struct found *f, size_t i, int64_t *out)
{
    if (f->gguf)
        return gguf_value_i64(f->gguf, i, out);
    const json_t *v = json_at(f, i);
    double real = json_real_value(v); /* 0 if it is none */
    if (json_is_real(v) && real == floor(real) && fabs(real) <= 0x1p53) {
        *out = (int64_t)real;
        return true;
    }
    *out = json_integer_value(v);
    return json_is_integer(v);
}

static bool at_f64(const struct found *f, size_t i, double *out)
{
    if (f->gguf)
        return gguf_value_f64(f->gguf, i, out);
    *out = json_number_value(json_at(f, i));
    return json_is_number(json_at(f, i));
}

static bool at_bool(const struct found *f, size_t i, bool *out)
{
    if (f->gguf)
        return gguf_value_bool(f->gguf, i, out);
    *out = json_is_true(json_at(f, i));
    return json_is_boolean(json_at(f, i));
}

static void describe(const struct found *f, char *out, size_t size)
{
    if (f->gguf) {
        gguf_value_describe(f->gguf, out, size);
        return;
    }
    struct strbuf text;
    strbuf_init(&text, size - 1);
    json_write(&text, f->json);
    snprintf(out, size, "%.*s", STR_ARG(strbuf_str(&text)));
    strbuf_release(&text);
}

static enum status missing(const struct config_source *c, const struct found *f,
                           struct error *err)
{
    struct str key = f->key.ptr ? f->key : STR("?");
    if (!c->gguf)
        return error_set(err, STATUS_NOT_FOUND, "config.json: \"%.*s\" is missing", STR_ARG(key));
    bool whole = key.len && key.ptr[0] == '=';
    struct str architecture = whole ? STR("") : gguf_architecture(c->gguf);
    if (whole)
        key = str_slice(key, 1, key.len);
    return error_set(err, STATUS_NOT_FOUND, "key \"%.*s%s%.*s\" is missing",
                     STR_ARG(architecture), whole ? "" : ".", STR_ARG(key));
}

static enum status wrong(const struct found *f, const char *expected, struct error *err)
{
    char text[120];
    describe(f, text, sizeof(text));
    return error_set(err, STATUS_INVALID, "key \"%.*s\": expected %s, found %s", STR_ARG(f->key),
                     expected, text);
}

static struct str outer_text(const struct config_source *c, const char *key)
{
    struct str text = json_str(json_object_get(c->json, key));
    return text.ptr ? text : STR("");
}

struct str config_architecture(const struct config_source *c)
{
    return c->gguf ? gguf_architecture(c->gguf) : outer_text(c, "model_type");
}

struct str config_text_model_type(const struct config_source *c)
{
    struct str text = json_str(walk(c->json, STR("text_config.model_type")));
    return text.ptr ? text : STR("");
}

static enum config_kind json_kind(const json_t *v)
{
    if (json_is_string(v))
        return CONFIG_STRING;
    if (json_is_boolean(v))
        return CONFIG_BOOL;
    return json_is_integer(v) ? CONFIG_INTEGER : json_is_real(v) ? CONFIG_FLOAT : CONFIG_OTHER;
}

enum config_kind config_kind(const struct config_source *c, const char *gguf, const char *hf)
{
    struct found f = find(c, gguf, hf);
    if (is_absent(&f))
        return CONFIG_ABSENT;
    if (count_of(&f) == 0)
        return CONFIG_OTHER;
    if (f.json)
        return json_kind(json_at(&f, 0));
    switch (f.gguf->type) {
    case GGUF_STRING:
        return CONFIG_STRING;
    case GGUF_BOOL:
        return CONFIG_BOOL;
    case GGUF_F32:
    case GGUF_F64:
        return CONFIG_FLOAT;
    default:
        return CONFIG_INTEGER;
    }
}

bool config_is_array(const struct config_source *c, const char *gguf, const char *hf)
{
    struct found f = find(c, gguf, hf);
    return is_array(&f);
}

bool config_has(const struct config_source *c, const char *gguf, const char *hf)
{
    struct found f = find(c, gguf, hf);
    return !is_absent(&f);
}

#define SCALAR_GETTER(suffix, type, expected)                                                 \
    enum status config_get_##suffix(const struct config_source *c, const char *gguf,          \
                                    const char *hf, type *out, struct error *err)             \
    {                                                                                         \
        struct found f = find(c, gguf, hf);                                                   \
        if (is_absent(&f))                                                                    \
            return missing(c, &f, err);                                                       \
        if (is_array(&f) || !at_##suffix(&f, 0, out))                                         \
            return wrong(&f, expected, err);                                                  \
        return STATUS_OK;                                                                     \
    }
SCALAR_GETTER(i64, int64_t, "an integer")
SCALAR_GETTER(f64, double, "a number")
SCALAR_GETTER(bool, bool, "true or false")
#undef SCALAR_GETTER

enum status config_get_str(const struct config_source *c, const char *gguf, const char *hf,
                           struct str *out, struct error *err)
{
    struct found f = find(c, gguf, hf);
    if (is_absent(&f))
        return missing(c, &f, err);
    if (f.gguf ? gguf_value_str(f.gguf, out) : json_is_string(f.json)) {
        if (f.json)
            *out = json_str(f.json);
        return STATUS_OK;
    }
    return wrong(&f, "a string", err);
}

enum status config_get_i32(const struct config_source *c, const char *gguf, const char *hf,
                           int32_t low, int32_t high, int32_t *out, struct error *err)
{
    int64_t wide;
    TRY(config_get_i64(c, gguf, hf, &wide, err));
    if (wide < low || wide > high) {
        struct found f = find(c, gguf, hf);
        return error_set(err, STATUS_LIMIT, "key \"%.*s\": expected %d to %d, found %lld",
                         STR_ARG(f.key), low, high, (long long)wide);
    }
    *out = (int32_t)wide;
    return STATUS_OK;
}

enum status config_get_i32_or(const struct config_source *c, const char *gguf, const char *hf,
                              int32_t low, int32_t high, int32_t otherwise, int32_t *out,
                              struct error *err)
{
    *out = otherwise;
    return config_has(c, gguf, hf) ? config_get_i32(c, gguf, hf, low, high, out, err)
                                   : STATUS_OK;
}

enum status config_get_f32_or(const struct config_source *c, const char *gguf, const char *hf,
                              float otherwise, float *out, struct error *err)
{
    double wide = (double)otherwise;
    if (config_has(c, gguf, hf))
        TRY(config_get_f64(c, gguf, hf, &wide, err));
    *out = (float)wide;
    return STATUS_OK;
}

enum status config_get_bool_or(const struct config_source *c, const char *gguf, const char *hf,
                               bool otherwise, bool *out, struct error *err)
{
    *out = otherwise;
    return config_has(c, gguf, hf) ? config_get_bool(c, gguf, hf, out, err) : STATUS_OK;
}

enum status config_get_str_or(const struct config_source *c, const char *gguf, const char *hf,
                              struct str otherwise, struct str *out, struct error *err)
{
    *out = otherwise;
    return config_has(c, gguf, hf) ? config_get_str(c, gguf, hf, out, err) : STATUS_OK;
}

enum status config_count(const struct config_source *c, const char *gguf, const char *hf,
                         size_t *n, struct error *err)
{
    struct found f = find(c, gguf, hf);
    if (is_absent(&f))
        return missing(c, &f, err);
    *n = count_of(&f);
    return STATUS_OK;
}

/* Finds a value that has one element for each of n, or one for all. */
static enum status find_each(const struct config_source *c, const char *gguf, const char *hf,
                             size_t n, struct found *f, struct error *err)
{
    *f = find(c, gguf, hf);
    if (is_absent(f))
        return missing(c, f, err);
    if (is_array(f) && count_of(f) < n)
        return error_set(err, STATUS_INVALID, "key \"%.*s\": expected at least %zu elements, "
                         "found %zu", STR_ARG(f->key), n, count_of(f));
    return STATUS_OK;
}

enum status config_get_i32_each(const struct config_source *c, const char *gguf, const char *hf,
                                int32_t *out, size_t n, struct error *err)
{
    struct found f;
    TRY(find_each(c, gguf, hf, n, &f, err));
    for (size_t i = 0; i < n; i++) {
        int64_t wide;
        if (!at_i64(&f, is_array(&f) ? i : 0, &wide) || wide < INT32_MIN || wide > INT32_MAX)
            return wrong(&f, "integers of 32 bits", err);
        out[i] = (int32_t)wide;
    }
    return STATUS_OK;
}

enum status config_get_f32_each(const struct config_source *c, const char *gguf, const char *hf,
                                float *out, size_t n, struct error *err)
{
    struct found f;
    TRY(find_each(c, gguf, hf, n, &f, err));
    for (size_t i = 0; i < n; i++) {
        double wide;
        if (!at_f64(&f, is_array(&f) ? i : 0, &wide))
            return wrong(&f, "numbers", err);
        out[i] = (float)wide;
    }
    return STATUS_OK;
}

enum status config_get_bool_each(const struct config_source *c, const char *gguf, const char *hf,
                                 bool *out, size_t n, struct error *err)
{
    struct found f;
    TRY(find_each(c, gguf, hf, n, &f, err));
    for (size_t i = 0; i < n; i++) {
        if (!at_bool(&f, is_array(&f) ? i : 0, &out[i]))
            return wrong(&f, "true or false", err);
    }
    return STATUS_OK;
}

static enum status gguf_strings_each(const struct found *f, struct str *out, size_t n,
                                     struct error *err)
{
    struct gguf_string_iter it = gguf_strings_begin(f->gguf);
    for (size_t i = 0; i < n; i++) {
        if (!gguf_strings_next(&it, &out[i]))
            return wrong(f, "strings", err);
    }
    return STATUS_OK;
}

enum status config_get_str_each(const struct config_source *c, const char *gguf, const char *hf,
                                struct str *out, size_t n, struct error *err)
{
    struct found f;
    TRY(find_each(c, gguf, hf, n, &f, err));
    if (count_of(&f) != n)
        return error_set(err, STATUS_INVALID, "key \"%.*s\": expected %zu elements, found %zu",
                         STR_ARG(f.key), n, count_of(&f));
    if (f.gguf)
        return gguf_strings_each(&f, out, n, err);
    for (size_t i = 0; i < n; i++) {
        out[i] = json_str(json_at(&f, i));
        if (!out[i].ptr)
            return wrong(&f, "strings", err);
    }
    return STATUS_OK;
}
