/* http_reply: the answer of an exchange as a libmicrohttpd response. */
#ifndef SERVER_HTTP_REPLY_H
#define SERVER_HTTP_REPLY_H

#include <microhttpd.h>

#include "server/exchange.h"

/* Queues the reply or the stream of x. */
enum MHD_Result http_reply_queue(struct exchange *x);

/* "req_" and 24 random letters and digits, for ids that clients see. */
void server_random_id(char *out, size_t capacity, const char *prefix);

#endif
