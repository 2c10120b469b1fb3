/* Seeds: tests/data/hostile/gguf. Opens the bytes as a GGUF and reads everything it shows. */
#include <stddef.h>
#include <stdint.h>

#include "formats/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf g;
    struct error e;
    unsigned sum = 0;
    if (gguf_open_memory(&g, "input", data, size, &e) != STATUS_OK)
        return 0;
    for (size_t i = 0; i < g.n_pairs; i++) {
        const struct gguf_value *v = &g.pairs[i].value;
        char text[128];
        double d;
        gguf_value_describe(v, text, sizeof(text));
        struct gguf_string_iter it = gguf_strings_begin(v);
        for (struct str s; gguf_strings_next(&it, &s);)
            sum += s.len ? (unsigned char)s.ptr[s.len - 1] : 1u;
        for (uint64_t k = 0; k < v->count && k < 64; k++)
            sum += gguf_value_f64(v, k, &d);
    }
    for (size_t i = 0; i < g.weights.n_tensors; i++) {
        const struct weight_tensor *t = &g.weights.tensors[i];
        sum += t->bytes[0] + t->bytes[t->n_bytes - 1];
    }
    gguf_close(&g);
    volatile unsigned kept = sum; /* so that the reads are not optimized away */
    (void)kept;
    return 0;
}
