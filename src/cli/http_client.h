/* http_client: one HTTP/1.1 request over a plain socket, its answer handed on in pieces.
 *
 * http:// only; https is refused by name. Each request has its own connection, which closes after
 * it; cli/http_answer.h reads what comes back.
 * Threads: any, one request each. */
#ifndef CLI_HTTP_CLIENT_H
#define CLI_HTTP_CLIENT_H

#include "base/error.h"
#include "base/str.h"

struct http_url {
    char host[256], port[8], base[256]; /* base: the path in front, without its last slash */
};

MUST_CHECK enum status http_url_parse(const char *url, struct http_url *out, struct error *err);
/* `key` may be NULL. An empty `body` is a GET. `piece` is called with parts of a body of status
 * 200; any other status is IO with the number and the beginning of its body. */
MUST_CHECK enum status http_request(const struct http_url *url, const char *path, const char *key,
                                    struct str body, void (*piece)(void *user, struct str part),
                                    void *user, struct error *err);

#endif
