/* tokenizer_internal: the parts of a tokenizer, for the files of this folder only. */
#ifndef TEXT_TOKENIZER_INTERNAL_H
#define TEXT_TOKENIZER_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bigram_set.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/merger.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/piece_cache.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_spec.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"

/* What one encoding works with; taken from the tokenizer's stack for the call. */
struct tokenizer_scratch {
    struct tokenizer_scratch *next;
    struct pretokenizer_state split;
    struct merger merger;
    struct unigram_work unigram;
    struct piece_cache cache;
    struct text_buffer normalized[2], spelled;
};

struct alphabet_entry {
    char bytes[4];
    uint32_t n;
};

struct tokenizer {
    enum tokenizer_kind kind;
    struct vocab vocab;
    struct merge_table merges;
    struct bigram_set bigrams;   /* made with the first scratch */
    struct unigram_model unigram;
    struct added_tokens added;
    struct normalizer normalizer;
    struct pretokenizer split;
    bool ignore_merges, byte_fallback, fuse_unknown, strip_first_space;
    struct alphabet_entry alphabet[256]; /* of byte-level pieces */
    int32_t ascii_ids[128];      /* token of a character below 128 */
    int32_t byte_ids[256];       /* token of a byte; TOKEN_NONE where the vocabulary has none */
    int32_t roles[TOKEN_N_ROLES];
    struct token_list prefix, suffix, stops;

    pthread_mutex_t scratch_lock;
    struct tokenizer_scratch *scratches; /* idle ones */
    unsigned n_scratches;
};

#define TOKENIZER_MAX_TEXT ((size_t)1 << 30)
#define TOKENIZER_MAX_TOKENS ((size_t)1 << 24)
#define TOKENIZER_KEPT_SCRATCHES 4

/* Whether pieces fall into chunks, see bigram_set.h. */
bool tokenizer_splits_by_bigrams(const struct tokenizer *t);

struct tokenizer_scratch *tokenizer_take_scratch(const struct tokenizer *t);
void tokenizer_put_scratch(const struct tokenizer *t, struct tokenizer_scratch *s);

/* Ids of one piece (encode_piece.c). `values`: the text may come from a user, so that the model
 * gives no control token. */
void tokenizer_encode_piece(const struct tokenizer *t, struct tokenizer_scratch *s,
                            struct str piece, bool values, struct token_list *out);

#endif
