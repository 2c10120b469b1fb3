#include "cpu/x86/vec_avx512.h"

#include "cpu/vector_body.h"

#include "cpu/attention_body.h"

VECTOR_KERNELS(avx512);
