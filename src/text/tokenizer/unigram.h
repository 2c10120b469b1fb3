/* unigram: the segmentation with the best sum of scores (Viterbi over bytes).
 *
 * Source: Kudo 2018, arXiv:1804.10959; ties and unknown characters as in the `tokenizers`
 * package: the earlier start wins a tie, an unknown character costs 10 below the worst score,
 * neighbouring unknown ones are one piece. */
#ifndef TEXT_UNIGRAM_H
#define TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/vocab.h"

struct unigram_model {
    struct byte_trie trie;
    double unknown_score;
};

/* The best way to reach a byte. */
struct unigram_node {
    double score;
    uint32_t from; /* UINT32_MAX: not reached */
    int32_t id;    /* TOKEN_NONE: an unknown character */
};
struct unigram_work {
    struct unigram_node *nodes;
    size_t capacity;
};

MUST_CHECK enum status unigram_init(struct unigram_model *u, const struct vocab *v,
                                    struct error *err);
void unigram_release(struct unigram_model *u);

/* Fills work->nodes[0..len] and turns the best path round: afterwards nodes[i].from of a node i on
 * the path is where its piece ENDS, and nodes[i].id the piece that begins at i. `values` leaves
 * control tokens out. */
void unigram_run(const struct unigram_model *u, const struct vocab *v, struct unigram_work *work,
                 struct str piece, bool values);
void unigram_work_release(struct unigram_work *work);

#endif
