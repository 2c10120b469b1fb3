#include "tensor/step.h"

#define SCRATCH_ALIGN 64

enum status step_alloc_bytes(struct step *s, size_t bytes, void **out)
{
    size_t end;
    *out = NULL;
    if (__builtin_add_overflow(bytes, SCRATCH_ALIGN - 1, &end) ||
        __builtin_add_overflow(end & ~(size_t)(SCRATCH_ALIGN - 1), s->scratch_used, &end))
        return error_set(s->err, STATUS_NO_MEMORY, "scratch: %zu bytes more than %zu do not fit",
                         bytes, s->scratch_used);
    if (!s->measure) {
        if (end > s->scratch_bytes)
            return error_set(s->err, STATUS_NO_MEMORY, "scratch: planned %zu bytes, needed %zu",
                             s->scratch_bytes, end);
        *out = s->scratch + s->scratch_used;
    }
    s->scratch_used = end;
    s->scratch_peak = MAX(s->scratch_peak, end);
    return STATUS_OK;
}

enum status step_alloc(struct step *s, struct tensor *out, enum tensor_type type, int64_t rows,
                       int64_t cols)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    CHECK(info && info->block_elements == 1 && rows >= 0 && cols >= 0);
    int64_t count, bytes;
    if (__builtin_mul_overflow(rows, cols, &count) ||
        __builtin_mul_overflow(count, info->block_bytes, &bytes))
        return error_set(s->err, STATUS_NO_MEMORY, "scratch: %lld x %lld values do not fit",
                         (long long)rows, (long long)cols);
    void *data;
    TRY(step_alloc_bytes(s, (size_t)bytes, &data));
    *out = tensor_2d(data, type, rows, cols);
    return STATUS_OK;
}

size_t step_mark(const struct step *s)
{
    return s->scratch_used;
}

void step_release(struct step *s, size_t mark)
{
    CHECK(mark <= s->scratch_used);
    s->scratch_used = mark;
}
