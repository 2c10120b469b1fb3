/* Seeds: tests/data/hostile/safetensors. */
#include <stddef.h>
#include <stdint.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weight_file f;
    struct error e;
    unsigned sum = 0;
    if (safetensors_open_memory(&f, "input", data, size, &e) != STATUS_OK)
        return 0;
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct weight_tensor *t = &f.tensors[i];
        if (t->n_bytes)
            sum += t->bytes[0] + t->bytes[t->n_bytes - 1];
    }
    weight_file_close(&f);
    volatile unsigned kept = sum; /* so that the reads are not optimized away */
    (void)kept;
    return 0;
}
