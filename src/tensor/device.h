/* device: where weights live and ops run.
 *
 * Models never see a device; ops.c is the only caller of `kernels`. A kernel entry that is NULL
 * is composed by ops.c from smaller ops and counted in `composed_ops`: nothing falls back in
 * silence. Threads: one engine thread drives a device; loading runs before that. */
#ifndef TENSOR_DEVICE_H
#define TENSOR_DEVICE_H

#include <stdint.h>

#include "base/error.h"
#include "tensor/tensor.h"

struct op_kernels; /* tensor/op_kernels.h */

/* A weight as it lies in its file. */
struct weight_bytes {
    const void *data;
    size_t n;
    /* Called when a part was read for the last time, so that its memory can be given back while
     * the rest is still being read; from any thread; may be NULL. */
    void (*forget)(void *user, size_t offset, size_t n);
    void *user;
};

struct device_ops {
    /* Makes w resident: sets dev, data, layout, bytes, owned. w->name, type, shape and scale are
     * set. The device may borrow the mapping (layout FILE) and then forgets nothing. */
    enum status (*weight_load)(struct device *, struct weight *w, const struct weight_bytes *from,
                               struct error *);
    void (*weight_release)(struct device *, struct weight *w);
    /* What weight_load would allocate, from type and shape alone (`plan`); 0: borrowed. */
    size_t (*weight_bytes)(const struct device *, const struct weight *w);
    /* Zeroed device memory for KV and state; NO_MEMORY names both sizes. */
    enum status (*memory_take)(struct device *, size_t bytes, void **out, struct error *);
    void (*memory_drop)(struct device *, void *block, size_t bytes);
    enum status (*copy_in)(struct device *, void *to, const void *host, size_t n, struct error *);
    enum status (*copy_out)(struct device *, void *host, const void *from, size_t n,
                            struct error *);
    /* Bytes of one page of keys (or values): page_tokens rows of `dim` values for each head;
     * 0: this type cannot hold rows of that length. */
    int64_t (*kv_page_bytes)(const struct device *, enum tensor_type, int32_t n_heads, int32_t dim,
                             int32_t page_tokens);
    void (*release)(struct device *);
};

struct device {
    const char *name; /* "cpu", "cuda:0" */
    const struct device_ops *ops;
    const struct op_kernels *kernels;
    uint64_t composed_ops;
    bool host_memory;   /* the host may read what memory_take returned */
    bool exact;         /* f32 activations, no approximations, fixed reduction order */
    bool deterministic; /* a row's result never depends on its neighbours */
};

#endif
