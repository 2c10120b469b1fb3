/* vocab: the pieces of a vocabulary: spelling, bytes, type, and the way from a spelling to its id.
 *
 * Owns copies of all text. Immutable after vocab_init(). */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "text/tokenizer/token_hash.h"
#include "text/tokenizer/tokenizer_spec.h"

struct vocab_slot {
    uint32_t tag; /* upper half of the hash */
    int32_t id;   /* TOKEN_NONE: free */
};

struct vocab {
    uint32_t n;
    char *text; /* all spellings, one behind the other */
    char *bytes; /* what the ids stand for, likewise */
    uint32_t *text_at, *bytes_at; /* [n + 1] */
    uint8_t *types;
    float *scores; /* NULL where the kind has none */
    uint64_t *hashes; /* [n], of the spellings; NULL where the kind has no merges */
    struct vocab_slot *slots;
    size_t mask;
    uint64_t key;
    uint32_t max_len; /* longest spelling in bytes */
};

/* The alphabet of byte-level pieces: the character that stands for a byte, as UTF-8. */
size_t byte_alphabet_encode(uint8_t byte, char out[4]);

MUST_CHECK enum status vocab_init(struct vocab *v, const struct tokenizer_spec *spec,
                                  struct error *err);
void vocab_release(struct vocab *v);

HOT_INLINE struct str vocab_text(const struct vocab *v, int32_t id)
{
    uint32_t at = v->text_at[id];
    return (struct str){ v->text + at, v->text_at[id + 1] - at };
}

HOT_INLINE uint64_t vocab_hash(const struct vocab *v, struct str text)
{
    return token_hash(v->key, text.ptr, text.len);
}

HOT_INLINE int32_t vocab_find_hashed(const struct vocab *v, uint64_t hash, struct str text)
{
    for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        struct vocab_slot slot = v->slots[i];
        if (slot.id == TOKEN_NONE)
            return TOKEN_NONE;
        if (slot.tag == (uint32_t)(hash >> 32) && str_eq(vocab_text(v, slot.id), text))
            return slot.id;
    }
}

HOT_INLINE int32_t vocab_find(const struct vocab *v, struct str text)
{
    return vocab_find_hashed(v, vocab_hash(v, text), text);
}

/* Id of the byte token <0xNN>, or of the alphabet's character; TOKEN_NONE if absent. */
int32_t vocab_find_byte(const struct vocab *v, uint8_t byte, bool alphabet);

#endif
