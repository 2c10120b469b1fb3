/* term: colour and one progress line, only where a person looks.
 *
 * Colour appears on a terminal, never under NO_COLOR (any value) or TERM=dumb. A progress line
 * appears on stderr when that is a terminal and the work has taken over a second; it is redrawn
 * at most ten times a second and wiped at the end. Threads: one at a time. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum term_style {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_RED,
    TERM_GREEN,
    TERM_YELLOW,
};

bool term_has_colour(FILE *stream);
bool term_is_terminal(FILE *stream);
int term_columns(FILE *stream); /* 80 when unknown */
/* The escape sequence of a style, "" where the stream has no colour. */
const char *term_style(FILE *stream, enum term_style style);
void term_clear_line(FILE *stream); /* wipes a line that progress left; nothing on a pipe */

struct progress {
    const char *what; /* "loading", borrowed */
    uint64_t start_ns, drawn_ns;
    bool drawn, off;
};

void progress_start(struct progress *p, const char *what, bool quiet);
/* `total` 0: unknown, `done` is shown as a count. */
void progress_update(struct progress *p, uint64_t done, uint64_t total);
void progress_end(struct progress *p);

#endif
