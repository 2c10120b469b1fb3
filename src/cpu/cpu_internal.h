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
struct matmul;         /* cpu/matmul.h: packing and products, with its scratch */

enum cpu_isa { CPU_ISA_REFERENCE, CPU_ISA_AVX2, CPU_ISA_AVX512, CPU_ISA_NEON };

struct cpu_device {
    struct device base; /* first member: a device of the CPU is a struct cpu_device */
    struct cpu_features features;
    enum cpu_isa isa;
    bool keep_file_layout;
    struct thread_pool *pool;
    const struct vector_kernels *vector; /* the row kernels of `isa` */
    struct matmul *matmul;
};

static inline struct cpu_device *cpu_of(const struct step *s)
{
    return (struct cpu_device *)s->dev;
}

#endif
