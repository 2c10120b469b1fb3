/* Layout, all numbers little-endian, strings a u64 length and that many bytes:
 *
 *   offset  size  what
 *   0       4     "GGUF"
 *   4       4     version, 2 or 3
 *   8       8     number of tensors
 *   16      8     number of pairs
 *   24      ..    pairs: string key, u32 type, value. A value is 1, 2, 4 or 8 bytes by its type,
 *                 a string, or an array: u32 element type, u64 count, elements
 *   ..      ..    tensors: string name, u32 n_dims, u64 dim[n_dims] (fastest first), u32 type,
 *                 u64 offset of its bytes from the start of the data
 *   ..      ..    zeros up to a multiple of general.alignment (32 when absent)
 *   ..      ..    data: each tensor's offset is a multiple of the alignment
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "formats/gguf_internal.h"

#define SMALLEST_PAIR 14u   /* key length, one byte of key, type, one byte of value */
#define SMALLEST_TENSOR 25u /* name length, one byte of name, n_dims, type, offset */

/* What is being read, for messages: `key 3` until its name is known, then `key "a.b"`. */
struct cursor {
    const uint8_t *bytes;
    size_t size, at;
    const char *kind;
    uint64_t index;
    struct str name;
    struct error *err;
};

static enum status fail(struct cursor *c, enum status s, const char *format, ...)
    PRINTF_LIKE(3, 4);

static enum status fail(struct cursor *c, enum status s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_set_va(c->err, s, format, arguments);
    va_end(arguments);
    if (c->name.len)
        error_prefix(c->err, "%s \"%.*s\"", c->kind, GGUF_NAME_ARG(c->name));
    else
        error_prefix(c->err, "%s %llu", c->kind, (unsigned long long)c->index);
    return s;
}

static size_t left(const struct cursor *c)
{
    return c->size - c->at;
}

static enum status past_end(struct cursor *c, const char *what, uint64_t needed)
{
    fail(c, STATUS_INVALID, "%s needs %llu bytes, %zu are left of file size %zu", what,
         (unsigned long long)needed, left(c), c->size);
    return STATUS_INVALID;
}

static uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint64_t load_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static enum status take_u32(struct cursor *c, const char *what, uint32_t *out)
{
    if (left(c) < 4)
        return past_end(c, what, 4);
    *out = load_u32(c->bytes + c->at);
    c->at += 4;
    return STATUS_OK;
}

static enum status take_u64(struct cursor *c, const char *what, uint64_t *out)
{
    if (left(c) < 8)
        return past_end(c, what, 8);
    *out = load_u64(c->bytes + c->at);
    c->at += 8;
    return STATUS_OK;
}

/* A key or a tensor's name. */
static enum status take_name(struct cursor *c, struct str *out)
{
    uint64_t n;
    TRY(take_u64(c, "the length of its name", &n));
    if (n > left(c))
        return past_end(c, "its name", n);
    if (n == 0)
        return fail(c, STATUS_INVALID, "its name is empty");
    if (n > GGUF_MAX_NAME)
        return fail(c, STATUS_LIMIT, "its name has %llu bytes, the limit is %u",
                    (unsigned long long)n, GGUF_MAX_NAME);
    *out = (struct str){ (const char *)c->bytes + c->at, (size_t)n };
    c->at += (size_t)n;
    if (!utf8_valid(*out))
        return fail(c, STATUS_INVALID, "its name \"%.*s\" is not valid UTF-8",
                    GGUF_NAME_ARG(*out));
    return STATUS_OK;
}

/* Steps over `count` strings. */
static enum status skip_strings(struct cursor *c, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n;
        TRY(take_u64(c, "the length of a string", &n));
        if (n > left(c))
            return past_end(c, "a string", n);
        c->at += (size_t)n;
    }
    return STATUS_OK;
}

static enum status take_elements(struct cursor *c, struct gguf_value *v)
{
    size_t start = c->at;
    v->bytes = c->bytes + start;
    size_t element = gguf_type_bytes(v->type);
    if (v->type == GGUF_STRING) {
        if (v->count > left(c) / 8)
            return fail(c, STATUS_INVALID, "%llu strings are more than the %zu bytes left of "
                        "file size %zu hold", (unsigned long long)v->count, left(c), c->size);
        TRY(skip_strings(c, v->count));
    } else {
        if (v->count > left(c) / element)
            return fail(c, STATUS_INVALID, "%llu elements of %zu bytes are more than the %zu "
                        "bytes left of file size %zu", (unsigned long long)v->count, element,
                        left(c), c->size);
        c->at += (size_t)v->count * element;
    }
    v->n_bytes = c->at - start;
    return STATUS_OK;
}

static enum status take_value(struct cursor *c, struct gguf_value *v)
{
    uint32_t type;
    *v = (struct gguf_value){ .count = 1 };
    TRY(take_u32(c, "its type", &type));
    if (type == GGUF_ARRAY) {
        v->is_array = true;
        TRY(take_u32(c, "the type of its elements", &type));
        TRY(take_u64(c, "its count", &v->count));
        if (type == GGUF_ARRAY)
            return fail(c, STATUS_UNSUPPORTED, "an array of arrays");
    }
    if (type != GGUF_STRING && gguf_type_bytes(type) == 0)
        return fail(c, STATUS_INVALID, "unknown value type %u, expected 0 to 12", type);
    v->type = (enum gguf_type)type;
    TRY(take_elements(c, v));
    struct str text;
    if (gguf_value_str(v, &text) && !utf8_valid(text))
        return fail(c, STATUS_INVALID, "its string is not valid UTF-8");
    return STATUS_OK;
}

static enum status read_pairs(struct gguf *g, struct cursor *c, uint64_t n)
{
    g->pairs = mem_zero((size_t)n, sizeof(*g->pairs));
    strmap_init(&g->pair_index, (size_t)n);
    for (uint64_t i = 0; i < n; i++) {
        struct gguf_pair *pair = &g->pairs[i];
        c->index = i;
        c->name = (struct str){ NULL, 0 };
        TRY(take_name(c, &pair->key));
        c->name = pair->key;
        if (!strmap_insert(&g->pair_index, pair->key, (uint32_t)i, NULL))
            return fail(c, STATUS_INVALID, "is there twice");
        TRY(take_value(c, &pair->value));
        g->n_pairs++;
    }
    return STATUS_OK;
}

static enum status read_alignment(struct gguf *g, struct error *err)
{
    g->alignment = GGUF_DEFAULT_ALIGNMENT;
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    if (!v)
        return STATUS_OK;
    char found[120];
    gguf_value_describe(v, found, sizeof(found));
    if (v->is_array || v->type != GGUF_U32)
        return error_set(err, STATUS_INVALID,
                         "key \"general.alignment\": expected uint32, found %s", found);
    g->alignment = load_u32(v->bytes);
    if (g->alignment < GGUF_MIN_ALIGNMENT || (g->alignment & (g->alignment - 1)))
        return error_set(err, STATUS_INVALID, "key \"general.alignment\": expected a power of "
                         "two, at least %u, found %s", GGUF_MIN_ALIGNMENT, found);
    return STATUS_OK;
}

static enum status take_shape(struct cursor *c, struct weight_tensor *t)
{
    uint32_t n_dims;
    TRY(take_u32(c, "its number of dimensions", &n_dims));
    if (n_dims > GGUF_MAX_DIMS)
        return fail(c, STATUS_INVALID, "%u dimensions, expected at most %d", n_dims,
                    GGUF_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        uint64_t dim;
        TRY(take_u64(c, "a dimension", &dim));
        if (dim == 0 || dim > INT64_MAX)
            return fail(c, STATUS_INVALID, "dimension %d is %llu, expected 1 to 2^63-1",
                        t->n_dims - 1 - i, (unsigned long long)dim);
        t->dim[i] = (int64_t)dim;
    }
    return STATUS_OK;
}

static enum status read_tensor(struct gguf *g, struct cursor *c, uint64_t *offset)
{
    struct weight_tensor t = { 0 };
    uint32_t type;
    TRY(take_name(c, &t.name));
    c->name = t.name;
    TRY(take_shape(c, &t));
    TRY(take_u32(c, "its type", &type));
    TRY(take_u64(c, "its offset", offset));
    if (type >= TENSOR_TYPE_FIRST_OWN)
        return fail(c, STATUS_UNSUPPORTED, "unknown type %u", type);
    t.type = (enum tensor_type)type;
    TRY(weight_tensor_size(&t, &t.n_bytes, c->err));
    return weight_file_add(&g->weights, &t, c->err);
}

/* Turns offsets into addresses once the whole list is known and the data's start with it. */
static enum status place_tensors(struct gguf *g, struct cursor *c, const uint64_t *offsets)
{
    size_t mask = (size_t)g->alignment - 1;
    size_t start = (c->at + mask) & ~mask; /* cannot wrap: a file is smaller than 2^63 bytes */
    for (size_t i = 0; i < g->weights.n_tensors; i++) {
        struct weight_tensor *t = &g->weights.tensors[i];
        c->name = t->name;
        if (start > c->size)
            return fail(c, STATUS_INVALID, "general.alignment %u puts the data at %zu, but file "
                        "size is %zu", g->alignment, start, c->size);
        if (offsets[i] & mask)
            return fail(c, STATUS_INVALID, "offset %llu is no multiple of general.alignment %u",
                        (unsigned long long)offsets[i], g->alignment);
        size_t room = c->size - start;
        if (offsets[i] > room || t->n_bytes > room - offsets[i])
            return fail(c, STATUS_INVALID, "%zu bytes at offset %llu are more than the %zu bytes "
                        "of data in file size %zu", t->n_bytes, (unsigned long long)offsets[i],
                        room, c->size);
        t->bytes = c->bytes + start + offsets[i];
    }
    return STATUS_OK;
}

static enum status read_tensors(struct gguf *g, struct cursor *c, uint64_t n)
{
    uint64_t *offsets = mem_zero((size_t)n, sizeof(*offsets));
    enum status s = STATUS_OK;
    c->kind = "tensor";
    strmap_init(&g->weights.index, (size_t)n);
    mem_reserve((void **)&g->weights.tensors, &g->weights.tensor_capacity, (size_t)n,
                sizeof(*g->weights.tensors));
    for (uint64_t i = 0; i < n && s == STATUS_OK; i++) {
        c->index = i;
        c->name = (struct str){ NULL, 0 };
        s = read_tensor(g, c, &offsets[i]);
    }
    if (s == STATUS_OK)
        s = place_tensors(g, c, offsets);
    mem_free(offsets);
    return s;
}

static enum status check_version(struct gguf *g, const struct cursor *c)
{
    if (c->size < 4)
        return error_set(c->err, STATUS_INVALID, "file size %zu is too small for a GGUF",
                         c->size);
    if (memcmp(c->bytes, "GGUF", 4) != 0)
        return error_set(c->err, STATUS_INVALID,
                         "not a GGUF: magic is %02x %02x %02x %02x, expected \"GGUF\"",
                         c->bytes[0], c->bytes[1], c->bytes[2], c->bytes[3]);
    if (c->size < 8)
        return error_set(c->err, STATUS_INVALID, "file size %zu ends before the version",
                         c->size);
    g->version = load_u32(c->bytes + 4);
    if (g->version != 0 && (g->version & 0xFFFFFF) == 0)
        return error_set(c->err, STATUS_UNSUPPORTED,
                         "a big-endian file (version reads 0x%08x); only little-endian ones are "
                         "supported", g->version);
    if (g->version != 2 && g->version != 3)
        return error_set(c->err, STATUS_UNSUPPORTED, "version %u, supported are 2 and 3",
                         g->version);
    if (c->size < 24)
        return error_set(c->err, STATUS_INVALID, "file size %zu ends before the counts at 8 to "
                         "24", c->size);
    return STATUS_OK;
}

static enum status parse_file(struct gguf *g, struct cursor *c)
{
    TRY(check_version(g, c));
    uint64_t n_tensors = load_u64(c->bytes + 8), n_pairs = load_u64(c->bytes + 16);
    c->at = 24;
    if (n_tensors > left(c) / SMALLEST_TENSOR)
        return error_set(c->err, STATUS_INVALID, "tensor count %llu is more than file size %zu "
                         "holds", (unsigned long long)n_tensors, c->size);
    if (n_pairs > left(c) / SMALLEST_PAIR)
        return error_set(c->err, STATUS_INVALID, "key count %llu is more than file size %zu "
                         "holds", (unsigned long long)n_pairs, c->size);
    if (n_pairs > UINT32_MAX)
        return error_set(c->err, STATUS_LIMIT, "%llu keys", (unsigned long long)n_pairs);
    TRY(read_pairs(g, c, n_pairs));
    TRY(read_alignment(g, c->err));
    TRY(read_tensors(g, c, n_tensors));
    return weight_file_check_overlap(&g->weights, c->err);
}

enum status gguf_parse(struct gguf *g, struct mapped_file file, struct error *err)
{
    *g = (struct gguf){ 0 };
    g->weights.format = "GGUF";
    g->weights.parts = mem_copy(&file, sizeof(file));
    g->weights.n_parts = 1;
    struct cursor c = { .bytes = file.bytes, .size = file.size, .kind = "key", .err = err };
    enum status s = parse_file(g, &c);
    if (mapped_file_damaged(&file))
        s = error_set(err, STATUS_IO, "the file became shorter than %zu bytes while it was read",
                      file.size);
    if (s == STATUS_OK)
        return s;
    error_prefix(err, "%s", file.path);
    gguf_close(g);
    return s;
}

enum status gguf_open_part(struct gguf *g, const char *path, struct error *err)
{
    struct mapped_file file;
    *g = (struct gguf){ 0 };
    TRY(mapped_file_open(&file, path, err));
    return gguf_parse(g, file, err);
}

enum status gguf_open(struct gguf *g, const char *path, struct error *err)
{
    TRY(gguf_open_part(g, path, err));
    enum status s = gguf_join_parts(g, path, err);
    if (s != STATUS_OK)
        gguf_close(g);
    return s;
}

enum status gguf_open_memory(struct gguf *g, const char *label, const void *bytes, size_t n,
                             struct error *err)
{
    struct mapped_file file;
    mapped_file_borrow(&file, label, bytes, n);
    return gguf_parse(g, file, err);
}

void gguf_close(struct gguf *g)
{
    weight_file_close(&g->weights);
    mem_free(g->pairs);
    strmap_release(&g->pair_index);
    *g = (struct gguf){ 0 };
}
