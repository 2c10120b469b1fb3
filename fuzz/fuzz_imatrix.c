/* Seeds: fuzz/corpus/imatrix. */
#include <stddef.h>
#include <stdint.h>

#include "formats/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct imatrix m;
    struct error e;
    if (imatrix_open_memory(&m, "input", data, size, &e) == STATUS_OK)
        imatrix_release(&m);
    return 0;
}
