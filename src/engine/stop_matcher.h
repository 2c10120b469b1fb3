/* stop_matcher: finds stop strings in streamed text, wherever its pieces are cut.
 *
 * Text that may still become a stop string is held back, so none of a stop string is ever
 * released. The match that ends first wins, of those that end together the longest: the result
 * does not depend on how the text was cut. Ownership: copies the strings. Threads: one at a
 * time. */
#ifndef ENGINE_STOP_MATCHER_H
#define ENGINE_STOP_MATCHER_H

#include <stdint.h>

#include "base/str.h"
#include "base/strbuf.h"

#define STOP_MAX_STRINGS 16
#define STOP_MAX_BYTES 256

struct stop_matcher {
    struct str *stop;   /* [n], none is empty */
    int32_t *given_index; /* [n] position in the caller's list, which may hold empty ones */
    int32_t n;
    struct strbuf held;
};

void stop_matcher_init(struct stop_matcher *m, const struct str *stop, int32_t n);
void stop_matcher_release(struct stop_matcher *m);

/* Appends to *out what can be released of the text so far. Returns the caller's index of the
 * stop string that was found, or -1; after a find the text before it is out and the rest gone. */
int32_t stop_matcher_push(struct stop_matcher *m, struct str text, struct strbuf *out);
/* The end of the text: what was held is released. */
void stop_matcher_flush(struct stop_matcher *m, struct strbuf *out);

#endif
