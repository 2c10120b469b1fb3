/* sampling: the settings of one request, and the pure function that picks a token.
 *
 * A setting that nobody gave is filled before a request reaches the engine; `given` says which
 * fields a layer of defaults set, so that layers can be merged and their source reported.
 * The choice depends only on (logits, settings, history, position, seed). */
#ifndef ENGINE_SAMPLING_H
#define ENGINE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

/* name in flags and JSON, C type, built-in default, smallest, largest */
#define SAMPLING_FIELDS(X)                              \
    X(temperature, double, 0.8, 0.0, 1e6)               \
    X(top_k, int32_t, 40, 0, INT32_MAX)                 \
    X(top_p, double, 0.95, 0.0, 1.0)                    \
    X(min_p, double, 0.05, 0.0, 1.0)                    \
    X(typical_p, double, 1.0, 0.0, 1.0)                 \
    X(repetition_penalty, double, 1.0, 1e-6, 2.0)       \
    X(presence_penalty, double, 0.0, -2.0, 2.0)         \
    X(frequency_penalty, double, 0.0, -2.0, 2.0)        \
    X(penalty_window, int32_t, 64, -1, INT32_MAX)

struct logit_bias {
    int32_t token;
    float bias; /* -INFINITY forbids */
};

enum sampling_field {
#define SAMPLING_ENUM(name, type, value, low, high) SAMPLING_##name,
    SAMPLING_FIELDS(SAMPLING_ENUM)
#undef SAMPLING_ENUM
    SAMPLING_N_FIELDS
};

struct sampling {
#define SAMPLING_MEMBER(name, type, value, low, high) type name;
    SAMPLING_FIELDS(SAMPLING_MEMBER)
#undef SAMPLING_MEMBER
    uint32_t given;          /* bit SAMPLING_x: this layer sets x */
    bool has_seed;
    uint64_t seed;           /* drawn at admission when not given, and reported */
    const struct logit_bias *bias; /* borrowed for the call; the engine copies */
    int32_t n_bias;
};

extern const struct sampling sampling_builtin; /* every field given */
/* Fields that `over` gives win. */
void sampling_merge(struct sampling *base, const struct sampling *over);

struct sampler_input {
    const float *logits;       /* [n_vocab]; not changed */
    int32_t n_vocab;
    const int32_t *history;    /* generated tokens so far, for penalties */
    int32_t n_history;
    const uint32_t *allowed;   /* bit mask over the vocabulary; NULL: all */
    const int32_t *forbidden;  /* never drawn here: end tokens before min_tokens */
    int32_t n_forbidden;
    uint64_t position;         /* index of the token being drawn within the request */
};
struct token_probability {
    int32_t token;
    float logprob;             /* natural; of the unmodified distribution */
};
struct sampler_scratch;        /* buffers reused between calls, sized for one vocabulary */
struct sampler_scratch *sampler_scratch_new(int32_t n_vocab);
void sampler_scratch_free(struct sampler_scratch *);

/* Returns the token, or -1 when a logit is NaN or none is left to draw from (the forward pass or
 * a mask is broken: fails the request). Order: bias, penalties, then at temperature 0 the best
 * (lowest id of equals), else top_k, typical_p, top_p, min_p, temperature, draw. */
int32_t sampler_pick(const struct sampler_input *, const struct sampling *,
                     struct sampler_scratch *);
/* The n most likely tokens of the unmodified distribution, best first, and the one drawn. */
void sampler_logprobs(const struct sampler_input *, int32_t drawn,
                      struct token_probability *drawn_out,
                      struct token_probability *top, int32_t n, struct sampler_scratch *);

#endif
