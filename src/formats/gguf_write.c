/* The layout is that of gguf_read.c. Pairs and the list of tensors are collected in memory and
 * written, padded, before the first byte of data. */
#include "formats/gguf_write.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "formats/gguf_internal.h"

#define MAX_HEADER_BYTES ((size_t)4 << 30)

struct declared {
    struct str name;
    size_t n_bytes;
};

struct gguf_writer {
    struct file_writer file;
    uint32_t alignment;
    uint64_t n_pairs;
    struct strbuf pairs, infos;
    struct arena names;
    struct strmap keys, tensor_names;
    struct declared *tensors;
    size_t n_tensors, capacity;
    uint64_t data_bytes; /* declared so far, padding included */
    bool started;        /* the header is on disk: nothing more can be declared */
    size_t current;      /* tensor that the next byte belongs to */
    size_t written;      /* bytes of it */
};

enum status gguf_writer_open(struct gguf_writer **out, const char *path, uint32_t alignment,
                             struct error *err)
{
    *out = NULL;
    if (alignment == 0)
        alignment = GGUF_DEFAULT_ALIGNMENT;
    if (alignment < GGUF_MIN_ALIGNMENT || (alignment & (alignment - 1)))
        return error_set(err, STATUS_INVALID, "alignment %u: expected a power of two, at least "
                         "%u", alignment, GGUF_MIN_ALIGNMENT);
    struct gguf_writer *w = mem_new(struct gguf_writer);
    w->alignment = alignment;
    strbuf_init(&w->pairs, MAX_HEADER_BYTES);
    strbuf_init(&w->infos, MAX_HEADER_BYTES);
    enum status s = file_writer_open(&w->file, path, err);
    if (s == STATUS_OK && alignment != GGUF_DEFAULT_ALIGNMENT)
        s = gguf_writer_put_u32(w, "general.alignment", alignment, err);
    if (s == STATUS_OK)
        *out = w;
    else
        gguf_writer_free(w);
    return s;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (!w)
        return;
    file_writer_abort(&w->file);
    strbuf_release(&w->pairs);
    strbuf_release(&w->infos);
    strmap_release(&w->keys);
    strmap_release(&w->tensor_names);
    arena_release(&w->names);
    mem_free(w->tensors);
    mem_free(w);
}

static void add_u32(struct strbuf *b, uint32_t v)
{
    strbuf_append(b, &v, sizeof(v));
}

static void add_u64(struct strbuf *b, uint64_t v)
{
    strbuf_append(b, &v, sizeof(v));
}

static void add_string(struct strbuf *b, struct str s)
{
    add_u64(b, s.len);
    strbuf_add(b, s);
}

/* Checks a key or name and enters a copy into the map. */
static enum status take_name(struct gguf_writer *w, struct strmap *map, const char *kind,
                             struct str name, struct error *err)
{
    if (w->started)
        return error_set(err, STATUS_INVALID, "%s \"%.*s\": the header is written already", kind,
                         GGUF_NAME_ARG(name));
    if (name.len == 0 || name.len > GGUF_MAX_NAME || !utf8_valid(name))
        return error_set(err, STATUS_INVALID, "%s \"%.*s\": expected 1 to %u bytes of UTF-8",
                         kind, GGUF_NAME_ARG(name), GGUF_MAX_NAME);
    if (strmap_find(map, name, NULL))
        return error_set(err, STATUS_INVALID, "%s \"%.*s\" is there already", kind,
                         GGUF_NAME_ARG(name));
    strmap_set(map, arena_str(&w->names, name), 0);
    return STATUS_OK;
}

/* Whether the bytes are what type and count say: the view may come from a file that changed. */
static bool is_well_formed(const struct gguf_value *v)
{
    if (v->type == GGUF_STRING) {
        struct gguf_string_iter it = gguf_strings_begin(v);
        for (struct str s; gguf_strings_next(&it, &s);)
            continue;
        return it.left == 0 && it.at == it.end;
    }
    size_t size = gguf_type_bytes(v->type), n_bytes;
    return size && !__builtin_mul_overflow(size, (size_t)v->count, &n_bytes) &&
           n_bytes == v->n_bytes;
}

static enum status put(struct gguf_writer *w, struct str key, const struct gguf_value *v,
                       struct error *err)
{
    if (!is_well_formed(v) || (!v->is_array && v->count != 1))
        return error_set(err, STATUS_INVALID, "key \"%.*s\": its bytes are no %s of %llu",
                         GGUF_NAME_ARG(key), gguf_type_name(v->type),
                         (unsigned long long)v->count);
    TRY(take_name(w, &w->keys, "key", key, err));
    add_string(&w->pairs, key);
    add_u32(&w->pairs, v->is_array ? GGUF_ARRAY : v->type);
    if (v->is_array) {
        add_u32(&w->pairs, v->type);
        add_u64(&w->pairs, v->count);
    }
    strbuf_append(&w->pairs, v->bytes, v->n_bytes);
    if (w->pairs.overflow)
        return error_set(err, STATUS_LIMIT, "key \"%.*s\": more than %zu bytes of metadata",
                         GGUF_NAME_ARG(key), MAX_HEADER_BYTES);
    w->n_pairs++;
    return STATUS_OK;
}

enum status gguf_writer_put(struct gguf_writer *w, const char *key,
                            const struct gguf_value *value, struct error *err)
{
    return put(w, str_of(key), value, err);
}

#define PUT_SCALAR(suffix, c_type, gguf_type_id)                                             \
    enum status gguf_writer_put_##suffix(struct gguf_writer *w, const char *key, c_type v,   \
                                         struct error *err)                                  \
    {                                                                                        \
        struct gguf_value value = { gguf_type_id, false, 1, (const uint8_t *)&v, sizeof(v) }; \
        return put(w, str_of(key), &value, err);                                             \
    }
PUT_SCALAR(u32, uint32_t, GGUF_U32)
PUT_SCALAR(u64, uint64_t, GGUF_U64)
PUT_SCALAR(i32, int32_t, GGUF_I32)
PUT_SCALAR(f32, float, GGUF_F32)
#undef PUT_SCALAR

enum status gguf_writer_put_bool(struct gguf_writer *w, const char *key, bool v,
                                 struct error *err)
{
    uint8_t byte = v;
    struct gguf_value value = { GGUF_BOOL, false, 1, &byte, 1 };
    return put(w, str_of(key), &value, err);
}

static enum status put_strings(struct gguf_writer *w, const char *key, const struct str *strings,
                               uint64_t count, bool is_array, struct error *err)
{
    struct strbuf bytes;
    strbuf_init(&bytes, MAX_HEADER_BYTES);
    for (uint64_t i = 0; i < count; i++)
        add_string(&bytes, strings[i]);
    struct gguf_value value = { GGUF_STRING, is_array, count,
                                (const uint8_t *)strbuf_str(&bytes).ptr, bytes.len };
    enum status s = put(w, str_of(key), &value, err);
    strbuf_release(&bytes);
    return s;
}

enum status gguf_writer_put_str(struct gguf_writer *w, const char *key, struct str v,
                                struct error *err)
{
    return put_strings(w, key, &v, 1, false, err);
}

enum status gguf_writer_put_strings(struct gguf_writer *w, const char *key,
                                    const struct str *strings, uint64_t count, struct error *err)
{
    return put_strings(w, key, strings, count, true, err);
}

enum status gguf_writer_put_array(struct gguf_writer *w, const char *key, enum gguf_type type,
                                  const void *elements, uint64_t count, struct error *err)
{
    size_t n_bytes = 0;
    if (__builtin_mul_overflow(gguf_type_bytes(type), (size_t)count, &n_bytes))
        return error_set(err, STATUS_LIMIT, "key \"%s\": %llu elements", key,
                         (unsigned long long)count);
    struct gguf_value value = { type, true, count, elements, n_bytes };
    return put(w, str_of(key), &value, err);
}

static bool is_listed(const char *const *list, struct str key)
{
    for (; list && *list; list++) {
        if (str_is(key, *list))
            return true;
    }
    return false;
}

enum status gguf_writer_copy_metadata(struct gguf_writer *w, const struct gguf *g,
                                      const char *const *except, struct error *err)
{
    for (size_t i = 0; i < g->n_pairs; i++) {
        struct str key = g->pairs[i].key;
        if (str_is(key, "general.alignment") || str_starts(key, STR("split.")) ||
            is_listed(except, key) || strmap_find(&w->keys, key, NULL))
            continue;
        TRY(put(w, key, &g->pairs[i].value, err));
    }
    return STATUS_OK;
}

enum status gguf_writer_declare(struct gguf_writer *w, struct str name, enum tensor_type type,
                                int n_dims, const int64_t *dim, struct error *err)
{
    struct weight_tensor t = { .name = name, .type = type, .n_dims = n_dims };
    if (n_dims < 0 || n_dims > GGUF_MAX_DIMS || type >= TENSOR_TYPE_FIRST_OWN)
        return error_set(err, STATUS_UNSUPPORTED, "tensor \"%.*s\": %d dimensions of type %s "
                         "cannot be stored in a GGUF", GGUF_NAME_ARG(name), n_dims,
                         tensor_type_name(type));
    for (int i = 0; i < n_dims; i++) {
        if (dim[i] < 1)
            return error_set(err, STATUS_INVALID, "tensor \"%.*s\": dimension %d is %lld",
                             GGUF_NAME_ARG(name), i, (long long)dim[i]);
        t.dim[i] = dim[i];
    }
    TRY(weight_tensor_size(&t, &t.n_bytes, err));
    uint64_t mask = (uint64_t)w->alignment - 1, end;
    if (__builtin_add_overflow(w->data_bytes, t.n_bytes, &end) || end > INT64_MAX - mask)
        return error_set(err, STATUS_LIMIT, "tensor \"%.*s\": all tensors together do not fit "
                         "63 bits", GGUF_NAME_ARG(name));
    TRY(take_name(w, &w->tensor_names, "tensor", name, err));
    add_string(&w->infos, name);
    add_u32(&w->infos, (uint32_t)n_dims);
    for (int i = n_dims - 1; i >= 0; i--)
        add_u64(&w->infos, (uint64_t)dim[i]);
    add_u32(&w->infos, (uint32_t)type);
    add_u64(&w->infos, w->data_bytes);
    w->data_bytes = (end + mask) & ~mask;
    mem_reserve((void **)&w->tensors, &w->capacity, w->n_tensors + 1, sizeof(*w->tensors));
    w->tensors[w->n_tensors++] = (struct declared){ arena_str(&w->names, name), t.n_bytes };
    return STATUS_OK;
}

static enum status pad(struct gguf_writer *w, uint64_t position, struct error *err)
{
    static const uint8_t zeros[4096];
    size_t n = (size_t)(-position & (w->alignment - 1));
    while (n) {
        size_t piece = MIN(n, sizeof(zeros));
        TRY(file_writer_write(&w->file, zeros, piece, err));
        n -= piece;
    }
    return STATUS_OK;
}

static enum status start(struct gguf_writer *w, struct error *err)
{
    if (w->started)
        return STATUS_OK;
    w->started = true;
    struct strbuf head;
    strbuf_init(&head, 64);
    strbuf_puts(&head, "GGUF");
    add_u32(&head, 3);
    add_u64(&head, w->n_tensors);
    add_u64(&head, w->n_pairs);
    uint64_t size = head.len + w->pairs.len + w->infos.len;
    enum status s = file_writer_write(&w->file, head.ptr, head.len, err);
    strbuf_release(&head);
    if (s == STATUS_OK)
        s = file_writer_write(&w->file, w->pairs.ptr, w->pairs.len, err);
    if (s == STATUS_OK)
        s = file_writer_write(&w->file, w->infos.ptr, w->infos.len, err);
    return s == STATUS_OK ? pad(w, size, err) : s;
}

enum status gguf_writer_write(struct gguf_writer *w, const void *bytes, size_t n,
                              struct error *err)
{
    TRY(start(w, err));
    if (w->current == w->n_tensors)
        return error_set(err, STATUS_INVALID, "%s: %zu bytes behind the last tensor",
                         w->file.path, n);
    const struct declared *t = &w->tensors[w->current];
    if (n > t->n_bytes - w->written)
        return error_set(err, STATUS_INVALID, "tensor \"%.*s\": %zu bytes are more than the %zu "
                         "that are missing", GGUF_NAME_ARG(t->name), n, t->n_bytes - w->written);
    TRY(file_writer_write(&w->file, bytes, n, err));
    w->written += n;
    if (w->written < t->n_bytes)
        return STATUS_OK;
    TRY(pad(w, w->written, err));
    w->current++;
    w->written = 0;
    return STATUS_OK;
}

enum status gguf_writer_finish(struct gguf_writer *w, struct error *err)
{
    TRY(start(w, err));
    if (w->current < w->n_tensors) {
        const struct declared *t = &w->tensors[w->current];
        return error_set(err, STATUS_INVALID, "tensor \"%.*s\": %zu of %zu bytes were written",
                         GGUF_NAME_ARG(t->name), w->written, t->n_bytes);
    }
    return file_writer_commit(&w->file, err);
}
