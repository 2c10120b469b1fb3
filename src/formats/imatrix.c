/* The older form, numbers little-endian:
 *
 *   i32 number of entries; for each: i32 length and bytes of the name, i32 number of calls,
 *   i32 n, f32[n] mean squares times calls; then (in newer files) i32 number of chunks, i32 length
 *   and bytes of the data set's name.
 *
 * The GGUF form: general.type "imatrix"; for a weight NAME two F32 tensors, NAME.in_sum2
 * [n_matrices][n_columns], sums of squares, and NAME.counts [n_matrices][1], how many rows were
 * summed; imatrix.chunk_count, imatrix.datasets (strings).
 */
#include "formats/imatrix.h"

#include <math.h>
#include <string.h>

#include "base/mapped_file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "formats/gguf.h"

#define NAME_ARG(s) (int)MIN((s).len, (size_t)160), (s).ptr
#define SMALLEST_ENTRY 17 /* name length, one byte of name, calls, count, one value */
#define MAX_NAME 65535

struct cursor {
    const uint8_t *bytes;
    size_t size, at;
    struct error *err;
};

static bool take_i32(struct cursor *c, int32_t *out)
{
    if (c->size - c->at < 4)
        return false;
    memcpy(out, c->bytes + c->at, 4);
    c->at += 4;
    return true;
}

/* A length and that many bytes. */
static bool take_text(struct cursor *c, struct str *out)
{
    int32_t n;
    if (!take_i32(c, &n) || n < 0 || n > MAX_NAME || (size_t)n > c->size - c->at)
        return false;
    *out = (struct str){ (const char *)c->bytes + c->at, (size_t)n };
    c->at += (size_t)n;
    return utf8_valid(*out);
}

static enum status add_entry(struct imatrix *m, struct str name, const float *values, size_t n,
                             struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]) || values[i] < 0)
            return error_set(err, STATUS_INVALID, "entry \"%.*s\": importance %zu of %zu is %g, "
                             "expected a finite number of at least 0", NAME_ARG(name), i, n,
                             (double)values[i]);
    }
    name = arena_str(&m->arena, name);
    if (!strmap_insert(&m->index, name, (uint32_t)m->n_entries, NULL))
        return error_set(err, STATUS_INVALID, "entry \"%.*s\" is there twice", NAME_ARG(name));
    m->entries[m->n_entries++] = (struct imatrix_entry){ name, values, n };
    return STATUS_OK;
}

static enum status read_old_entry(struct imatrix *m, struct cursor *c)
{
    struct str name;
    int32_t n_calls, n;
    if (!take_text(c, &name) || name.len == 0)
        return error_set(c->err, STATUS_INVALID, "entry %zu: its name is empty, not UTF-8, longer "
                         "than %d bytes or beyond file size %zu", m->n_entries, MAX_NAME,
                         c->size);
    if (!take_i32(c, &n_calls) || !take_i32(c, &n) || n < 1 ||
        (size_t)n > (c->size - c->at) / sizeof(float))
        return error_set(c->err, STATUS_INVALID, "entry \"%.*s\": its values are none or more "
                         "than file size %zu holds", NAME_ARG(name), c->size);
    float *values = arena_alloc(&m->arena, (size_t)n * sizeof(float));
    memcpy(values, c->bytes + c->at, (size_t)n * sizeof(float));
    c->at += (size_t)n * sizeof(float);
    for (int32_t i = 0; i < n && n_calls > 0; i++)
        values[i] /= (float)n_calls;
    return add_entry(m, name, values, (size_t)n, c->err);
}

static enum status read_old(struct imatrix *m, struct cursor *c)
{
    int32_t n, n_chunks;
    if (!take_i32(c, &n))
        return error_set(c->err, STATUS_INVALID, "file size %zu is too small for an importance "
                         "matrix", c->size);
    if (n < 1 || (size_t)n > (c->size - c->at) / SMALLEST_ENTRY)
        return error_set(c->err, STATUS_INVALID, "not an importance matrix: entry count %d, file "
                         "size %zu", n, c->size);
    m->entries = mem_zero((size_t)n, sizeof(*m->entries));
    strmap_init(&m->index, (size_t)n);
    for (int32_t i = 0; i < n; i++)
        TRY(read_old_entry(m, c));
    if (!take_i32(c, &n_chunks))
        return STATUS_OK; /* written before chunks were counted */
    m->n_chunks = n_chunks > 0 ? (uint64_t)n_chunks : 0;
    struct str dataset = STR("");
    if (c->at < c->size && !take_text(c, &dataset))
        return error_set(c->err, STATUS_INVALID, "the data set's name is not UTF-8 or beyond file "
                         "size %zu", c->size);
    if (c->at < c->size)
        return error_set(c->err, STATUS_INVALID, "%zu bytes behind the end of the matrix",
                         c->size - c->at);
    m->dataset = arena_str(&m->arena, dataset);
    return STATUS_OK;
}

static float load_f32(const uint8_t *p)
{
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* `sums` is NAME.in_sum2. */
static enum status read_gguf_entry(struct imatrix *m, const struct gguf *g,
                                   const struct weight_tensor *sums, struct str name,
                                   struct error *err)
{
    struct str counts_name = arena_format(&m->arena, "%.*s.counts", STR_ARG(name));
    const struct weight_tensor *counts = weight_file_find(&g->weights, counts_name);
    if (name.len == 0 || sums->type != TENSOR_TYPE_F32 || sums->n_dims < 1)
        return error_set(err, STATUS_INVALID, "tensor \"%.*s\": expected rows of F32, found %d "
                         "dimensions of %s", NAME_ARG(sums->name), sums->n_dims,
                         tensor_type_name(sums->type));
    int64_t n_columns = sums->dim[sums->n_dims - 1];
    int64_t n_matrices = weight_tensor_elements(sums) / n_columns;
    if (!counts || counts->type != TENSOR_TYPE_F32 ||
        weight_tensor_elements(counts) != n_matrices)
        return error_set(err, STATUS_INVALID, "tensor \"%.*s\": expected it with %lld F32, found "
                         "%lld", NAME_ARG(counts_name), (long long)n_matrices,
                         counts ? (long long)weight_tensor_elements(counts) : 0);
    float *values = arena_alloc(&m->arena, sums->n_bytes);
    for (int64_t k = 0; k < n_matrices; k++) {
        float count = load_f32(counts->bytes + 4 * k);
        for (int64_t i = k * n_columns; i < (k + 1) * n_columns; i++)
            values[i] = count > 0 ? load_f32(sums->bytes + 4 * i) / count : 1;
    }
    return add_entry(m, name, values, (size_t)(n_matrices * n_columns), err);
}

static enum status check_gguf_kind(struct imatrix *m, const struct gguf *g, struct error *err)
{
    const struct gguf_value *type = gguf_find(g, "general.type");
    const struct gguf_value *chunks = gguf_find(g, "imatrix.chunk_count");
    const struct gguf_value *datasets = gguf_find(g, "imatrix.datasets");
    struct str text;
    if (!type || !gguf_value_str(type, &text) || !str_is(text, "imatrix"))
        return error_set(err, STATUS_INVALID, "a GGUF, but its general.type is not \"imatrix\"");
    if (chunks)
        TRY(gguf_get_u64(g, "imatrix.chunk_count", &m->n_chunks, err));
    if (datasets) {
        struct gguf_string_iter it = gguf_strings_begin(datasets);
        if (gguf_strings_next(&it, &text) && utf8_valid(text))
            m->dataset = arena_str(&m->arena, text);
    }
    return STATUS_OK;
}

static enum status read_gguf(struct imatrix *m, const struct gguf *g, struct error *err)
{
    static const struct str suffix = { ".in_sum2", 8 };
    TRY(check_gguf_kind(m, g, err));
    m->entries = mem_zero(g->weights.n_tensors, sizeof(*m->entries));
    for (size_t i = 0; i < g->weights.n_tensors; i++) {
        const struct weight_tensor *t = &g->weights.tensors[i];
        if (str_ends(t->name, suffix))
            TRY(read_gguf_entry(m, g, t, str_slice(t->name, 0, t->name.len - suffix.len), err));
    }
    if (m->n_entries == 0)
        return error_set(err, STATUS_INVALID, "no tensor ends in .in_sum2");
    return STATUS_OK;
}

enum status imatrix_open_memory(struct imatrix *m, const char *label, const void *bytes, size_t n,
                                struct error *err)
{
    enum status s;
    *m = (struct imatrix){ .dataset = STR("") };
    if (n >= 4 && memcmp(bytes, "GGUF", 4) == 0) {
        struct gguf g;
        TRY(gguf_open_memory(&g, label, bytes, n, err));
        s = read_gguf(m, &g, err);
        gguf_close(&g);
    } else {
        struct cursor c = { bytes, n, 0, err };
        s = read_old(m, &c);
    }
    if (s != STATUS_OK) {
        error_prefix(err, "%s", label);
        imatrix_release(m);
    }
    return s;
}

enum status imatrix_open(struct imatrix *m, const char *path, struct error *err)
{
    struct mapped_file file;
    *m = (struct imatrix){ 0 };
    TRY(mapped_file_open(&file, path, err));
    enum status s = imatrix_open_memory(m, path, file.bytes, file.size, err);
    if (s == STATUS_OK && mapped_file_damaged(&file)) {
        imatrix_release(m);
        s = error_set(err, STATUS_IO, "%s: became shorter than %zu bytes while it was read", path,
                      file.size);
    }
    mapped_file_close(&file);
    return s;
}

void imatrix_release(struct imatrix *m)
{
    mem_free(m->entries);
    strmap_release(&m->index);
    arena_release(&m->arena);
    *m = (struct imatrix){ 0 };
}

const struct imatrix_entry *imatrix_find(const struct imatrix *m, struct str name)
{
    uint32_t at;
    return strmap_find(&m->index, name, &at) ? &m->entries[at] : NULL;
}
