/* server: the HTTP face of an engine.
 *
 * server_start() returns when the port is bound; requests are then answered by libmicrohttpd's
 * thread, a few workers that parse and tokenize, and one watch thread (disconnects, deadlines).
 * Ownership: the server borrows the engine and its models, which must outlive it. Strings in the
 * options are borrowed for the server's life. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"

struct api_key; /* server/api_keys.h */
struct server;

struct server_options {
    const char *host;            /* address, or "unix:PATH" */
    int port;                    /* 0: any free one, see server_port() */
    const struct api_key *api_keys; /* [n_api_keys]; none: open */
    size_t n_api_keys;
    const char *const *cors_origins; /* [n_cors_origins] exact origins, or "*" */
    size_t n_cors_origins;
    int concurrency, max_connections, n_workers;
    double body_timeout, request_timeout, write_timeout, idle_timeout, drain_timeout;
    double keep_alive_interval; /* seconds between frames on a silent stream; < 0: never */
    bool strict_model;         /* other names than those of the models: 404 */
    int models_max;            /* loaded at once; 0: as many as memory holds */
    double model_idle_unload;  /* seconds; 0: never */
    bool models_autoload;      /* a request may load */
    bool metrics_public;       /* /metrics needs no key, wherever the server listens */
    json_t *template_defaults; /* object of template variables; NULL: none */
    bool parse_special;        /* message text may form control tokens */
    int32_t max_tokens;        /* for requests that name none; 0: until stop */
    int32_t max_output_tokens; /* ceiling; 0: none */
    struct sampling sampling;  /* flags: over the model's defaults, under the request */
    const struct str *script;  /* [n_script] raw assistant turns to replay */
    size_t n_script;
    bool quiet, verbose, log_json, colour;
    bool live_row;             /* the log is a terminal: show what runs below it */
    FILE *log; /* rows and notices; NULL: none */
};

/* One model that is offered; the first is the default. Strings are borrowed. */
struct server_model {
    const char *id, *path;
    const char *const *aliases; /* [n_aliases] */
    size_t n_aliases;
    struct engine_model *model; /* NULL: loaded when somebody asks for it */
};

MUST_CHECK enum status server_start(const struct server_options *, struct engine *,
                                    const struct server_model *models, size_t n_models,
                                    struct server **, struct error *);
/* From server_start() on everything that needs a model is refused with 503. Loads the first model
 * and holds it; then server_ready(), and requests are served. */
MUST_CHECK enum status server_load(struct server *, struct engine_model **, struct error *);
void server_ready(struct server *);
/* A line for the log, as a notice, under `quiet`, too; any thread, before server_stop(). */
void server_log(struct server *, struct str line);
int server_port(const struct server *);
/* Whether other machines cannot reach this address: loopback, or a socket in the file system. */
bool server_host_is_loopback(const char *host);
/* Stops accepting, lets running requests finish for drain_timeout, cancels the rest, frees. */
void server_stop(struct server *);

#endif
