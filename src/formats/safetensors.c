/* Layout, numbers little-endian:
 *
 *   offset   size  what
 *   0        8     n, the length of the header
 *   8        n     JSON, an object that begins with "{" and may end in spaces:
 *                    name -> {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}
 *                    "__metadata__" -> {text: text}
 *   8 + n    ..    data: begin and end count from here; together the ranges cover all of it
 */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define NAME_ARG(s) (int)MIN((s).len, (size_t)160), (s).ptr
#define MAX_HEADER_BYTES ((size_t)100000000) /* the limit of the format's own library */

static const struct {
    const char *name;
    enum tensor_type type;
} dtypes[] = {
    { "BOOL", TENSOR_TYPE_BOOL },       { "U8", TENSOR_TYPE_U8 },
    { "I8", TENSOR_TYPE_I8 },           { "U16", TENSOR_TYPE_U16 },
    { "I16", TENSOR_TYPE_I16 },         { "U32", TENSOR_TYPE_U32 },
    { "I32", TENSOR_TYPE_I32 },         { "U64", TENSOR_TYPE_U64 },
    { "I64", TENSOR_TYPE_I64 },         { "F16", TENSOR_TYPE_F16 },
    { "BF16", TENSOR_TYPE_BF16 },       { "F32", TENSOR_TYPE_F32 },
    { "F64", TENSOR_TYPE_F64 },         { "F8_E4M3", TENSOR_TYPE_F8_E4M3 },
    { "F8_E5M2", TENSOR_TYPE_F8_E5M2 }, { "F8_E8M0", TENSOR_TYPE_F8_E8M0 },
    { "F4", TENSOR_TYPE_F4 },
};

static enum status fail(struct error *err, struct str name, enum status s, const char *what)
{
    return error_set(err, s, "tensor \"%.*s\": %s", NAME_ARG(name), what);
}

static enum status read_dtype(struct weight_tensor *t, const json_t *entry, struct error *err)
{
    struct str text = json_str(json_object_get(entry, "dtype"));
    if (!text.ptr)
        return fail(err, t->name, STATUS_INVALID, "\"dtype\" is missing or no string");
    for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
        if (str_is(text, dtypes[i].name)) {
            t->type = dtypes[i].type;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_UNSUPPORTED, "tensor \"%.*s\": dtype \"%.*s\" is not supported",
                     NAME_ARG(t->name), NAME_ARG(text));
}

static enum status read_shape(struct weight_tensor *t, const json_t *entry, struct error *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return fail(err, t->name, STATUS_INVALID, "\"shape\" is missing or no array");
    size_t n = json_array_size(shape);
    if (n > WEIGHT_MAX_DIMS)
        return error_set(err, STATUS_UNSUPPORTED,
                         "tensor \"%.*s\": %zu dimensions, supported are %d", NAME_ARG(t->name),
                         n, WEIGHT_MAX_DIMS);
    t->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return fail(err, t->name, STATUS_INVALID,
                        "\"shape\" holds something else than integers from 0 to 2^63-1");
        t->dim[i] = json_integer_value(dim);
    }
    return STATUS_OK;
}

static bool read_range(const json_t *entry, uint64_t *begin, uint64_t *end)
{
    const json_t *range = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(range, 0), *second = json_array_get(range, 1);
    if (json_array_size(range) != 2 || !json_is_integer(first) || !json_is_integer(second) ||
        json_integer_value(first) < 0 || json_integer_value(second) < 0)
        return false;
    *begin = (uint64_t)json_integer_value(first);
    *end = (uint64_t)json_integer_value(second);
    return true;
}

static enum status read_tensor(struct weight_file *f, struct str name, const json_t *entry,
                               const uint8_t *data, size_t data_size, struct error *err)
{
    struct weight_tensor t = { .name = name };
    uint64_t begin, end;
    if (!json_is_object(entry))
        return fail(err, name, STATUS_INVALID, "its header entry is no object");
    TRY(read_dtype(&t, entry, err));
    TRY(read_shape(&t, entry, err));
    TRY(weight_tensor_size(&t, &t.n_bytes, err));
    if (!read_range(entry, &begin, &end))
        return fail(err, name, STATUS_INVALID,
                    "\"data_offsets\" is missing or not two integers from 0 to 2^63-1");
    if (begin > end || end > data_size)
        return error_set(err, STATUS_INVALID,
                         "tensor \"%.*s\": data_offsets %llu to %llu do not lie in order within "
                         "the %zu bytes of data", NAME_ARG(name), (unsigned long long)begin,
                         (unsigned long long)end, data_size);
    if (end - begin != t.n_bytes)
        return error_set(err, STATUS_INVALID,
                         "tensor \"%.*s\": data_offsets hold %llu bytes, type and shape need %zu",
                         NAME_ARG(name), (unsigned long long)(end - begin), t.n_bytes);
    t.bytes = data + begin;
    t.name = arena_str(&f->arena, name);
    return weight_file_add(f, &t, err);
}

static int by_address(const void *a, const void *b)
{
    const struct weight_tensor *x = *(const struct weight_tensor *const *)a;
    const struct weight_tensor *y = *(const struct weight_tensor *const *)b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Tensors do not overlap (checked before): so they cover all data iff their sizes add up. */
static enum status check_cover(const struct weight_file *f, const uint8_t *data, size_t size,
                               struct error *err)
{
    size_t covered = 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        covered += f->tensors[i].n_bytes;
    if (covered == size)
        return STATUS_OK;
    const struct weight_tensor **sorted = mem_zero(f->n_tensors, sizeof(*sorted));
    size_t n = 0, at = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (f->tensors[i].n_bytes)
            sorted[n++] = &f->tensors[i];
    }
    qsort(sorted, n, sizeof(*sorted), by_address);
    enum status s = STATUS_OK;
    for (size_t i = 0; i < n && s == STATUS_OK; i++) {
        size_t begin = (size_t)(sorted[i]->bytes - data);
        if (begin != at)
            s = error_set(err, STATUS_INVALID,
                          "tensor \"%.*s\": bytes %zu to %zu of the data before it belong to no "
                          "tensor", NAME_ARG(sorted[i]->name), at, begin);
        at = begin + sorted[i]->n_bytes;
    }
    mem_free(sorted);
    if (s == STATUS_OK)
        s = error_set(err, STATUS_INVALID, "the last %zu of %zu bytes of data belong to no "
                      "tensor", size - at, size);
    return s;
}

static enum status check_metadata(const json_t *metadata, struct error *err)
{
    json_t *quiet = (json_t *)(uintptr_t)metadata; /* iterators are not const, yet only read */
    bool good = json_is_object(metadata);
    for (void *i = json_object_iter(quiet); good && i; i = json_object_iter_next(quiet, i))
        good = json_is_string(json_object_iter_value(i));
    if (good)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "\"__metadata__\" is no object of strings");
}

static enum status read_entries(struct weight_file *f, json_t *header, const uint8_t *data,
                                size_t data_size, struct error *err)
{
    strmap_init(&f->index, json_object_size(header));
    for (void *i = json_object_iter(header); i; i = json_object_iter_next(header, i)) {
        struct str name = { json_object_iter_key(i), json_object_iter_key_len(i) };
        const json_t *entry = json_object_iter_value(i);
        if (str_is(name, "__metadata__"))
            TRY(check_metadata(entry, err));
        else
            TRY(read_tensor(f, name, entry, data, data_size, err));
    }
    TRY(weight_file_check_overlap(f, err));
    return check_cover(f, data, data_size, err);
}

static enum status parse_file(struct weight_file *f, const struct mapped_file *file,
                              struct error *err)
{
    uint64_t n;
    if (file->size < 8)
        return error_set(err, STATUS_INVALID, "file size %zu is too small for safetensors",
                         file->size);
    memcpy(&n, file->bytes, 8);
    if (n > file->size - 8)
        return error_set(err, STATUS_INVALID, "a header of %llu bytes is more than file size %zu "
                         "holds", (unsigned long long)n, file->size);
    if (n > MAX_HEADER_BYTES)
        return error_set(err, STATUS_LIMIT, "a header of %llu bytes, the limit is %zu",
                         (unsigned long long)n, MAX_HEADER_BYTES);
    struct str text = { (const char *)file->bytes + 8, (size_t)n };
    if (n == 0 || text.ptr[0] != '{')
        return error_set(err, STATUS_INVALID, "the header of %llu bytes does not begin with "
                         "\"{\"", (unsigned long long)n);
    json_t *header;
    enum status s = json_parse(text, JSON_STRICT_UTF8 | JSON_UNIQUE_KEYS, &header, err);
    if (s != STATUS_OK) {
        error_prefix(err, "the header");
        return s;
    }
    s = read_entries(f, header, file->bytes + 8 + n, file->size - 8 - (size_t)n, err);
    json_decref(header);
    return s;
}

static enum status parse(struct weight_file *f, struct mapped_file file, struct error *err)
{
    *f = (struct weight_file){ .format = "safetensors" };
    f->parts = mem_copy(&file, sizeof(file));
    f->n_parts = 1;
    enum status s = parse_file(f, &file, err);
    if (mapped_file_damaged(&file))
        s = error_set(err, STATUS_IO, "the file became shorter than %zu bytes while it was read",
                      file.size);
    if (s == STATUS_OK)
        return s;
    error_prefix(err, "%s", file.path);
    weight_file_close(f);
    return s;
}

enum status safetensors_open(struct weight_file *f, const char *path, struct error *err)
{
    struct mapped_file file;
    *f = (struct weight_file){ 0 };
    TRY(mapped_file_open(&file, path, err));
    return parse(f, file, err);
}

enum status safetensors_open_memory(struct weight_file *f, const char *label, const void *bytes,
                                    size_t n, struct error *err)
{
    struct mapped_file file;
    mapped_file_borrow(&file, label, bytes, n);
    return parse(f, file, err);
}
