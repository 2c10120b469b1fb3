#include "tensor/tensor.h"

static int64_t element_bytes(enum tensor_type type)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    CHECK(info && info->block_elements == 1);
    return info->block_bytes;
}

struct tensor tensor_of(void *data, enum tensor_type type, int n_dims, const int64_t *dim)
{
    CHECK(n_dims >= 1 && n_dims <= TENSOR_MAX_DIMS);
    struct tensor t = { .data = data, .type = type, .n_dims = n_dims };
    int64_t stride = element_bytes(type);
    for (int i = n_dims - 1; i >= 0; i--) {
        CHECK(dim[i] >= 0);
        t.dim[i] = dim[i];
        t.stride_bytes[i] = stride;
        CHECK(!__builtin_mul_overflow(stride, dim[i], &stride));
    }
    return t;
}

struct tensor tensor_2d(void *data, enum tensor_type type, int64_t rows, int64_t cols)
{
    return tensor_of(data, type, 2, (int64_t[]){ rows, cols });
}

static void *offset(void *data, int64_t bytes)
{
    return data ? (uint8_t *)data + bytes : NULL;
}

struct tensor tensor_rows(const struct tensor *t, int64_t first, int64_t n)
{
    CHECK(first >= 0 && n >= 0 && first <= t->dim[0] - n);
    struct tensor part = *t;
    part.data = offset(t->data, first * t->stride_bytes[0]);
    part.dim[0] = n;
    return part;
}

struct tensor tensor_split(const struct tensor *t, int64_t n, int64_t width)
{
    CHECK(t->n_dims < TENSOR_MAX_DIMS && t->dim[t->n_dims - 1] == n * width);
    struct tensor view = *t;
    int last = t->n_dims;
    view.n_dims = last + 1;
    view.dim[last - 1] = n;
    view.dim[last] = width;
    view.stride_bytes[last] = t->stride_bytes[last - 1];
    view.stride_bytes[last - 1] = t->stride_bytes[last - 1] * width;
    return view;
}

struct tensor tensor_columns(const struct tensor *t, int64_t first, int64_t n)
{
    CHECK(t->n_dims == 2 && first >= 0 && n >= 0 && first <= t->dim[1] - n);
    struct tensor part = *t;
    part.data = offset(t->data, first * t->stride_bytes[1]);
    part.dim[1] = n;
    return part;
}

int64_t tensor_count(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dim[i];
    return n;
}

bool tensor_is_contiguous(const struct tensor *t)
{
    int64_t stride = element_bytes(t->type);
    for (int i = t->n_dims - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride_bytes[i] != stride)
            return false;
        stride *= t->dim[i];
    }
    return true;
}
