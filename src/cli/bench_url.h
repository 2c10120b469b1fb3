/* bench_url: the speed of a running OpenAI-compatible server, as its clients see it.
 *
 * Prompts are random ids through /v1/completions, so the server must say meta.n_vocab in
 * /v1/models. Threads: one for each stream. */
#ifndef CLI_BENCH_URL_H
#define CLI_BENCH_URL_H

#include "cli/bench_run.h"
#include "cli/http_client.h"

struct bench_server {
    struct http_url url;
    const char *key; /* NULL: none; borrowed */
    char model[256];
    int n_vocab;
};
struct bench_waits {
    double p50, p95, p99; /* milliseconds */
};

/* Asks which model is offered and how many ids it has. */
MUST_CHECK enum status bench_server_open(struct bench_server *s, const char *url, const char *key,
                                         struct error *err);
/* Reading: n_prompt tokens over the time to the first one written. Writing: the tokens behind the
 * first of each stream over the time from the first of all to the last. */
MUST_CHECK enum status bench_url_run(const struct bench_server *s, const struct bench_test *t,
                                     int repetitions, struct bench_result *out,
                                     struct bench_waits *first, struct bench_waits *gap,
                                     struct error *err);

#endif
