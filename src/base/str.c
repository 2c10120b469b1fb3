#include "base/str.h"

#include <stdatomic.h>

#include "base/rng.h"

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

int str_compare(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

size_t str_find(struct str s, struct str needle, size_t from)
{
    if (from > s.len || needle.len > s.len - from)
        return STR_NONE;
    if (needle.len == 0)
        return from;
    const char *hit = memmem(s.ptr + from, s.len - from, needle.ptr, needle.len);
    return hit ? (size_t)(hit - s.ptr) : STR_NONE;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.len && is_space(s.ptr[0]))
        s = str_slice(s, 1, s.len);
    while (s.len && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

/* The key is drawn once per process. Two threads may race to set it: the first one wins. */
static uint64_t hash_key(_Atomic uint64_t *word)
{
    uint64_t key = atomic_load_explicit(word, memory_order_relaxed);
    if (key)
        return key;
    uint64_t expected = 0;
    key = rng_random_seed() | 1;
    return atomic_compare_exchange_strong(word, &expected, key) ? key : expected;
}

static inline uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein 2012, fewer rounds as in hash tables elsewhere). */
uint64_t str_hash(struct str s)
{
    static _Atomic uint64_t keys[2];
    uint64_t k0 = hash_key(&keys[0]), k1 = hash_key(&keys[1]);
    uint64_t v[4] = { k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du,
                      k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u };
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        uint64_t word;
        memcpy(&word, s.ptr + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)s.len << 56;
    for (int shift = 0; i < s.len; i++, shift += 8)
        last |= (uint64_t)(unsigned char)s.ptr[i] << shift;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
