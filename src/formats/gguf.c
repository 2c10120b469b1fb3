#include "formats/gguf.h"

#include <stdio.h>
#include <string.h>

#include "formats/gguf_internal.h"

const char *gguf_type_name(enum gguf_type type)
{
    switch (type) {
#define GGUF_TYPE_TEXT(name, id, bytes, text) \
    case GGUF_##name:                         \
        return text;
        GGUF_TYPE_LIST(GGUF_TYPE_TEXT)
#undef GGUF_TYPE_TEXT
    }
    return "unknown";
}

size_t gguf_type_bytes(uint32_t type)
{
    switch (type) {
#define GGUF_TYPE_BYTES(name, id, bytes, text) \
    case GGUF_##name:                          \
        return bytes;
        GGUF_TYPE_LIST(GGUF_TYPE_BYTES)
#undef GGUF_TYPE_BYTES
    }
    return 0;
}

static const struct gguf_value *find(const struct gguf *g, struct str key)
{
    uint32_t at;
    return strmap_find(&g->pair_index, key, &at) ? &g->pairs[at].value : NULL;
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    return find(g, str_of(key));
}

struct str gguf_architecture(const struct gguf *g)
{
    struct str name = { "", 0 };
    const struct gguf_value *v = gguf_find(g, "general.architecture");
    if (v && !gguf_value_str(v, &name))
        name = (struct str){ "", 0 };
    return name;
}

const struct gguf_value *gguf_find_arch(const struct gguf *g, const char *name)
{
    char key[512];
    struct str architecture = gguf_architecture(g);
    if (architecture.len == 0 || architecture.len > 200)
        return NULL;
    int n = snprintf(key, sizeof(key), "%.*s.%s", STR_ARG(architecture), name);
    if (n < 0 || (size_t)n >= sizeof(key))
        return NULL;
    return find(g, (struct str){ key, (size_t)n });
}

/* The bytes of element `index`, or NULL if v has no such element or is made of strings. */
static const uint8_t *element(const struct gguf_value *v, uint64_t index)
{
    size_t size = gguf_type_bytes(v->type);
    return size && index < v->count ? v->bytes + index * size : NULL;
}

/* Any integer type, as magnitude and sign. */
static bool load_integer(const struct gguf_value *v, uint64_t index, uint64_t *bits,
                         bool *negative)
{
    const uint8_t *p = element(v, index);
    int64_t value = 0;
    if (!p)
        return false;
    *negative = false;
    *bits = 0;
    switch (v->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        memcpy(bits, p, gguf_type_bytes(v->type)); /* little-endian: the low bytes come first */
        return true;
    case GGUF_I8:
        value = (int8_t)*p;
        break;
    case GGUF_I16:
        value = (int16_t)(uint16_t)(p[0] | p[1] << 8);
        break;
    case GGUF_I32: {
        int32_t small;
        memcpy(&small, p, 4);
        value = small;
        break;
    }
    case GGUF_I64:
        memcpy(&value, p, 8);
        break;
    default:
        return false;
    }
    *negative = value < 0;
    *bits = (uint64_t)value;
    return true;
}

bool gguf_value_u64(const struct gguf_value *v, uint64_t index, uint64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!load_integer(v, index, &bits, &negative) || negative)
        return false;
    *out = bits;
    return true;
}

bool gguf_value_i64(const struct gguf_value *v, uint64_t index, int64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!load_integer(v, index, &bits, &negative) || (!negative && bits > INT64_MAX))
        return false;
    *out = (int64_t)bits;
    return true;
}

bool gguf_value_f64(const struct gguf_value *v, uint64_t index, double *out)
{
    const uint8_t *p = element(v, index);
    if (!p)
        return false;
    if (v->type == GGUF_F32) {
        float f;
        memcpy(&f, p, 4);
        *out = (double)f;
        return true;
    }
    if (v->type == GGUF_F64) {
        memcpy(out, p, 8);
        return true;
    }
    uint64_t bits;
    bool negative;
    if (!load_integer(v, index, &bits, &negative))
        return false;
    *out = negative ? (double)(int64_t)bits : (double)bits;
    return true;
}

bool gguf_value_bool(const struct gguf_value *v, uint64_t index, bool *out)
{
    const uint8_t *p = v->type == GGUF_BOOL ? element(v, index) : NULL;
    if (!p || *p > 1)
        return false;
    *out = *p == 1;
    return true;
}

bool gguf_value_str(const struct gguf_value *v, struct str *out)
{
    if (v->is_array || v->type != GGUF_STRING)
        return false;
    struct gguf_string_iter it = gguf_strings_begin(v);
    return gguf_strings_next(&it, out);
}

struct gguf_string_iter gguf_strings_begin(const struct gguf_value *v)
{
    if (v->type != GGUF_STRING)
        return (struct gguf_string_iter){ 0 };
    return (struct gguf_string_iter){ v->bytes, v->bytes + v->n_bytes, v->count };
}

/* Lengths are checked again: the file may have changed since it was opened. */
bool gguf_strings_next(struct gguf_string_iter *it, struct str *out)
{
    uint64_t n;
    size_t room = (size_t)(it->end - it->at);
    if (it->left == 0 || room < 8)
        return false;
    memcpy(&n, it->at, 8);
    if (n > room - 8)
        return false;
    *out = (struct str){ (const char *)it->at + 8, (size_t)n };
    it->at += 8 + (size_t)n;
    it->left--;
    return true;
}

bool gguf_strings(const struct gguf_value *v, struct str *out)
{
    struct gguf_string_iter it = gguf_strings_begin(v);
    uint64_t n = 0;
    while (n < v->count && gguf_strings_next(&it, &out[n]))
        n++;
    return v->type == GGUF_STRING && n == v->count;
}

void gguf_value_describe(const struct gguf_value *v, char *out, size_t size)
{
    const char *type = gguf_type_name(v->type);
    struct str text;
    double number;
    int64_t integer;
    if (v->is_array)
        snprintf(out, size, "array of %llu %s", (unsigned long long)v->count, type);
    else if (gguf_value_str(v, &text))
        snprintf(out, size, "string \"%.*s\"%s", (int)MIN(text.len, (size_t)60), text.ptr,
                 text.len > 60 ? "..." : "");
    else if (gguf_value_i64(v, 0, &integer))
        snprintf(out, size, "%s %lld", type, (long long)integer);
    else if (gguf_value_f64(v, 0, &number))
        snprintf(out, size, "%s %g", type, number);
    else if (v->type == GGUF_BOOL && v->n_bytes)
        snprintf(out, size, "bool %u", v->bytes[0]);
    else
        snprintf(out, size, "%s", type);
}

static enum status wrong_type(const char *key, const struct gguf_value *v, const char *expected,
                              struct error *err)
{
    char found[160];
    gguf_value_describe(v, found, sizeof(found));
    return error_set(err, STATUS_INVALID, "key \"%s\": expected %s, found %s", key, expected,
                     found);
}

static enum status get(const struct gguf *g, const char *key, const struct gguf_value **v,
                       struct error *err)
{
    *v = gguf_find(g, key);
    if (!*v)
        return error_set(err, STATUS_NOT_FOUND, "key \"%s\" is missing", key);
    return STATUS_OK;
}

#define GGUF_GETTER(suffix, type, expected)                                               \
    enum status gguf_get_##suffix(const struct gguf *g, const char *key, type *out,       \
                                  struct error *err)                                      \
    {                                                                                     \
        const struct gguf_value *v;                                                       \
        TRY(get(g, key, &v, err));                                                        \
        if (v->is_array || !gguf_value_##suffix(v, 0, out))                               \
            return wrong_type(key, v, expected, err);                                     \
        return STATUS_OK;                                                                 \
    }
GGUF_GETTER(u64, uint64_t, "an integer of at least 0")
GGUF_GETTER(i64, int64_t, "an integer of at most 2^63-1")
GGUF_GETTER(f64, double, "a number")
GGUF_GETTER(bool, bool, "a bool, 0 or 1")
#undef GGUF_GETTER

enum status gguf_get_str(const struct gguf *g, const char *key, struct str *out,
                         struct error *err)
{
    const struct gguf_value *v;
    TRY(get(g, key, &v, err));
    return gguf_value_str(v, out) ? STATUS_OK : wrong_type(key, v, "a string", err);
}

enum status gguf_get_array(const struct gguf *g, const char *key, enum gguf_type type,
                           const struct gguf_value **out, struct error *err)
{
    const struct gguf_value *v;
    TRY(get(g, key, &v, err));
    if (v->is_array && (type == GGUF_ARRAY || v->type == type)) {
        *out = v;
        return STATUS_OK;
    }
    char expected[40];
    snprintf(expected, sizeof(expected), "an array%s%s", type == GGUF_ARRAY ? "" : " of ",
             type == GGUF_ARRAY ? "" : gguf_type_name(type));
    return wrong_type(key, v, expected, err);
}
