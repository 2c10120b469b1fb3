/* Seeds: fuzz/corpus/state_file, by tools/gen_state_seeds.py. The checksum of the index is made
 * right, so that the rest is reached. */
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/state_file.h"

#define TAIL_BYTES 16 /* checksum and bytes of the index, magic */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size)
{
    const struct state_shape shape = {
        .fingerprint = 0x1234,
        .page_tokens = 64,
        .n_vocab = 1000,
        .bytes = { 4096, 0, 100 },
    };
    struct state_file f;
    struct error e;
    if (state_file_parse(&f, "input", data, size, &shape, &e) == STATUS_OK)
        state_file_release(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size);
    if (size < TAIL_BYTES)
        return 0;
    uint8_t *sealed = mem_copy(data, size), *tail = sealed + size - TAIL_BYTES;
    uint32_t n = (uint32_t)tail[4] | (uint32_t)tail[5] << 8;
    n = (uint32_t)MIN(n, size - TAIL_BYTES);
    uint32_t sum = (uint32_t)crc32(0, tail - n, n);
    for (int i = 0; i < 4; i++)
        tail[i] = (uint8_t)(sum >> 8 * i);
    parse(sealed, size);
    mem_free(sealed);
    return 0;
}
