/* cpu_features: what this processor and this container offer. */
#ifndef CPU_CPU_FEATURES_H
#define CPU_CPU_FEATURES_H

#include <stdbool.h>

struct cpu_features {
    char model[64];     /* brand string */
    bool avx2;          /* with FMA, F16C, BMI2: what the *_avx2.c files need */
    bool avx_vnni;
    bool avx512;        /* F, BW, DQ, VL, VNNI and VBMI together: what the *_avx512.c files need */
    bool avx512_bf16, amx_int8, amx_bf16;
    bool neon_dotprod, neon_i8mm;
    int physical_cores; /* usable: affinity and cgroup quota applied, at least 1 */
    int logical_cpus;
    double cgroup_cpus; /* quota in CPUs, 0: none */
};
void cpu_features_read(struct cpu_features *out);

#endif
