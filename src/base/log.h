/* log: where messages for people go. Libraries never print: whoever starts an engine or a server
 * hands it a sink, and the sink decides. A NULL sink, or one without `write`, drops everything.
 *
 * The line has no newline at its end, is valid UTF-8 and at most LOG_MAX_LINE bytes long.
 * Threads: `write` may be called from any thread and has to lock for itself. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/str.h"

#define LOG_MAX_LINE 2048

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_sink {
    void (*write)(void *user, enum log_level level, struct str line);
    void *user;
    enum log_level level; /* the most talkative one that is wanted */
};

const char *log_level_name(enum log_level level); /* "warning" */

static inline bool log_wants(const struct log_sink *sink, enum log_level level)
{
    return sink && sink->write && level <= sink->level;
}
void log_write(const struct log_sink *sink, enum log_level level, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
