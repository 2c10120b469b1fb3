/* token_hash: hashing of short byte strings, keyed per process so that a hostile vocabulary
 * cannot collide on purpose. */
#ifndef TEXT_TOKEN_HASH_H
#define TEXT_TOKEN_HASH_H

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/str.h"

static inline uint64_t token_hash_key(void)
{
    return str_hash(STR("tokenizer")) | 1;
}

/* Both halves of a 128-bit product, folded. */
HOT_INLINE uint64_t token_hash_mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

HOT_INLINE uint64_t token_hash(uint64_t key, const char *p, size_t n)
{
    uint64_t h = key ^ (n * 0x9E3779B97F4A7C15u);
    uint64_t a = 0, b = 0;
    while (n > 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = token_hash_mix(a ^ h, b ^ 0xA0761D6478BD642Fu);
        p += 16;
        n -= 16;
    }
    a = b = 0;
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
    } else if (n > 0) {
        a = (uint8_t)p[0] | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint64_t)(uint8_t)p[n - 1] << 16;
    }
    return token_hash_mix(token_hash_mix(a ^ h, b ^ 0xE7037ED1A0B428DBu) ^ key,
                          0x8EBC6AF09C88C6E3u);
}

#endif
