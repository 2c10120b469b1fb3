/* kv_pages: how the CPU arranges keys and values inside a page.
 *
 *   keys:   [n_kv_heads] x page_tokens / 16 key groups; a group holds the rows of 16 keys,
 *           interleaved number by number, so that one vector is one element of 8 or 16 keys:
 *           for each block of the type 16 scales (where it has one), then [codes][16].
 *   values: [n_kv_heads][page_tokens] rows.
 *
 *   Q8_0 group:  |scale of key 0..15, 32 bytes|code 0 of key 0..15|code 1 ...| next 32 elements
 * Rows and types: quant/kv_codec.h. */
#ifndef CPU_KV_PAGES_H
#define CPU_KV_PAGES_H

#include "tensor/device.h"
#include "tensor/kv.h"

/* device_ops.kv_page_bytes */
int64_t kv_page_bytes(const struct device *, enum tensor_type, int32_t n_heads, int32_t dim,
                      int32_t page_tokens);

/* The key group of `head` that holds line `line` of a page, and the value row. */
const uint8_t *kv_key_group(const struct kv_layer *, int32_t page, int32_t head, int32_t line);
const uint8_t *kv_value_row(const struct kv_layer *, int32_t page, int32_t head, int32_t line);

void kv_store_key(const struct kv_layer *, int32_t page, int32_t head, int32_t line,
                  const float *key);
void kv_store_value(const struct kv_layer *, int32_t page, int32_t head, int32_t line,
                    const float *value);

/* One key, out of its group, and one value: as they were stored, rotations undone. */
void kv_load_key(const struct kv_layer *, int32_t page, int32_t head, int32_t line, float *key);
void kv_load_value(const struct kv_layer *, int32_t page, int32_t head, int32_t line, float *value);

/* The page of token `t` of a sequence; -1 before its window. */
static inline int32_t kv_page_of(const struct kv_layer *kv, const int32_t *table, int32_t t)
{
    return table[t / kv->page_tokens];
}

#endif
