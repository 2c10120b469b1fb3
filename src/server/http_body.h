/* http_body: request bodies in gzip and zstd, with a maximum after decompression. */
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include "base/error.h"
#include "base/strbuf.h"

bool http_body_coding_known(struct str coding); /* identity, gzip, x-gzip, zstd */
/* Decodes *body in place. LIMIT: larger than body->max afterwards; INVALID: damaged. */
MUST_CHECK enum status http_body_decode(struct str coding, struct strbuf *body, struct error *err);

#endif
