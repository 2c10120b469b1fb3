#include "engine/plan_device.h"

static struct plan_device *plan_of(struct device *dev)
{
    return (struct plan_device *)dev;
}

static const struct device *real_of(const struct device *dev)
{
    return ((const struct plan_device *)dev)->real;
}

static size_t plan_weight_bytes(const struct device *dev, const struct weight *w)
{
    return real_of(dev)->ops->weight_bytes(real_of(dev), w);
}

static enum status plan_weight_load(struct device *dev, struct weight *w,
                                    const struct weight_bytes *from, struct error *err)
{
    (void)err;
    size_t resident = plan_weight_bytes(dev, w);
    if (resident > 0)
        plan_of(dev)->weight_bytes += (int64_t)resident;
    else
        plan_of(dev)->mapped_bytes += (int64_t)from->n;
    w->dev = dev;
    w->data = from->data;
    /* As a device that rearranges weights would: kernels measure by it. */
    w->layout = resident == 0     ? WEIGHT_LAYOUT_FILE
                : w->n_rows == 1 ? WEIGHT_LAYOUT_F32
                                 : WEIGHT_LAYOUT_ROWS16;
    w->bytes = resident;
    w->owned = false;
    return STATUS_OK;
}

static void plan_weight_release(struct device *dev, struct weight *w)
{
    (void)dev;
    (void)w;
}

static enum status plan_memory_take(struct device *dev, size_t bytes, void **out,
                                    struct error *err)
{
    static const char somewhere[64]; /* an address that is never written to */
    (void)err;
    plan_of(dev)->memory_bytes += (int64_t)bytes;
    *out = (void *)(uintptr_t)somewhere;
    return STATUS_OK;
}

static void plan_memory_drop(struct device *dev, void *block, size_t bytes)
{
    (void)block;
    plan_of(dev)->memory_bytes -= (int64_t)bytes;
}

static int64_t plan_kv_page_bytes(const struct device *dev, enum tensor_type type,
                                  int32_t n_heads, int32_t dim, int32_t page_tokens)
{
    return real_of(dev)->ops->kv_page_bytes(real_of(dev), type, n_heads, dim, page_tokens);
}

static const struct device_ops plan_ops = {
    .weight_load = plan_weight_load,
    .weight_release = plan_weight_release,
    .weight_bytes = plan_weight_bytes,
    .memory_take = plan_memory_take,
    .memory_drop = plan_memory_drop,
    .kv_page_bytes = plan_kv_page_bytes,
};

void plan_device_init(struct plan_device *p, struct device *real)
{
    *p = (struct plan_device){ .base = *real, .real = real };
    p->base.ops = &plan_ops;
}
