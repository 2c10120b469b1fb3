#include "cpu/arm/vec_neon.h"

#include "cpu/vector_body.h"

#include "cpu/attention_body.h"

VECTOR_KERNELS(neon);
