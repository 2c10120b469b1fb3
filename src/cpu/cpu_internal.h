/* cpu_internal: what the files of the CPU device share. Only src/cpu includes it. */
#ifndef CPU_CPU_INTERNAL_H
#define CPU_CPU_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "cpu/cpu_device.h"
#include "cpu/cpu_features.h"
#include "cpu/thread_pool.h"
#include "tensor/device.h"
#include "tensor/op_kernels.h"
#include "tensor/step.h"

struct vector_kernels; /* cpu/vector_kernels.h */
struct matmul_kernels; /* cpu/matmul.h */

/* Cosines and sines of one pass, [n_rows][n_pairs] each, kept until positions change. Families use
 * one or two ropes in turn. */
#define ROPE_TABLES 2
struct rope_table {
    float magnitude;
    int32_t n_pairs, n_rows, section[4];
    bool multi_section, interleaved;
    int32_t *position; /* as in the batch */
    float *frequency; /* a copy: [n_pairs] */
    float *cosine, *sine;
    size_t capacity_rows;
};

enum cpu_isa { CPU_ISA_REFERENCE, CPU_ISA_AVX2, CPU_ISA_AVX512, CPU_ISA_NEON };

struct cpu_device {
    struct device base; /* first member: a device of the CPU is a struct cpu_device */
    struct cpu_features features;
    enum cpu_isa isa;
    bool keep_file_layout;
    struct thread_pool *pool;
    const struct vector_kernels *vector;   /* of `isa` */
    const struct matmul_kernels *products; /* of `isa` */
    struct rope_table rope[ROPE_TABLES];
    int rope_next; /* the table to replace */
};

/* The op tables: one of fast kernels, and the reference, which is plain C with sums in binary64. */
extern const struct op_kernels cpu_op_kernels, cpu_reference_kernels;

/* Ops, one file per kind: the entries of cpu_op_kernels. */
enum status cpu_embed(struct step *, struct tensor *, const struct weight *, const int32_t *,
                      float);
enum status cpu_linear(struct step *, struct tensor *, const struct tensor *,
                       const struct weight *, const struct linear_options *);
enum status cpu_linear_group(struct step *, const struct tensor *, int, const struct linear_item *,
                             const struct norm_before *);
enum status cpu_linear_glu(struct step *, struct tensor *, const struct tensor *,
                           const struct weight *, const struct weight *, enum activation,
                           const struct norm_before *);
enum status cpu_rms_norm(struct step *, struct tensor *, const struct tensor *,
                         const struct weight *, float);
enum status cpu_add(struct step *, struct tensor *, const struct tensor *);
enum status cpu_multiply(struct step *, struct tensor *, const struct tensor *);
enum status cpu_scale(struct step *, struct tensor *, float);
enum status cpu_softcap(struct step *, struct tensor *, float);
enum status cpu_activate(struct step *, struct tensor *, enum activation);
enum status cpu_select_rows(struct step *, struct tensor *, const struct tensor *, const int32_t *,
                            int32_t);
enum status cpu_rope(struct step *, struct tensor *, const struct rope *);
void cpu_rope_release(struct cpu_device *);
enum status cpu_kv_append(struct step *, const struct kv_layer *, const struct tensor *,
                          const struct tensor *);
enum status cpu_attention(struct step *, struct tensor *, const struct tensor *,
                          const struct kv_layer *, const struct attention_options *);
enum status cpu_causal_conv(struct step *, struct tensor *, const struct tensor *,
                            const struct causal_conv *);
enum status cpu_delta_net(struct step *, struct tensor *, const struct delta_net *);

/* A matrix that the products take as it lies in the file (keep_file_layout, odd types): rows are
 * decoded one by one. */
void cpu_file_row(const struct weight *, int64_t row, float *out);

static inline struct cpu_device *cpu_of(const struct step *s)
{
    return (struct cpu_device *)s->dev;
}

#endif
