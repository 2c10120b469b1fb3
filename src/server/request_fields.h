/* request_fields: what all generation routes read from a body in the same way.
 *
 * A JSON null counts as absent. A known field of the wrong type or range, and a field that would
 * change the meaning of the answer but is not supported, is an error that names it; unknown ones
 * are ignored. Ownership: borrows the JSON, which must outlive it; release frees the rest. */
#ifndef SERVER_REQUEST_FIELDS_H
#define SERVER_REQUEST_FIELDS_H

#include <jansson.h>

#include "base/error.h"
#include "engine/engine.h"
#include "server/server_limits.h"

struct request_fields {
    struct sampling sampling; /* only what the request gives */
    int32_t max_tokens;       /* 0: not given */
    int32_t min_tokens;
    int32_t n; /* choices, at least 1 */
    bool ignore_eos, stream, include_usage, timings_per_token, prefill_progress;
    struct str stop[LIMIT_STOP_STRINGS];
    int32_t n_stop;
    int priority;   /* -1: not given */
    int32_t lookup; /* as in request_options */
    bool cache_prompt;
    const char *session; /* a name that is valid; NULL: none */
    bool session_strict;
    struct logit_bias bias[LIMIT_LOGIT_BIAS];
    char param[64]; /* the field that an error is about */
};

/* `text` is the source of body (for seeds beyond 2^63). `f` is zeroed by the caller, and large:
 * keep it in the request's memory, not on the stack. */
MUST_CHECK enum status request_fields_read(const json_t *body, struct str text, int32_t n_vocab,
                                           struct request_fields *f, struct error *err);

/* Single fields; absent or null leaves *out and returns OK. */
MUST_CHECK enum status field_bool(const json_t *body, const char *name, bool *out, struct error *);
MUST_CHECK enum status field_int(const json_t *body, const char *name, int64_t low, int64_t high,
                                 int64_t *out, struct error *);
MUST_CHECK enum status field_double(const json_t *body, const char *name, double low, double high,
                                    double *out, struct error *);
/* The value, or NULL when absent or null. */
const json_t *field_get(const json_t *body, const char *name);

#endif
