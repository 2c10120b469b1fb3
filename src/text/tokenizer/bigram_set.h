/* bigram_set: which two characters may stand side by side inside a piece.
 *
 * Where no piece of the vocabulary holds the two characters on the sides of a boundary, nothing
 * can be merged over it, so that a long text falls into chunks which are encoded (and cached) one
 * by one with the same result. The set is a bitmap over a hash: it may say yes too often, which
 * only makes chunks longer. Immutable after bigram_set_init(). */
#ifndef TEXT_BIGRAM_SET_H
#define TEXT_BIGRAM_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "text/tokenizer/vocab.h"

struct bigram_set {
    uint64_t *bits;
    bool pairs[128][128]; /* ASCII exactly */
};

void bigram_set_init(struct bigram_set *b, const struct vocab *v);
void bigram_set_release(struct bigram_set *b);
/* Length of the first chunk of a non-empty valid text. */
size_t bigram_set_chunk(const struct bigram_set *b, struct str text);

#endif
