/* Seeds: fuzz/corpus/state_file. */
#include <stddef.h>
#include <stdint.h>

#include "engine/state_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct state_shape shape = {
        .fingerprint = 0x1234, .page_tokens = 64, .n_vocab = 1000, .bytes = { 4096, 0, 100 },
    };
    struct state_file f;
    struct error e;
    if (state_file_parse(&f, "input", data, size, &shape, &e) == STATUS_OK)
        state_file_release(&f);
    return 0;
}
