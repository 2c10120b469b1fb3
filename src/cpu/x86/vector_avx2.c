#include "cpu/x86/vec_avx2.h"

#include "cpu/vector_body.h"

#include "cpu/attention_body.h"

VECTOR_KERNELS(avx2);
