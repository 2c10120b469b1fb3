#include "engine/memory_lock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/system_memory.h"
#include "formats/model_source.h"

static enum status lock_range(const void *bytes, size_t n, const char *what, struct error *err)
{
    /* mlock2, since a sanitizer replaces mlock by a function that does nothing. */
    if (n == 0 || mlock2(bytes, n, 0) == 0)
        return STATUS_OK;
    int reason = errno;
    struct system_memory memory;
    system_memory_read("", &memory);
    if (memory.memlock_bytes == SYSTEM_MEMORY_NO_LIMIT)
        return error_set(err, STATUS_NO_MEMORY, "mlock of %zu bytes of %s: %s", n, what,
                         strerror(reason));
    return error_set(err, STATUS_NO_MEMORY,
                     "mlock of %zu bytes of %s: %s; the limit (ulimit -l) is %llu bytes", n, what,
                     strerror(reason), (unsigned long long)memory.memlock_bytes);
}

/* Weights that were copied are locked where they are; the file is locked when any weight is used
 * inside it. */
enum status memory_lock_model(const struct engine_model *m, struct error *err)
{
    bool borrowed = false;
    for (int32_t i = 0; i < m->model->n_weights; i++) {
        const struct weight *w = m->model->weights[i];
        if (w->owned)
            TRY(lock_range(w->data, w->bytes, "weights", err));
        borrowed |= !w->owned;
    }
    const struct weight_file *file = m->source->weights;
    for (size_t i = 0; borrowed && i < file->n_parts; i++)
        TRY(lock_range(file->parts[i].bytes, file->parts[i].size, file->parts[i].path, err));
    return STATUS_OK;
}
