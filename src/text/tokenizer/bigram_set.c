#include "text/tokenizer/bigram_set.h"

#include "base/mem.h"

#define BITS_LOG2 21

/* Decodes a character of text that is known to be valid. */
HOT_INLINE size_t next_character(const char *p, size_t n, uint32_t *c)
{
    const uint8_t *u = (const uint8_t *)p;
    if (u[0] < 0x80 || n < 2) {
        *c = u[0];
        return 1;
    }
    if (u[0] < 0xE0 || n < 3) {
        *c = (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
        return 2;
    }
    if (u[0] < 0xF0 || n < 4) {
        *c = (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
        return 3;
    }
    *c = (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
    return 4;
}

HOT_INLINE uint32_t bit_of(uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 21 | right;
    return (uint32_t)((pair * 0x9E3779B97F4A7C15u) >> (64 - BITS_LOG2));
}

void bigram_set_init(struct bigram_set *b, const struct vocab *v)
{
    b->bits = mem_zero(1, ((size_t)1 << BITS_LOG2) / 8);
    for (uint32_t id = 0; id < v->n; id++) {
        struct str text = vocab_text(v, (int32_t)id);
        uint32_t left = 0, right = 0;
        for (size_t i = 0; i < text.len; left = right) {
            bool first = i == 0;
            i += next_character(text.ptr + i, text.len - i, &right);
            if (first)
                continue;
            if ((left | right) < 128) {
                b->pairs[left][right] = true;
                continue;
            }
            uint32_t bit = bit_of(left, right);
            b->bits[bit / 64] |= (uint64_t)1 << (bit % 64);
        }
    }
}

void bigram_set_release(struct bigram_set *b)
{
    mem_free(b->bits);
    b->bits = NULL;
}

size_t bigram_set_chunk(const struct bigram_set *b, struct str text)
{
    uint32_t left = 0, right = 0;
    size_t i = next_character(text.ptr, text.len, &left);
    while (i < text.len) {
        size_t n = next_character(text.ptr + i, text.len - i, &right);
        if ((left | right) < 128) {
            if (!b->pairs[left][right])
                return i;
        } else {
            uint32_t bit = bit_of(left, right);
            if (!(b->bits[bit / 64] >> (bit % 64) & 1))
                return i;
        }
        left = right;
        i += n;
    }
    return i;
}
