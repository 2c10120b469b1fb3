/* tokenizer_spec: everything that defines a tokenizer, as plain arrays.
 *
 * Loaders (tokenizer_json, engine/load_tokenizer) fill it; tokenizer_new() copies what it keeps,
 * so that everything here is borrowed for that call only. A zeroed spec is empty and valid. */
#ifndef TEXT_TOKENIZER_SPEC_H
#define TEXT_TOKENIZER_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "text/tokenizer/tokenizer.h"

enum tokenizer_kind {
    TOKENIZER_BPE_BYTES,  /* merges over the 256-character alphabet of GPT-2 */
    TOKENIZER_BPE_CHARS,  /* merges over characters, bytes as <0xNN> */
    TOKENIZER_BPE_SCORES, /* the pair whose joint piece has the best score, bytes as <0xNN> */
    TOKENIZER_UNIGRAM,    /* the path with the best sum of scores */
};

/* Steps of normalization, in order; applied to each stretch between added tokens. */
enum normalizer_step_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFKC,
    NORMALIZE_LOWERCASE,
    NORMALIZE_REPLACE,        /* every `from` becomes `to` */
    NORMALIZE_PREPEND,        /* `to` in front of a stretch that is not empty */
    NORMALIZE_PREPEND_UNLESS, /* ... unless it begins with `to` already */
    NORMALIZE_PREPEND_FIRST,  /* as UNLESS, and only at the start of the text */
};
struct normalizer_step {
    enum normalizer_step_kind kind;
    struct str from, to;
};

/* What becomes of the matches of a split expression; what lies between matches is always kept. */
enum split_behavior {
    SPLIT_ISOLATED,    /* a match is a piece */
    SPLIT_REMOVED,     /* a match is dropped */
    SPLIT_KEEP,        /* a match is a piece, what lies between is dropped */
    SPLIT_WITH_PREVIOUS,
    SPLIT_WITH_NEXT,
};
/* One expression; the pieces of one are split again by the next, each on its own. */
struct split_step {
    struct str pattern;
    bool literal; /* plain text, not an expression */
    enum split_behavior behavior;
};

struct added_token {
    struct str text;
    int32_t id;
    bool control;     /* "special": not recognized in plain text */
    bool normalized;  /* looked for after those that are not */
    bool strip_left, strip_right; /* swallows white space beside it */
    bool single_word; /* not inside a word */
};

struct tokenizer_spec {
    enum tokenizer_kind kind;
    size_t n_tokens;
    const struct str *tokens;
    const float *scores;   /* [n_tokens]; for BPE_SCORES and UNIGRAM */
    const uint8_t *types;  /* [n_tokens], enum token_type; NULL: derived from `added` */

    size_t n_merges;
    const struct str *merges;       /* "left right" */
    const uint32_t *merge_left_len; /* bytes of left; NULL: up to the first space after byte 0 */

    size_t n_added;
    const struct added_token *added;
    size_t n_normalizer_steps;
    const struct normalizer_step *normalizer_steps;
    size_t n_split_steps;
    const struct split_step *split_steps;

    bool ignore_merges;     /* a piece that is a token is taken before merging */
    bool byte_fallback;     /* <0xNN> for what has no piece */
    bool fuse_unknown;      /* neighbouring unknown characters become one unknown token */
    bool meta_space;        /* U+2581 in a piece is decoded as a space */
    bool strip_first_space; /* a whole decode drops the space at the very start */

    int32_t roles[TOKEN_N_ROLES]; /* TOKEN_NONE where absent: see tokenizer_spec_init() */
    size_t n_prefix, n_suffix;    /* what ADD_SPECIAL puts around a text */
    const int32_t *prefix, *suffix;
};

void tokenizer_spec_init(struct tokenizer_spec *spec);

/* Split expressions by the name that GGUF files give them ("qwen2", "llama-bpe", ...). */
struct pretokenizer_name {
    const char *names; /* separated by spaces */
    struct split_step steps[7];
    unsigned n_steps;
    bool nfc, ignore_merges, add_bos;
};
const struct pretokenizer_name *pretokenizer_find(struct str name); /* NULL: unknown */
void pretokenizer_list_names(struct strbuf *out);                   /* "gpt-2, llama-bpe, ..." */
/* The split of GPT-2, which tokenizer.json calls ByteLevel. */
#define PRETOKENIZER_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#endif
