/* cpu_device: the CPU as a device: a thread pool and a table of kernels chosen once.
 * Owns its pool and everything it allocated; freed through device->ops->release. */
#ifndef CPU_CPU_DEVICE_H
#define CPU_CPU_DEVICE_H

#include "base/error.h"
#include "tensor/device.h"

struct cpu_device_options {
    int n_threads;         /* 0: physical cores of the cgroup */
    bool exact, deterministic;
    const char *isa;       /* highest set allowed: "reference", "avx2", "avx512", ...; NULL: best */
    bool keep_file_layout; /* never repack: less memory, slower */
};

MUST_CHECK enum status cpu_device_new(const struct cpu_device_options *, struct device **out,
                                      struct error *err);
int cpu_device_threads(const struct device *);
const char *cpu_device_isa(const struct device *); /* "avx2", "avx512", ... */

#endif
