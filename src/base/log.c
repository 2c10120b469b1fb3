#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "base/utf8.h"

const char *log_level_name(enum log_level level)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    return (size_t)level < ARRAY_SIZE(names) ? names[level] : "unknown";
}

void log_write(const struct log_sink *sink, enum log_level level, const char *format, ...)
{
    if (!log_wants(sink, level))
        return;
    char text[LOG_MAX_LINE];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (n < 0)
        return;
    struct str line = { text, MIN((size_t)n, sizeof(text) - 1) };
    if ((size_t)n > line.len)
        line.len = utf8_complete(line);
    if (utf8_valid(line)) {
        sink->write(sink->user, level, line);
        return;
    }
    struct strbuf repaired;
    strbuf_init(&repaired, 3 * sizeof(text));
    utf8_repair(&repaired, line);
    line = strbuf_str(&repaired);
    if (line.len > LOG_MAX_LINE)
        line.len = utf8_complete(str_slice(line, 0, LOG_MAX_LINE));
    sink->write(sink->user, level, line);
    strbuf_release(&repaired);
}
