/* plan_device: a device that takes nothing: weights stay where they are in the file, memory is
 * only counted. Loading onto it runs the code of a real load, so that a plan cannot differ from
 * what is used later. Only measuring passes may run on it. Ownership: borrows the real device.
 * Threads: one at a time. */
#ifndef ENGINE_PLAN_DEVICE_H
#define ENGINE_PLAN_DEVICE_H

#include "tensor/device.h"

struct plan_device {
    struct device base; /* first member */
    struct device *real;
    int64_t weight_bytes, mapped_bytes, memory_bytes;
};
void plan_device_init(struct plan_device *p, struct device *real);

#endif
