/* http_answer: reads one HTTP/1.x answer from pieces of any size, as they come off a connection.
 *
 * Status line and fields of at most 64 KiB (RFC 9112, sections 4 and 5), interim answers (1xx) in
 * front of them; then a body that is chunked, has a Content-Length, or ends with the connection
 * (section 6.3). Parts of the body of status 200 go to `piece`; of any other status the beginning
 * is kept for the message. What the pieces are cut into changes nothing.
 * Everything read is hostile. Ownership: release in any case. Threads: one at a time. */
#ifndef CLI_HTTP_ANSWER_H
#define CLI_HTTP_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

enum http_answer_state {
    HTTP_ANSWER_HEAD,
    HTTP_ANSWER_UNTIL_CLOSE,
    HTTP_ANSWER_LENGTH,     /* `left` bytes of the body are missing */
    HTTP_ANSWER_CHUNK_SIZE, /* in the line that begins a chunk */
    HTTP_ANSWER_CHUNK,      /* `left` bytes of the chunk are missing */
    HTTP_ANSWER_CHUNK_END,  /* the line end behind a chunk */
    HTTP_ANSWER_DONE,
};

struct http_answer {
    enum http_answer_state state;
    struct strbuf head, refusal;
    bool good; /* status 200 */
    uint64_t left;
    bool any_digit, in_extension, after_cr; /* of a chunk's size line, and of its end */
    void (*piece)(void *user, struct str part);
    void *user;
};

void http_answer_init(struct http_answer *a, void (*piece)(void *user, struct str part),
                      void *user);
/* INVALID names what is wrong; then no more may be fed. What lies behind the answer is ignored. */
MUST_CHECK enum status http_answer_feed(struct http_answer *a, struct str in, struct error *err);
static inline bool http_answer_done(const struct http_answer *a)
{
    return a->state == HTTP_ANSWER_DONE;
}
/* The connection has ended, or the answer is done: IO when something is missing, or when the
 * status is not 200 (with the number and the beginning of the body). */
MUST_CHECK enum status http_answer_end(const struct http_answer *a, struct error *err);
void http_answer_release(struct http_answer *a);

#endif
