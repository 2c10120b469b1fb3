#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/candidates.h"
#include "engine/sampling.h"

/* Draws of one request use one stream of its seed; other uses of a seed take other streams. */
#define SAMPLER_STREAM 0

struct sampler_scratch {
    struct candidates candidates;
    float *logits;  /* [n_vocab]: a copy, when something changes them */
    int32_t *count; /* [n_vocab]: zero between calls */
    int32_t n_vocab;
};

struct sampler_scratch *sampler_scratch_new(int32_t n_vocab)
{
    struct sampler_scratch *s = mem_new(struct sampler_scratch);
    candidates_init(&s->candidates, n_vocab);
    s->logits = mem_array(float, (size_t)n_vocab + 1);
    s->count = mem_array(int32_t, (size_t)n_vocab + 1);
    s->n_vocab = n_vocab;
    return s;
}

void sampler_scratch_free(struct sampler_scratch *s)
{
    if (!s)
        return;
    candidates_release(&s->candidates);
    mem_free(s->logits);
    mem_free(s->count);
    mem_free(s);
}

static bool has_penalties(const struct sampling *s)
{
    return s->penalty_window != 0 && (s->repetition_penalty != 1.0 || s->presence_penalty != 0.0 ||
                                      s->frequency_penalty != 0.0);
}

/* Each token of the window is changed once: the repetition penalty divides a positive logit and
 * multiplies a negative one; frequency counts, presence does not. */
static void penalize(const struct sampler_input *in, const struct sampling *s,
                     struct sampler_scratch *scratch)
{
    int32_t n = in->n_history;
    if (s->penalty_window > 0 && s->penalty_window < n)
        n = s->penalty_window;
    const int32_t *window = in->history + (in->n_history - n);
    for (int32_t i = 0; i < n; i++)
        if (window[i] >= 0 && window[i] < in->n_vocab)
            scratch->count[window[i]]++;
    for (int32_t i = 0; i < n; i++) {
        int32_t token = window[i];
        if (token < 0 || token >= in->n_vocab || scratch->count[token] == 0)
            continue;
        double x = (double)scratch->logits[token];
        x = x > 0.0 ? x / s->repetition_penalty : x * s->repetition_penalty;
        x -= scratch->count[token] * s->frequency_penalty + s->presence_penalty;
        scratch->logits[token] = (float)x;
        scratch->count[token] = 0;
    }
}

static void apply_mask(const struct sampler_input *in, float *logits)
{
    for (int32_t i = 0; i < in->n_vocab; i++)
        if (!(in->allowed[i / 32] >> (i % 32) & 1u))
            logits[i] = -INFINITY;
}

/* The logits that the draw sees: the caller's own, or a changed copy. */
static const float *changed_logits(const struct sampler_input *in, const struct sampling *s,
                                   struct sampler_scratch *scratch)
{
    bool penalties = has_penalties(s) && in->n_history > 0;
    if (!penalties && s->n_bias == 0 && !in->allowed && in->n_forbidden == 0)
        return in->logits;
    float *logits = scratch->logits;
    memcpy(logits, in->logits, (size_t)in->n_vocab * sizeof(*logits));
    for (int32_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].token >= 0 && s->bias[i].token < in->n_vocab)
            logits[s->bias[i].token] += s->bias[i].bias;
    if (penalties)
        penalize(in, s, scratch);
    for (int32_t i = 0; i < in->n_forbidden; i++)
        if (in->forbidden[i] >= 0 && in->forbidden[i] < in->n_vocab)
            logits[in->forbidden[i]] = -INFINITY;
    if (in->allowed)
        apply_mask(in, logits);
    return logits;
}

static int32_t find_value(const float *logits, int32_t n, float value)
{
    for (int32_t i = 0; i < n; i++)
        if (logits[i] == value)
            return i;
    return -1;
}

static void filter(struct candidates *c, const struct sampling *s)
{
    if (s->typical_p < 1.0)
        candidates_typical(c, s->typical_p);
    if (s->top_p < 1.0)
        candidates_top_p(c, s->top_p);
    if (s->min_p > 0.0)
        candidates_min_p(c, s->min_p);
}

int32_t sampler_pick(const struct sampler_input *in, const struct sampling *s,
                     struct sampler_scratch *scratch)
{
    const float *logits = changed_logits(in, s, scratch);
    int32_t n = in->n_vocab;
    bool has_nan;
    float best = logits_maximum(logits, n, &has_nan);
    if (has_nan || !isfinite(best))
        return -1;
    if (s->temperature <= 0.0 || s->top_k == 1)
        return find_value(logits, n, best);

    struct candidates *c = &scratch->candidates;
    bool whole = s->top_k <= 0 || s->top_k >= n;
    if (whole && s->typical_p >= 1.0) {
        candidates_nucleus(c, logits, n, best, s->top_p, s->min_p);
    } else {
        if (whole)
            candidates_all(c, logits, n);
        else
            candidates_select(c, logits, n, s->top_k);
        filter(c, s);
    }
    return candidates_draw(c, s->temperature, rng_uniform(s->seed, SAMPLER_STREAM, in->position));
}

void sampler_logprobs(const struct sampler_input *in, int32_t drawn,
                      struct token_probability *drawn_out, struct token_probability *top, int32_t n,
                      struct sampler_scratch *scratch)
{
    bool has_nan;
    float best = logits_maximum(in->logits, in->n_vocab, &has_nan);
    double log_sum = (double)best + log(logits_exp_sum(in->logits, in->n_vocab, best));
    if (drawn_out && drawn >= 0 && drawn < in->n_vocab)
        *drawn_out = (struct token_probability){
            drawn,
            (float)((double)in->logits[drawn] - log_sum),
        };
    if (n <= 0)
        return;
    struct candidates *c = &scratch->candidates;
    candidates_select(c, in->logits, in->n_vocab, MIN(n, in->n_vocab));
    for (int32_t i = 0; i < n; i++) {
        bool found = i < c->n;
        top[i].token = found ? c->set.id[i] : -1;
        top[i].logprob = found ? (float)((double)c->set.value[i] - log_sum) : -INFINITY;
    }
}
