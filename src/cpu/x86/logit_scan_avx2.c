#define VECTOR_BYTES 32
#include "cpu/logit_scan_body.h"

LOGIT_SCAN(avx2);
