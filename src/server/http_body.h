/* http_body: request bodies in gzip and zstd, with a maximum after decompression. */
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include "base/error.h"
#include "base/strbuf.h"

bool http_body_coding_known(struct str coding); /* identity, gzip, x-gzip, zstd */
/* Appends the decoded body to *out. LIMIT: larger than out->max; INVALID: damaged. */
MUST_CHECK enum status http_body_decode(struct str coding, struct str body, struct strbuf *out,
                                        struct error *err);

#endif
