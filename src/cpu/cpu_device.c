#include "cpu/cpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_internal.h"
#include "cpu/kv_pages.h"
#include "cpu/matmul.h"
#include "cpu/rows16.h"
#include "cpu/vector_kernels.h"
#include "quant/dequant.h"

const struct op_kernels cpu_op_kernels = {
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .linear = cpu_linear,
    .linear_group = cpu_linear_group,
    .linear_glu = cpu_linear_glu,
    .rope = cpu_rope,
    .kv_append = cpu_kv_append,
    .attention = cpu_attention,
    .causal_conv = cpu_causal_conv,
    .delta_net = cpu_delta_net,
    .add = cpu_add,
    .multiply = cpu_multiply,
    .scale = cpu_scale,
    .softcap = cpu_softcap,
    .activate = cpu_activate,
    .select_rows = cpu_select_rows,
};

/* --- weights ------------------------------------------------------------------------------ */

static enum weight_layout layout_for(const struct cpu_device *d, const struct weight *w)
{
    if (w->n_rows == 1 && w->n_experts == 1)
        return WEIGHT_LAYOUT_F32;
    if (d->isa == CPU_ISA_REFERENCE || d->keep_file_layout || w->lookup ||
        !matmul_supports(w->type, w->n_cols))
        return WEIGHT_LAYOUT_FILE;
    return WEIGHT_LAYOUT_ROWS16;
}

static size_t cpu_weight_bytes(const struct device *dev, const struct weight *w)
{
    switch (layout_for((const struct cpu_device *)dev, w)) {
    case WEIGHT_LAYOUT_F32:
        return (size_t)w->n_cols * sizeof(float);
    case WEIGHT_LAYOUT_ROWS16:
        return matmul_packed_bytes(w->type, w->n_rows, w->n_cols) * (size_t)w->n_experts;
    default:
        return 0;
    }
}

struct pack_job {
    const struct weight *w;
    const struct weight_bytes *from;
    uint8_t *packed;
    size_t file_bytes, packed_bytes; /* of one expert */
    int64_t n_groups, groups_each;
    int chunks_each;
};

static void pack_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    const struct pack_job *j = arg;
    size_t expert = (size_t)(chunk / j->chunks_each);
    int64_t from = chunk % j->chunks_each * j->groups_each;
    int64_t to = MIN(from + j->groups_each, j->n_groups);
    const uint8_t *file = j->from->data;
    matmul_pack(j->w->type, j->w->n_rows, j->w->n_cols, file + expert * j->file_bytes,
                j->packed + expert * j->packed_bytes, from, to);
    if (!j->from->forget)
        return;
    size_t row = j->file_bytes / (size_t)j->w->n_rows;
    size_t first = row * (size_t)(ROWS16_ROWS * from);
    size_t end = row * (size_t)MIN(ROWS16_ROWS * to, j->w->n_rows);
    j->from->forget(j->from->user, expert * j->file_bytes + first, end - first);
}

static void pack(struct cpu_device *d, const struct weight *w, const struct weight_bytes *from,
                 void *packed, size_t packed_bytes)
{
    size_t experts = (size_t)w->n_experts;
    struct pack_job job = { .w = w, .from = from, .packed = packed,
                            .file_bytes = from->n / experts,
                            .packed_bytes = packed_bytes / experts,
                            .n_groups = matmul_row_groups(w->n_rows), .groups_each = 8 };
    job.chunks_each = (int)((job.n_groups + job.groups_each - 1) / job.groups_each);
    thread_pool_run(d->pool, job.chunks_each * (int)experts, pack_chunk, &job);
}

static enum status check_file_bytes(const struct weight *w, size_t n, struct error *err)
{
    size_t row, all;
    if (w->scale.kind != WEIGHT_SCALE_NONE)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%.*s: %s with separate scales is not supported on the CPU",
                         STR_ARG(w->name), tensor_type_name(w->type));
    if (w->n_rows < 1 || w->n_cols < 1 || w->n_experts < 1 ||
        !tensor_type_row_bytes(w->type, w->n_cols, &row) ||
        __builtin_mul_overflow(row, (size_t)w->n_rows, &all) ||
        __builtin_mul_overflow(all, (size_t)w->n_experts, &all))
        return error_set(err, STATUS_INVALID, "%.*s: %s [%lld, %lld] is no matrix of whole blocks",
                         STR_ARG(w->name), tensor_type_name(w->type), (long long)w->n_rows,
                         (long long)w->n_cols);
    if (all != n)
        return error_set(err, STATUS_INVALID, "%.*s: expected %zu bytes, found %zu",
                         STR_ARG(w->name), all, n);
    return STATUS_OK;
}

static enum status cpu_weight_load(struct device *dev, struct weight *w,
                                   const struct weight_bytes *from, struct error *err)
{
    struct cpu_device *d = (struct cpu_device *)dev;
    TRY(check_file_bytes(w, from->n, err));
    w->dev = dev;
    w->layout = layout_for(d, w);
    w->bytes = cpu_weight_bytes(dev, w);
    w->owned = w->layout != WEIGHT_LAYOUT_FILE;
    if (!w->owned) {
        w->data = from->data;
        return STATUS_OK;
    }
    void *data = w->layout == WEIGHT_LAYOUT_F32 ? mem_alloc(w->bytes) : mem_try_pages(w->bytes);
    if (!data)
        return error_set(err, STATUS_NO_MEMORY, "%.*s: no memory for %zu bytes", STR_ARG(w->name),
                         w->bytes);
    w->data = data;
    if (w->layout == WEIGHT_LAYOUT_F32)
        dequant_row(w->type, from->data, data, w->n_cols);
    else
        pack(d, w, from, data, w->bytes);
    return STATUS_OK;
}

static void cpu_weight_release(struct device *dev, struct weight *w)
{
    (void)dev;
    if (w->owned && w->layout == WEIGHT_LAYOUT_F32)
        mem_free((void *)w->data);
    else if (w->owned)
        mem_release_pages((void *)w->data, w->bytes);
    w->data = NULL;
    w->owned = false;
    w->bytes = 0;
}

void cpu_file_row(const struct weight *w, int64_t row, float *out)
{
    size_t row_bytes;
    CHECK(tensor_type_row_bytes(w->type, w->n_cols, &row_bytes));
    dequant_row(w->type, (const uint8_t *)w->data + (size_t)row * row_bytes, out, w->n_cols);
}

/* --- memory ------------------------------------------------------------------------------- */

static enum status cpu_memory_take(struct device *dev, size_t bytes, void **out, struct error *err)
{
    (void)dev;
    *out = mem_try_lazy_pages(bytes);
    return *out ? STATUS_OK
                : error_set(err, STATUS_NO_MEMORY, "cpu: no memory for %zu bytes", bytes);
}

static void cpu_memory_drop(struct device *dev, void *block, size_t bytes)
{
    (void)dev;
    mem_release_pages(block, bytes);
}

static enum status cpu_copy(struct device *dev, void *to, const void *from, size_t n,
                            struct error *err)
{
    (void)dev;
    (void)err;
    memcpy(to, from, n);
    return STATUS_OK;
}

static void cpu_release(struct device *dev)
{
    struct cpu_device *d = (struct cpu_device *)dev;
    cpu_rope_release(d);
    thread_pool_free(d->pool);
    mem_free(d);
}

static const struct device_ops cpu_device_ops = {
    .weight_load = cpu_weight_load,
    .weight_release = cpu_weight_release,
    .weight_bytes = cpu_weight_bytes,
    .memory_take = cpu_memory_take,
    .memory_drop = cpu_memory_drop,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .kv_page_bytes = kv_page_bytes,
    .release = cpu_release,
};

/* --- the device --------------------------------------------------------------------------- */

static const char *const isa_names[] = { "reference", "avx2", "avx512", "neon" };

static enum status choose_isa(struct cpu_device *d, const char *cap, struct error *err)
{
    bool offered[ARRAY_SIZE(isa_names)] = { true };
    offered[CPU_ISA_AVX2] = d->features.avx2;
    offered[CPU_ISA_AVX512] = d->features.avx512;
    offered[CPU_ISA_NEON] = d->features.neon_dotprod;
    size_t best = 0, limit = ARRAY_SIZE(isa_names) - 1;
    if (cap) {
        for (limit = 0; limit < ARRAY_SIZE(isa_names) && strcmp(cap, isa_names[limit]);)
            limit++;
        if (limit == ARRAY_SIZE(isa_names) || !offered[limit])
            return error_set(err, STATUS_UNSUPPORTED,
                             "instruction set: %s is not available on this processor (%s)", cap,
                             d->features.model);
    }
    for (size_t i = 0; i <= limit; i++)
        best = offered[i] ? i : best;
    d->isa = (enum cpu_isa)best;
    return STATUS_OK;
}

static void bind_kernels(struct cpu_device *d)
{
    switch (d->isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2:
        d->vector = &vector_kernels_avx2;
        break;
    case CPU_ISA_AVX512:
        d->vector = &vector_kernels_avx512;
        break;
#elif defined(__aarch64__)
    case CPU_ISA_NEON:
        d->vector = &vector_kernels_neon;
        break;
#endif
    default:
        d->isa = CPU_ISA_REFERENCE;
    }
    d->products = matmul_kernels_choose(&d->features, isa_names[d->isa]);
    if (!d->products) /* the set has row kernels only */
        d->products = matmul_kernels_choose(&d->features, "reference");
    d->base.kernels = d->isa == CPU_ISA_REFERENCE ? &cpu_reference_kernels : &cpu_op_kernels;
    CHECK(d->products || d->isa == CPU_ISA_REFERENCE);
}

/* Are all cores of this machine ours? Then a thread may keep its core. */
static bool may_pin(const struct cpu_features *f, int n_threads)
{
    double load;
    return n_threads == f->physical_cores && f->cgroup_cpus == 0 && n_threads >= 4 &&
           getloadavg(&load, 1) == 1 && load < 0.25 * n_threads;
}

enum status cpu_device_new(const struct cpu_device_options *o, struct device **out,
                           struct error *err)
{
    struct cpu_device *d = mem_new(struct cpu_device);
    d->base.name = "cpu";
    d->base.ops = &cpu_device_ops;
    d->base.host_memory = true;
    d->base.exact = o->exact;
    d->base.deterministic = o->deterministic;
    d->keep_file_layout = o->keep_file_layout;
    cpu_features_read(&d->features);
    int n_threads = o->n_threads > 0 ? o->n_threads
                                     : MIN(d->features.physical_cores, THREAD_POOL_MAX);
    enum status s = choose_isa(d, o->isa, err);
    if (s == STATUS_OK)
        s = thread_pool_new(n_threads, may_pin(&d->features, n_threads), &d->pool, err);
    if (s != STATUS_OK) {
        mem_free(d);
        return s;
    }
    bind_kernels(d);
    *out = &d->base;
    return STATUS_OK;
}

int cpu_device_threads(const struct device *dev)
{
    return thread_pool_threads(((const struct cpu_device *)dev)->pool);
}

const char *cpu_device_isa(const struct device *dev)
{
    return isa_names[((const struct cpu_device *)dev)->isa];
}
