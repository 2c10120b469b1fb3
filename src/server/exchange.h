/* exchange: one HTTP request and its answer.
 *
 * Life: created when the headers are complete; the body is collected; a worker runs the route's
 * handler; the answer is a whole reply or a stream. Reference counted: the connection holds one
 * reference until libmicrohttpd reports completion, a worker and the watch hold one each while
 * they know the exchange.
 * Threads: at any time one thread owns the exchange: libmicrohttpd's, or the worker while phase
 * is WORKING and the exchange is not parked. Others only call exchange_wake() and
 * exchange_gone(); the fields under `lock` are all they share. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "server/server_limits.h"

struct api_key; /* server/api_keys.h */
struct server;
struct route;
struct shelf_model; /* server/model_shelf.h */
struct exchange;

enum exchange_phase {
    EXCHANGE_BODY,    /* collecting */
    EXCHANGE_WORKING, /* a worker has it */
    EXCHANGE_WAITING, /* a handler waits for events: `pump` is run on each wake */
    EXCHANGE_REPLY,   /* status and reply are ready */
    EXCHANGE_STREAM,  /* 200 with frames from `pump` */
    EXCHANGE_DONE,
};

#define EXCHANGE_TIMEOUT "timeout" /* reasons to stop */
#define EXCHANGE_SHUTDOWN "the server is shutting down"

/* Which JSON an error has. */
enum error_shape { ERROR_OPENAI, ERROR_LLAMA };

/* What an answer that takes time is made of; the dialect's own state. */
struct exchange_source {
    /* Moves what is ready into exchange->out (streams) or finishes with exchange_reply*().
     * Never blocks. */
    void (*pump)(struct exchange *);
    void (*release)(struct exchange *); /* cancels and frees `state`; called exactly once */
    void (*cancel)(struct exchange *, const char *why); /* any thread; only asks */
};

/* What the log row says. */
struct exchange_row {
    const char *endpoint;                                /* NULL: no row */
    int64_t prompt_tokens, cached_tokens, output_tokens; /* -1: no number */
    double first_token_s;                                /* < 0: none */
    double tokens_per_second;                            /* < 0: none */
    struct request_usage usage;                          /* zero: it was not computed */
    const char *finish;                                  /* static text; NULL: the status */
    char reason[256];
};

struct exchange {
    atomic_int references;
    struct server *server;
    struct MHD_Connection *connection;
    int fd;
    const struct route *route;
    struct shelf_model *wanted; /* the model it is about; NULL: none */
    struct shelf_model *served; /* the same once it is held; NULL: not yet */
    enum error_shape shape;
    struct str authority; /* of an absolute-form target; it counts instead of Host */
    char method[8], *path, request_id[LIMIT_REQUEST_ID_BYTES + 1];
    const struct api_key *key; /* it was opened with; NULL: none is needed */
    const char *client;       /* fairness: the key, else the connection (in client_name) */
    char client_name[24];
    double started; /* monotonic seconds */

    struct strbuf body;
    size_t body_seen;
    int body_status;              /* 0, or the error to answer when the body has ended */
    char content_encoding[16];    /* as the client wrote it; empty: identity */
    json_t *json;                 /* parsed body, once a worker has it */

    _Atomic enum exchange_phase phase;
    int status;
    const char *content_type, *retry_after, *allow;
    struct strbuf reply;
    bool close_after, watched, no_retry; /* no_retry: trying again would end the same way */

    bool streaming, stream_ended;
    struct strbuf out; /* frames not yet taken */
    size_t out_taken;
    struct exchange_source source;
    void *state;
    struct exchange_row row;

    pthread_mutex_t lock; /* the rest is shared */
    bool suspended, woken, gone;
    bool has_worker, ended, cut_off; /* ended: the connection is no longer there */
    bool parked;                     /* the worker waits for a model and has nothing else of it */
    double last_byte;                 /* when the stream last gave bytes */
    double deadline;                  /* 0: none */
    const char *stop;                 /* why it has to end; static text; NULL: it need not */
    struct exchange *next, *previous; /* the server's list of live exchanges, under its lock */
};

struct exchange *exchange_new(struct server *, struct MHD_Connection *);
void exchange_hold(struct exchange *);
void exchange_drop(struct exchange *);

void exchange_wake(struct exchange *); /* any thread: there may be something to do */
void exchange_gone(struct exchange *); /* any thread: the client went away */
bool exchange_is_gone(struct exchange *);
/* Any thread: the answer has to end, for the first reason that was given. Its owner sees to it. */
void exchange_stop(struct exchange *, const char *why);
const char *exchange_stop_reason(struct exchange *); /* NULL: none */

/* A worker is about to wait for a model: who owns the exchange may take it back meanwhile. */
void exchange_park(struct exchange *);
bool exchange_is_parked(struct exchange *);
bool exchange_unpark(struct exchange *);    /* the worker goes on; false: it was taken back */
bool exchange_take_back(struct exchange *); /* it has no worker any more; false: it is not parked */

/* Takes text over; phase becomes REPLY. */
void exchange_reply_json(struct exchange *, int status, const json_t *value);
void exchange_reply_text(struct exchange *, int status, const char *type, struct str text);
/* An error in the shape of the route's protocol. type and code may be NULL: by the status. */
void exchange_error(struct exchange *, int status, const char *param, const char *code,
                    const char *format, ...) PRINTF_LIKE(5, 6);
void exchange_error_from(struct exchange *, const struct error *); /* status from err->status */
/* The reply of one that had to end before it was answered: 504 when time was up, else 503. */
void exchange_error_stopped(struct exchange *, const char *why);
json_t *exchange_error_value(const struct exchange *, int status, const char *param,
                             const char *code, const char *message);

void exchange_reason(struct exchange *, const char *text); /* for the log row, cut to fit */

/* Server-sent events: "data: <json>\n\n" and friends. */
void exchange_frame(struct exchange *, const char *event, const json_t *data);
void exchange_frame_text(struct exchange *, const char *text); /* "data: text\n\n" */
void exchange_comment(struct exchange *, const char *text);

/* Only while `served` is there. */
const struct engine_model_info *exchange_model(const struct exchange *);

struct str exchange_header(const struct exchange *, const char *name); /* empty if absent */
struct str exchange_query(const struct exchange *, const char *name);

#endif
