/* kv: one attention layer's keys and values, in pages shared by all sequences.
 *
 *   k_pages: page 0          page 1          ...      one page = [n_kv_heads][page_tokens][row]
 *            +---------------+---------------+        row = k_dim values of k_type
 * A sequence's token t lies in page `table[t / page_tokens]`, line t % page_tokens, where table is
 * batch_sequence.page for full layers and .window_page for sliding ones (entries that lie before
 * the window are -1). The inside of a page is the device's business; device_ops.kv_page_bytes
 * says how large it is. */
#ifndef TENSOR_KV_H
#define TENSOR_KV_H

#include <stdint.h>

#include "quant/tensor_types.h"

struct kv_balance; /* tensor/kv_balance.h */

struct kv_layer {
    int32_t n_kv_heads, k_dim, v_dim;
    int32_t page_tokens;        /* a power of two, 16 to 64 */
    enum tensor_type k_type, v_type;
    int32_t window;             /* 0: full; else key j is visible to i if 0 <= i - j < window */
    uint8_t *k_pages, *v_pages; /* on the device */
    int64_t k_page_bytes, v_page_bytes;
    struct kv_balance *balance; /* how keys are shifted and scaled; NULL: not at all */
};

#endif
