/* generation: the choices of one request while the engine works on them.
 *
 * A dialect fills prompts and settings, starts, and gets every event in order; it formats frames
 * (stream) or collects and replies at the end. Ownership: hangs on exchange->state; released with
 * the exchange, which cancels what still runs. Threads: as exchange.h says of its owner. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include "base/arena.h"
#include "engine/engine.h"
#include "server/exchange.h"
#include "server/request_fields.h"
#include "text/tokenizer/tokenizer.h"

struct generation;

struct generation_choice {
    struct request *request;
    int32_t prompt;        /* index of its prompt */
    struct strbuf text;    /* answer so far (not streaming), or what echo begins with */
    json_t *logprobs;      /* dialect's own */
    size_t logprob_offset; /* characters before the next token */
    bool started, done;
    enum finish_reason finish;
    struct request_usage usage;
};

struct generation_dialect {
    /* One token of the prompt with its log probability; only under echo_logprobs. */
    void (*prompt)(struct exchange *, struct generation *, int32_t choice, const struct event *);
    /* One token of a choice; frames or collects. */
    void (*token)(struct exchange *, struct generation *, int32_t choice, const struct event *);
    /* A choice has ended normally. */
    void (*choice_end)(struct exchange *, struct generation *, int32_t choice);
    /* All have: the reply, or the last frames. */
    void (*end)(struct exchange *, struct generation *);
};

struct generation {
    const struct generation_dialect *dialect;
    struct arena arena; /* the dialect's small things */
    char id[64];
    int64_t created;
    struct request_fields fields;
    bool echo, echo_logprobs;
    struct str script;  /* raw text to replay as this turn; ptr NULL: none */
    int32_t n_logprobs; /* -1: none */
    struct token_list *prompts;
    int32_t n_prompts;
    struct generation_choice *choice;
    int32_t n_choices, n_done;
    double first_token;
    const char *why; /* it was cancelled; NULL: it was not */
};

/* Hangs a new generation on the exchange. */
struct generation *generation_new(struct exchange *, const struct generation_dialect *,
                                  const char *id_prefix);
/* Submits n choices for each prompt. On failure the exchange has its error. */
bool generation_start(struct exchange *, struct generation *);

/* Sums over the choices; prompts count once each. */
struct request_usage generation_usage(const struct generation *);
json_t *generation_usage_json(const struct generation *);
json_t *generation_timings_json(const struct generation *);
const char *generation_finish_name(enum finish_reason);

#endif
