#include "formats/weight_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define NAME_ARG(s) (int)MIN((s).len, (size_t)160), (s).ptr

void weight_file_close(struct weight_file *f)
{
    for (size_t i = 0; i < f->n_parts; i++)
        mapped_file_close(&f->parts[i]);
    mem_free(f->parts);
    mem_free(f->tensors);
    strmap_release(&f->index);
    arena_release(&f->arena);
    *f = (struct weight_file){ 0 };
}

const struct weight_tensor *weight_file_find(const struct weight_file *f, struct str name)
{
    uint32_t at;
    return strmap_find(&f->index, name, &at) ? &f->tensors[at] : NULL;
}

int64_t weight_tensor_elements(const struct weight_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dim[i];
    return n;
}

const char *weight_tensor_path(const struct weight_file *f, const struct weight_tensor *t)
{
    return f->parts[t->part].path;
}

void weight_file_forget(const struct weight_file *f, const struct weight_tensor *t, size_t offset,
                        size_t n)
{
    const struct mapped_file *part = &f->parts[t->part];
    CHECK(offset <= t->n_bytes && n <= t->n_bytes - offset);
    if (n)
        mapped_file_forget(part, (size_t)(t->bytes - part->bytes) + offset, n);
}

enum status weight_file_read_in(struct weight_file *f, struct error *err)
{
    for (size_t i = 0; i < f->n_parts; i++)
        TRY(mapped_file_read_in(&f->parts[i], err));
    return STATUS_OK;
}

bool weight_file_damaged(const struct weight_file *f)
{
    for (size_t i = 0; i < f->n_parts; i++) {
        if (mapped_file_damaged(&f->parts[i]))
            return true;
    }
    return false;
}

bool weight_file_changed(const struct weight_file *f)
{
    for (size_t i = 0; i < f->n_parts; i++) {
        if (mapped_file_changed(&f->parts[i]))
            return true;
    }
    return false;
}

enum status weight_file_add(struct weight_file *f, const struct weight_tensor *t,
                            struct error *err)
{
    if (f->n_tensors >= UINT32_MAX)
        return error_set(err, STATUS_LIMIT, "more than %u tensors", UINT32_MAX);
    if (!strmap_insert(&f->index, t->name, (uint32_t)f->n_tensors, NULL))
        return error_set(err, STATUS_INVALID, "tensor \"%.*s\" is listed twice",
                         NAME_ARG(t->name));
    mem_reserve((void **)&f->tensors, &f->tensor_capacity, f->n_tensors + 1, sizeof(*t));
    f->tensors[f->n_tensors++] = *t;
    return STATUS_OK;
}

enum status weight_file_merge(struct weight_file *f, struct weight_file *other, struct error *err)
{
    enum status s = STATUS_OK;
    uint32_t first_part = (uint32_t)f->n_parts;
    f->parts = mem_resize(f->parts, f->n_parts + other->n_parts, sizeof(*f->parts));
    for (size_t i = 0; i < other->n_parts; i++)
        f->parts[f->n_parts++] = other->parts[i];
    other->n_parts = 0;
    for (size_t i = 0; i < other->n_tensors && s == STATUS_OK; i++) {
        struct weight_tensor t = other->tensors[i];
        t.part += first_part;
        if (other->arena.head) /* the name may lie in the arena that goes away */
            t.name = arena_str(&f->arena, t.name);
        s = weight_file_add(f, &t, err);
        if (s != STATUS_OK)
            error_prefix(err, "%s", f->parts[t.part].path);
    }
    weight_file_close(other);
    return s;
}

static int by_address(const void *a, const void *b)
{
    const struct weight_tensor *x = *(const struct weight_tensor *const *)a;
    const struct weight_tensor *y = *(const struct weight_tensor *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x > y) - (x < y);
}

enum status weight_file_check_overlap(const struct weight_file *f, struct error *err)
{
    const struct weight_tensor **sorted = mem_zero(f->n_tensors, sizeof(*sorted));
    size_t n = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (f->tensors[i].n_bytes)
            sorted[n++] = &f->tensors[i];
    }
    qsort(sorted, n, sizeof(*sorted), by_address);
    enum status s = STATUS_OK;
    for (size_t i = 1; i < n && s == STATUS_OK; i++) {
        const struct weight_tensor *a = sorted[i - 1], *b = sorted[i];
        if ((size_t)(b->bytes - a->bytes) < a->n_bytes)
            s = error_set(err, STATUS_INVALID, "tensor \"%.*s\" shares bytes with \"%.*s\"",
                          NAME_ARG(b->name), NAME_ARG(a->name));
    }
    mem_free(sorted);
    return s;
}

enum status weight_tensor_size(const struct weight_tensor *t, size_t *n_bytes, struct error *err)
{
    const struct tensor_type_info *info = tensor_type_info(t->type);
    if (!info) {
        const char *removed = tensor_type_removed_name(t->type);
        return error_set(err, STATUS_UNSUPPORTED, "tensor \"%.*s\": unknown type %u%s%s%s",
                         NAME_ARG(t->name), (unsigned)t->type, removed ? " (" : "",
                         removed ? removed : "", removed ? ", which the format gave up)" : "");
    }
    int64_t n_cols = t->n_dims ? t->dim[t->n_dims - 1] : 1, n_rows = 1, elements;
    bool wraps = false;
    for (int i = 0; i < t->n_dims - 1; i++)
        wraps |= __builtin_mul_overflow(n_rows, t->dim[i], &n_rows);
    wraps |= __builtin_mul_overflow(n_rows, n_cols, &elements);
    if (n_cols % info->block_elements != 0)
        return error_set(err, STATUS_INVALID,
                         "tensor \"%.*s\": its rows have %lld elements, expected a multiple of "
                         "%d, the block of type %s", NAME_ARG(t->name), (long long)n_cols,
                         info->block_elements, info->name);
    size_t row_bytes;
    if (wraps || !tensor_type_row_bytes(t->type, n_cols, &row_bytes) ||
        __builtin_mul_overflow(row_bytes, (size_t)n_rows, n_bytes))
        return error_set(err, STATUS_INVALID,
                         "tensor \"%.*s\": the product of its %d dimensions does not fit 63 bits",
                         NAME_ARG(t->name), t->n_dims);
    return STATUS_OK;
}
