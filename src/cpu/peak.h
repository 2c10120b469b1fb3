/* peak: what this machine can do at most, measured: the roofs that a benchmark is held against.
 *
 * Rates of n_threads threads together, the best of several runs of some ten milliseconds each.
 * Multiply and add count as two operations. 0: this processor or build has no loop for it.
 * Threads: the caller's and n_threads - 1 of its own, which end before it returns. */
#ifndef CPU_PEAK_H
#define CPU_PEAK_H

#include <stdint.h>

#include "base/error.h"

struct cpu_peak {
    const char *isa;       /* of the arithmetic: "avx2", "avx512" */
    int n_threads;
    double read_gb_s;      /* from memory, 1e9 bytes */
    double f32_gflop_s;    /* fused multiply-add */
    double bf16_gflop_s;
    double int8_gop_s;
};

/* NO_MEMORY: the buffer that is read (512 MiB) cannot be had. */
MUST_CHECK enum status cpu_peak_measure(int n_threads, struct cpu_peak *out, struct error *err);

/* The loops of one instruction set; each returns something that depends on all results. */
struct peak_kernels {
    const char *isa;
    float (*f32)(int64_t rounds);  /* does rounds * f32_ops operations */
    float (*int8)(int64_t rounds);
    float (*read)(const void *bytes, int64_t n); /* n: a multiple of 256 */
    double f32_ops, int8_ops;
};
extern const struct peak_kernels peak_kernels_avx2, peak_kernels_avx512;

/* Pairs of bf16 multiplied and added to f32; not every processor with AVX-512 has it. */
struct peak_loop {
    float (*run)(int64_t rounds); /* does rounds * ops operations */
    double ops;
};
extern const struct peak_loop peak_bf16_avx512bf16;

#endif
