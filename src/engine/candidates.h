/* candidates: the tokens that a draw may still choose from, and the filters that shrink them.
 *
 * A set is parallel arrays of logit, id and the key that a filter ranks by. Better means a higher
 * key, among equals the lower id. No filter sorts the vocabulary: selection keeps a threshold,
 * and the nucleus of a large set is found through histograms.
 * Ownership: candidates_init() allocates for one vocabulary, everything else allocates nothing.
 * Sources: Holtzman et al., arXiv:1904.09751 (top-p); Meister et al., arXiv:2202.00666 (typical);
 * Nguyen et al., arXiv:2407.01082 (min-p). */
#ifndef ENGINE_CANDIDATES_H
#define ENGINE_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

struct candidate_list {
    float *value; /* logits */
    int32_t *id;
    float *key;   /* what the running filter ranks by */
};

struct candidates {
    struct candidate_list set, work; /* [capacity] each */
    double *mass;                    /* of histogram bins and blocks */
    int32_t n, capacity;
    float maximum;                   /* largest logit of the set */
};

void candidates_init(struct candidates *c, int32_t capacity);
void candidates_release(struct candidates *c);

/* The k best finite ones of n logits, sorted best first; fewer when fewer are finite. */
void candidates_select(struct candidates *c, const float *logits, int32_t n, int32_t k);
/* All finite ones, in id order. */
void candidates_all(struct candidates *c, const float *logits, int32_t n);

/* All finite ones, then top_p (1: none), then min_p (0: none), without a copy of the rest.
 * `maximum` is that of the logits and finite. */
void candidates_nucleus(struct candidates *c, const float *logits, int32_t n, float maximum,
                        double top_p, double min_p);

/* Each keeps at least one candidate of a set that is not empty. */
void candidates_typical(struct candidates *c, double p);
void candidates_top_p(struct candidates *c, double p);
void candidates_min_p(struct candidates *c, double p);

/* The id on which `uniform` in [0, 1) falls at this temperature > 0. */
int32_t candidates_draw(struct candidates *c, double temperature, double uniform);

/* The largest of n values; -INFINITY for none. *has_nan is set when one is NaN. */
float logits_maximum(const float *logits, int32_t n, bool *has_nan);
/* sum of exp(logit - maximum) */
double logits_exp_sum(const float *logits, int32_t n, float maximum);

#endif
