#include "cli/term.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define SECOND_NS UINT64_C(1000000000)

bool term_is_terminal(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

bool term_has_colour(FILE *stream)
{
    const char *term = getenv("TERM");
    const char *no_colour = getenv("NO_COLOR");
    return !(no_colour && *no_colour) && term && *term && strcmp(term, "dumb") != 0 &&
           term_is_terminal(stream);
}

int term_columns(FILE *stream)
{
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

const char *term_style(FILE *stream, enum term_style style)
{
    static const char *const sequence[] = {
        [TERM_PLAIN] = "\033[0m", [TERM_BOLD] = "\033[1m",   [TERM_DIM] = "\033[2m",
        [TERM_RED] = "\033[31m",  [TERM_GREEN] = "\033[32m", [TERM_YELLOW] = "\033[33m",
    };
    return term_has_colour(stream) ? sequence[style] : "";
}

void term_clear_line(FILE *stream)
{
    if (term_has_colour(stream))
        fputs("\r\033[K", stream);
}

void progress_start(struct progress *p, const char *what, bool quiet)
{
    *p = (struct progress){ .what = what, .start_ns = clock_ns() };
    p->off = quiet || !term_is_terminal(stderr);
}

void progress_update(struct progress *p, uint64_t done, uint64_t total)
{
    if (p->off)
        return;
    uint64_t now = clock_ns();
    if (now - p->start_ns < SECOND_NS || now - p->drawn_ns < SECOND_NS / 10)
        return;
    p->drawn_ns = now;
    p->drawn = true;
    double seconds = (double)(now - p->start_ns) / 1e9;
    if (total > 0)
        fprintf(stderr, "\r%s %3.0f %%  %.0f s ", p->what, 100.0 * (double)done / (double)total,
                seconds);
    else
        fprintf(stderr, "\r%s %" PRIu64 "  %.0f s ", p->what, done, seconds);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        fprintf(stderr, "\r%*s\r", term_columns(stderr) - 1, "");
    p->drawn = false;
    p->off = true;
}
