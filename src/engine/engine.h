/* engine: loads models, runs requests, delivers events. One thread inside owns the devices and
 * caches; everything here may be called from any thread.
 *
 * A request is: token ids in, events out. Submitting never blocks: it is queued (bounded; beyond
 * that EXHAUSTED, the server's 429). Events wait in the request's own bounded queue until its
 * owner takes them; `notify` tells him from the engine thread and must only wake somebody. A
 * consumer that stops reading makes the engine pause that request, never the others.
 * Ownership: a handle belongs to the caller from submit to request_drop, which also cancels. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/sampling.h"
#include "tensor/tensor.h"

struct engine;
struct engine_model;
struct request;
struct tokenizer;      /* text/tokenizer/tokenizer.h */
struct chat_template;  /* text/template/chat_template.h */
struct model;
struct model_family;   /* models/family.h */
struct log_sink;       /* base/log.h */
struct engine_metrics; /* engine/metrics.h */

struct engine_options {
    const char *device;           /* "cpu", "cuda:0", "auto"; NULL: auto */
    const char *isa;              /* cap on the CPU instruction set; NULL: best */
    int n_threads;                /* 0: auto */
    bool exact, deterministic, mlock, no_mmap;
    int32_t context;              /* 0: min(model's, 32768), shrunk to fit and said */
    bool context_full;            /* with context 0: the model's own length, however long */
    int32_t batch_tokens;         /* budget of one pass; 0: auto */
    int32_t lookup;               /* most tokens drafted by prompt lookup; 0: none */
    int32_t max_requests;         /* admitted and waiting together; 0: 64 */
    int32_t max_sequences;        /* resident at once; 0: auto */
    int32_t admission_window_ms;  /* at most: an idle engine waits for requests that come together
                                     with the first, see admission_window.h; 0: never */
    enum tensor_type k_type, v_type; /* KV types; F32 under exact unless set */
    bool k_type_set, v_type_set;
    const char *tokenizer_path, *chat_template; /* overrides; NULL: the model's own */
    void (*progress)(void *user, int64_t done, int64_t all); /* while loading; may be NULL */
    void *progress_user;
    bool loop_guard;              /* ends an answer that repeats itself, see loop_guard.h */
    bool no_reuse;                /* every prompt is read from its first token */
    int64_t cache_bytes;          /* host memory for displaced state; 0: auto, -1: none */
    const char *cache_dir;        /* state that outlives the process; NULL: none */
    const char *session_dir;      /* of named sessions; NULL: the cache's, if there is one */
    int64_t cache_dir_limit;      /* bytes of both; 0: 8 GiB */
    int32_t checkpoint_interval;  /* tokens between checkpoints of fixed state; 0: 256 */
    bool no_text;                 /* ids in, ids out: tokenizer and template are not built, and
                                     the model's info has none of them */
    const struct model_family *family; /* of every model, instead of the one of its name; NULL */
    const struct log_sink *log;   /* may be NULL; outlives the engine */
};

MUST_CHECK enum status engine_new(const struct engine_options *, struct engine **, struct error *);
void engine_free(struct engine *); /* cancels what runs */
/* Path as CONTRACTS "Models". The model belongs to the engine. What runs meanwhile goes on: the
 * loader lets it have the device after each tensor. */
MUST_CHECK enum status engine_load(struct engine *, const char *path, struct engine_model **,
                                   struct error *);
/* Frees a model. Every request to it must have been dropped before. */
void engine_unload(struct engine *, struct engine_model *);

/* What a loaded model offers; all borrowed from it and constant after load. */
struct engine_model_info {
    const char *path, *name;      /* name: general.name or the file's */
    const char *family, *type_name; /* "llama", "Q4_1" (by most bytes) */
    const struct tokenizer *tokenizer; /* NULL under no_text */
    const struct chat_template *chat;  /* NULL under no_text, else never: the fallback is marked */
    bool chat_is_fallback;
    int32_t context, context_trained;
    int32_t n_vocab;
    int32_t n_sequences;          /* seats: requests that run at once */
    struct sampling defaults;     /* built-in < GGUF < generation_config.json */
    const char *default_source[SAMPLING_N_FIELDS]; /* "built-in", "gguf", "generation_config" */
    int32_t default_max_tokens;   /* 0: until stop or context end */
    const int32_t *end_tokens;    /* stop generation */
    int32_t n_end_tokens;
    int64_t file_bytes, weight_bytes, kv_bytes, scratch_bytes, n_parameters;
    const struct model *model;
};
const struct engine_model_info *engine_model_info(const struct engine_model *);

enum finish_reason { FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR };

struct request_options {
    struct engine_model *model;
    const int32_t *tokens;        /* prompt; copied */
    int32_t n_tokens;
    struct sampling sampling;     /* complete: merged with the model's defaults by the caller */
    int32_t max_tokens;           /* 0: until stop or context end */
    int32_t min_tokens;
    bool ignore_eos;
    const struct str *stop;       /* stop strings; copied */
    int32_t n_stop;
    const int32_t *stop_tokens;   /* beside the model's end tokens; copied */
    int32_t n_stop_tokens;
    int32_t n_logprobs;           /* -1: none; 0: of the drawn token; else also the top n */
    bool echo_logprobs;           /* logprobs of the prompt tokens too */
    bool show_special;            /* text of control tokens is part of the output */
    const char *client;           /* fairness key; copied; NULL: none */
    const char *name;             /* what engine_slots calls it; copied; NULL: nothing */
    const char *session;          /* holds the conversation afterwards; copied; NULL: none does */
    bool session_strict;          /* DIVERGED unless the prompt's text goes on from the session's */
    int priority;                 /* 0 to 9 */
    int32_t lookup;               /* most drafted tokens; 0: the engine's setting; -1: none */
    const struct str *script;     /* raw text to replay instead of free generation; NULL: none */
    bool prompt_only;             /* read the prompt, draw nothing */
    bool no_reuse;                /* read all of it, and leave nothing for others to take over */
    const int32_t *positions;     /* [3][n_tokens] for multi-section rotary; NULL: 0, 1, 2 ... */
    /* Called on the engine thread with the logits of every prompt position in order, before any
     * token is drawn; may be NULL. Borrowed for the call. */
    int32_t prompt_logits_from;   /* the first position wanted */
    void (*prompt_logits)(void *user, int32_t position, const float *logits, int32_t n_vocab);
    void *prompt_logits_user;
    void (*notify)(void *user);   /* may be NULL: use request_wait */
    void *notify_user;
};

enum event_kind {
    EVENT_PROGRESS, /* prompt read so far; those that nobody took are merged */
    EVENT_PROMPT,   /* with echo_logprobs: one prompt token; drawn.logprob is NAN for the first */
    EVENT_TOKEN,    /* one token, with the text it releases (may be empty) */
    EVENT_DONE,
};
/* Where the reused beginning of a prompt was: with a request that ran, in pages that were kept, in
 * host memory, on disk, or there as a named session. Of several places the last of these. */
enum cache_source { CACHE_NONE, CACHE_LIVE, CACHE_PAGES, CACHE_HOST, CACHE_DISK, CACHE_SESSION };
const char *cache_source_name(enum cache_source); /* "host"; NULL: nothing was reused */
struct request_usage {
    int32_t prompt_tokens, cached_tokens, completion_tokens, drafted_tokens, accepted_tokens;
    enum cache_source cache_source;
    double queue_ms, prompt_ms, first_token_ms, decode_ms;
};
struct event {
    enum event_kind kind;
    int32_t token;                /* EVENT_TOKEN; -1: only text released by the end */
    struct str text;              /* UTF-8, whole characters; borrowed until the next call */
    struct token_probability drawn; /* with n_logprobs >= 0 */
    const struct token_probability *top; /* [n_top] */
    int32_t n_top;
    int32_t prompt_done, prompt_all; /* EVENT_PROGRESS */
    enum finish_reason finish;    /* EVENT_DONE */
    int32_t stop_index;           /* which stop string; -1: none */
    int32_t stop_token;           /* the end or stop token that finished it; -1: none */
    bool repeats;                 /* EVENT_DONE: FINISH_LENGTH because of loop_guard */
    uint64_t seed;                /* EVENT_DONE: the one that was used */
    struct error error;           /* FINISH_ERROR */
    struct request_usage usage;   /* EVENT_DONE */
};

/* INVALID with both numbers when prompt (and one token) do not fit the context; EXHAUSTED when
 * the queue is full. */
MUST_CHECK enum status engine_submit(struct engine *, const struct request_options *,
                                     struct request **, struct error *);
/* n answers to one prompt (that of options[0]), which is read once: the others fork its state.
 * All or none are queued. */
MUST_CHECK enum status engine_submit_group(struct engine *, const struct request_options *options,
                                           int32_t n, struct request **out, struct error *);
bool request_next(struct request *, struct event *);  /* false: nothing yet */
/* Blocks; false when EVENT_DONE was already taken. */
bool request_wait(struct request *, struct event *);
bool request_wait_for(struct request *, struct event *, int milliseconds); /* false: nothing yet */
void request_cancel(struct request *);                /* an EVENT_DONE follows */
/* Cancels if needed. After it no event comes and `notify` is not called; it may wait for a call
 * that is running, so hold no lock that notify takes. */
void request_drop(struct request *);

/* Named sessions: conversations whose state stays on disk until it is deleted.
 * request_options.session continues one, or begins it; a prompt that parts from it makes it hold
 * the new branch. One request at a time: CONFLICT. UNSUPPORTED: no folder; INVALID: a bad name, or
 * what is on disk is damaged. All of these may wait for a turn that is being written, none for the
 * device but those that change something, and they only between two passes. A list has objects
 * {name, model, tokens, bytes, created, updated, busy}, with a "damaged" reason where there is one;
 * one alone also has "client". */
json_t *engine_sessions(struct engine *); /* sorted by name */
MUST_CHECK enum status engine_session_show(struct engine *, const char *name, json_t **out,
                                           struct error *);
MUST_CHECK enum status engine_session_fork(struct engine *, const char *from, const char *to,
                                           struct error *);
MUST_CHECK enum status engine_session_rename(struct engine *, const char *from, const char *to,
                                             struct error *);
/* And the files that nobody else needs. */
MUST_CHECK enum status engine_session_delete(struct engine *, const char *name, struct error *);
/* Any JSON, kept with the session for its owner. */
MUST_CHECK enum status engine_session_set_client(struct engine *, const char *name, json_t *client,
                                                 struct error *);

/* What loading a model with these options would take and where it would go, from headers alone. */
struct engine_plan {
    char name[128], family[32], type_name[16], device[32], isa[16];
    int n_threads;
    int32_t context, context_trained, sequences, batch_tokens, page_tokens;
    int64_t pool_tokens, n_parameters, file_bytes;
    int64_t weight_bytes;  /* resident copies */
    int64_t mapped_bytes;  /* weights used where they lie in the mapped file */
    int64_t kv_bytes, scratch_bytes;
    int64_t host_cache_bytes; /* at most, for displaced state: of all models of an engine */
    enum tensor_type k_type, v_type;
    int32_t n_tensors;
};
MUST_CHECK enum status engine_plan(const struct engine_options *, const char *path,
                                   struct engine_plan *, struct error *);

/* Live numbers for /health, /metrics, log rows. */
struct engine_status {
    int32_t n_running, n_waiting, n_sequences, max_requests;
    int64_t pages_used, pages_all;
    int32_t page_tokens;
    int64_t host_cache_bytes; /* budget */
    uint64_t prompt_tokens, generated_tokens, requests_done, requests_failed, composed_ops;
};
void engine_status(struct engine *, struct engine_status *);

enum slot_phase { SLOT_IDLE, SLOT_PREFILL, SLOT_DECODE };
/* A seat of a model as it was after the last pass. */
struct engine_slot {
    enum slot_phase phase;
    int32_t n_prompt, n_past;  /* tokens of the prompt; tokens that the state holds */
    int32_t n_generated, n_drafted, n_accepted;
    double seconds;            /* since it was submitted */
    double tokens_per_second;  /* of the answer so far; 0: unknown */
    char request[64];          /* request_options.name, cut to fit */
    char session[65];          /* empty: none */
};
/* The first `max` seats of a model that the caller keeps loaded; returns how many. */
int32_t engine_slots(struct engine_model *, struct engine_slot *out, int32_t max);

/* Counters and histograms; borrowed for the engine's life, always current. */
const struct engine_metrics *engine_metrics(const struct engine *);

#endif
