#define VECTOR_BYTES 16
#include "cpu/logit_scan_body.h"

LOGIT_SCAN(plain);

const struct logit_scan *logit_scan_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return &logit_scan_avx2;
#endif
    return &logit_scan_plain;
}
