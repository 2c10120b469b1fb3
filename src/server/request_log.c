#include "server/request_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "server/live_row.h"
#include "server/server_state.h"

#define ROWS_PER_HEADER 50

static void put_time(char out[16])
{
    time_t now = (time_t)clock_unix();
    struct tm local;
    localtime_r(&now, &local);
    strftime(out, 16, "%H:%M:%S", &local);
}

static void put_count(char *out, size_t n, int64_t value)
{
    if (value < 0)
        snprintf(out, n, "--");
    else if (value < 10000)
        snprintf(out, n, "%lld", (long long)value);
    else if (value < 1000000)
        snprintf(out, n, "%.1fk", (double)value / 1e3);
    else
        snprintf(out, n, "%.1fM", (double)value / 1e6);
}

static void put_seconds(char *out, size_t n, double value)
{
    if (value < 0)
        snprintf(out, n, "--");
    else if (value < 100)
        snprintf(out, n, "%.1fs", value);
    else
        snprintf(out, n, "%d:%02d", (int)value / 60, (int)value % 60);
}

static void put_row(struct server *s, const struct exchange *x, double total)
{
    char now[16], prompt[16], cached[16], first[16], output[16], rate[16], all[16], finish[16];
    const struct exchange_row *r = &x->row;
    put_time(now);
    put_count(prompt, sizeof prompt, r->prompt_tokens);
    put_count(output, sizeof output, r->output_tokens);
    put_seconds(first, sizeof first, r->first_token_s);
    put_seconds(all, sizeof all, total);
    if (r->prompt_tokens > 0 && r->cached_tokens >= 0)
        snprintf(cached, sizeof cached, "%d%%", (int)(100 * r->cached_tokens / r->prompt_tokens));
    else
        snprintf(cached, sizeof cached, "--");
    if (r->tokens_per_second >= 0)
        snprintf(rate, sizeof rate, "%.1f", r->tokens_per_second);
    else
        snprintf(rate, sizeof rate, "--");
    if (r->finish)
        snprintf(finish, sizeof finish, "%s", r->finish);
    else
        snprintf(finish, sizeof finish, "%d", x->status);
    if (s->rows_printed++ % ROWS_PER_HEADER == 0 && (s->rows_printed == 1 || s->options.colour))
        fprintf(s->options.log, "%8s  %-9s%8s%8s%7s%8s%8s  %-12s%7s\n", "", "endpoint", "prompt",
                "cached", "ttft", "out", "tok/s", "finish", "total");
    fprintf(s->options.log, "%8s  %-9s%8s%8s%7s%8s%8s  %-12s%7s%s%s\n", now, r->endpoint, prompt,
            cached, first, output, rate, finish, all, r->reason[0] ? "  " : "", r->reason);
}

/* Drops `value`. */
static void put_json_line(struct server *s, json_t *value)
{
    struct strbuf line;
    strbuf_init(&line, 1u << 16);
    json_write(&line, value);
    json_decref(value);
    fprintf(s->options.log, "%s\n", line.ptr ? line.ptr : "{}");
    strbuf_release(&line);
}

static void put_json(struct server *s, const struct exchange *x, double total)
{
    const struct exchange_row *r = &x->row;
    json_t *row =
        json_pack("{s:I,s:s,s:s,s:I,s:I,s:I,s:f,s:f,s:s?,s:i,s:f,s:s}", "time",
                  (json_int_t)clock_unix(), "request_id", x->request_id, "endpoint", r->endpoint,
                  "prompt_tokens", (json_int_t)r->prompt_tokens, "cached_tokens",
                  (json_int_t)r->cached_tokens, "output_tokens", (json_int_t)r->output_tokens,
                  "ttft_s", r->first_token_s, "tokens_per_second", r->tokens_per_second, "finish",
                  r->finish, "status", x->status, "total_s", total, "reason", r->reason);
    put_json_line(s, row);
}

/* The dot stands in the endpoint's column, which is 9 wide. */
static void put_notice(struct server *s, const char *text)
{
    char now[16];
    if (s->options.log_json) {
        json_t *line = json_pack("{s:I,s:s}", "time", (json_int_t)clock_unix(), "notice", text);
        put_json_line(s, line);
        return;
    }
    put_time(now);
    fprintf(s->options.log, "%8s  •        %s\n", now, text);
}

/* How the time went, for a request that was computed. */
static void put_details(struct strbuf *line, const struct exchange *x)
{
    const struct request_usage *u = &x->row.usage;
    if (u->prompt_tokens == 0)
        return;
    strbuf_printf(line, "  queue %.1f ms, prefill %.1f ms (%d tokens), decode %.1f ms (%d tokens)",
                  u->queue_ms, u->prompt_ms, u->prompt_tokens - u->cached_tokens, u->decode_ms,
                  u->completion_tokens);
    if (u->drafted_tokens)
        strbuf_printf(line, ", %d of %d drafted tokens accepted", u->accepted_tokens,
                      u->drafted_tokens);
}

/* Method and path are the client's: error_set escapes what a terminal would obey. */
static void put_access(struct server *s, const struct exchange *x, double total)
{
    struct error name = { 0 };
    struct strbuf line;
    (void)error_set(&name, STATUS_INVALID, "%s %s", x->method, x->path);
    strbuf_init(&line, 1u << 16);
    strbuf_printf(&line, "%s %d %.1f ms %s", name.message, x->status, total * 1000, x->request_id);
    put_details(&line, x);
    put_notice(s, line.ptr);
    strbuf_release(&line);
}

/* Takes the lock. A log that nobody reads must not stop the server: false, and a line is lost. */
static bool begin(struct server *s)
{
    int fd = fileno(s->options.log);
    pthread_mutex_lock(&s->lock);
    if (fd >= 0 && !file_takes_output(fd)) {
        s->rows_lost++;
        pthread_mutex_unlock(&s->lock);
        return false;
    }
    live_row_wipe(s);
    if (s->rows_lost) {
        char text[64];
        snprintf(text, sizeof text, "%" PRIu64 " lines were lost: nobody read the log",
                 s->rows_lost);
        put_notice(s, text);
        s->rows_lost = 0;
    }
    return true;
}

/* A disk that is full loses lines, too: the first time that is told where the log is not. */
static void end(struct server *s)
{
    bool failed = fflush(s->options.log) != 0 || ferror(s->options.log);
    if (failed && !s->log_failed && s->options.log != stderr && file_takes_output(STDERR_FILENO))
        fprintf(stderr, "error: the log cannot be written: %s; lines of it are lost\n",
                strerror(errno));
    s->log_failed |= failed;
    pthread_mutex_unlock(&s->lock);
}

void request_log_row(const struct exchange *x)
{
    struct server *s = x->server;
    bool failed = x->status >= 400 || x->row.reason[0];
    if (!s->options.log || (s->options.quiet && !failed))
        return;
    double total = clock_seconds() - x->started;
    if (!begin(s))
        return;
    if (x->row.endpoint && s->options.log_json)
        put_json(s, x, total);
    else if (x->row.endpoint)
        put_row(s, x, total);
    if (s->options.verbose)
        put_access(s, x, total);
    end(s);
}

void request_log_failure(struct server *s, const char *text)
{
    if (!s->options.log || !begin(s))
        return;
    put_notice(s, text);
    end(s);
}

void request_log_notice(struct server *s, const char *format, ...)
{
    if (s->options.quiet)
        return;
    struct error line = { 0 };
    va_list arguments;
    va_start(arguments, format);
    (void)error_set_va(&line, STATUS_INVALID, format, arguments);
    va_end(arguments);
    request_log_failure(s, line.message);
}
