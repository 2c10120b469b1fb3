/* request: one answer in the making: what the caller asked, where the engine is with it, and the
 * events in between.
 *
 *   caller's threads                          engine thread
 *   engine_submit ---- tokens, options ---->  scheduler.c
 *   request_next  <--- ring of tokens ------  request_push_*
 *                      progress, done (one of each, beside the ring)
 *
 * Two owners count references: the handle and the engine. `lock` guards what both touch (the
 * ring and the flags below it); the rest belongs to the engine thread from submit to done. Locks
 * nest in this order: notify_lock, lock, the engine's lock. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "engine/engine.h"
#include "engine/fair_share.h"
#include "engine/sequence.h"
#include "engine/speculation.h"
#include "engine/stop_matcher.h"
#include "text/tokenizer/tokenizer.h"

struct prefix_fetch; /* engine/prefix_disk.h */
struct session;      /* engine/session_table.h */

#define REQUEST_RING 64

/* One token event as it waits; `text` and `top` are kept and reused. */
struct token_event {
    enum event_kind kind;
    int32_t token, n_top;
    struct strbuf text;
    struct token_probability drawn;
    struct token_probability *top; /* [n_logprobs] */
};

struct request {
    /* Set at submit, constant. */
    struct engine *engine;
    struct engine_model *model;
    struct request_options options; /* borrowed members point into copies below */
    struct sampling sampling;
    struct logit_bias *bias;
    int32_t *forbidden, n_forbidden; /* end and stop tokens: not before min_tokens */
    int32_t *positions;              /* [3][n_prompt] or NULL */
    bool replays;                    /* a script's turn: */
    struct token_list forced;        /* its ids */
    char *client, *name;
    struct session *session; /* claimed until it is done; NULL: none */
    int32_t n_prompt, limit;         /* limit: most tokens of prompt and answer */

    /* The engine thread's. */
    int32_t *tokens;                 /* [limit] prompt, then answer */
    int32_t n_tokens;
    struct fair_account *account;    /* NULL: the queue does not know it yet */
    uint64_t number;                 /* in order of arrival */
    int64_t rows_computed;
    struct speculation speculation;  /* without a drafter: none */
    int32_t n_drafted, n_accepted;   /* tokens */
    int32_t n_rows_seen;             /* prompt rows whose logits were handed out */
    struct sequence *sequence;       /* NULL: not resident */
    int32_t cached_tokens;
    enum cache_source cache_source;
    struct detokenizer detokenizer;
    struct stop_matcher stops;
    struct strbuf piece;             /* text of the newest token */
    bool prompt_done, preempted, repeats;
    struct prefix_fetch *fetch;      /* of its beginning, from disk; NULL: none */
    bool waits_fetch, fetched;       /* for another's; it had its own */
    bool waits_prefix;               /* for another that reads the same */
    struct request *next;            /* in the queue, or among the followers */
    struct request *followers;       /* of one group: they fork this one's state */
    uint64_t submitted_ns, admitted_ns, prompt_ns, first_token_ns, last_token_ns;

    /* Shared. */
    atomic_int references;
    atomic_bool cancelled;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct token_event ring[REQUEST_RING];
    struct token_event current;      /* what the handle reads, swapped with a ring entry */
    int32_t ring_first, ring_count;
    bool starved;                    /* the engine waits for room in the ring */
    bool progress_waits, done, done_taken;
    int32_t progress_done;
    enum finish_reason finish;
    int32_t stop_index, stop_token;
    struct error error;
    struct request_usage usage;
    pthread_mutex_t notify_lock;     /* held while notify runs */
    bool dropped;
};

/* The options are checked by engine.c. With a text to replay, `forced` is filled by the caller
 * afterwards. One reference is the handle's, one the engine's. */
struct request *request_new(struct engine *engine, const struct request_options *options,
                            const int32_t *prompt, int32_t n_prompt);
void request_unref(struct request *r);

/* Engine thread. */
int32_t request_room(struct request *r, int32_t wanted); /* free ring entries; sets `starved` */
/* A free ring entry, to be filled and then published; the ring must have room. */
struct token_event *request_entry(struct request *r);
void request_publish(struct request *r);
void request_progress(struct request *r, int32_t n_read);
void request_finish(struct request *r, enum finish_reason finish, const struct error *err);

#endif
