/* thought_filter: tells the thoughts of a streamed answer from the answer.
 *
 * Thoughts stand between <think> and </think>; a prompt may have opened them already. Text that
 * could be the beginning of a mark is held back until it is decided. Threads: one at a time. */
#ifndef CLI_THOUGHT_FILTER_H
#define CLI_THOUGHT_FILTER_H

#include <stdbool.h>

#include "base/strbuf.h"

struct thought_filter {
    bool inside;
    struct strbuf held; /* undecided */
    void (*emit)(void *user, struct str text, bool is_thought);
    void *user;
};

void thought_filter_init(struct thought_filter *f, bool inside,
                         void (*emit)(void *user, struct str text, bool is_thought), void *user);
void thought_filter_push(struct thought_filter *f, struct str text);
void thought_filter_finish(struct thought_filter *f); /* emits what is held, and releases */

#endif
