/* request_log: one row per generating request, and notices; columns as README "Server log". */
#ifndef SERVER_REQUEST_LOG_H
#define SERVER_REQUEST_LOG_H

#include "base/compiler.h"
#include "server/exchange.h"

void request_log_row(const struct exchange *);
void request_log_notice(struct server *, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same under --quiet. */
void request_log_failure(struct server *, const char *text);

#endif
