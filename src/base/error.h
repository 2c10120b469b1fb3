/* error: the status every fallible function returns, and the text that explains it.
 *
 * A function that may fail returns `enum status` and takes the caller's `struct error *` last.
 * Expected outcomes (EXHAUSTED, CANCELLED, END) carry no text. `err` may be NULL where only the
 * status matters. The message is one line: the thing, what was expected, what was found.
 * Threads: an error belongs to its caller; nothing here is shared. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/compiler.h"

/* name, sentence used when there is no better text */
#define STATUS_LIST(X)                                       \
    X(OK, "done")                                            \
    X(INVALID, "invalid input")                              \
    X(UNSUPPORTED, "valid, but not supported")               \
    X(NOT_FOUND, "not found")                                \
    X(NO_MEMORY, "out of memory")                            \
    X(IO, "input or output failed")                          \
    X(LIMIT, "a limit was exceeded")                         \
    X(EXHAUSTED, "no free resource")                         \
    X(CANCELLED, "cancelled")                                \
    X(END, "nothing left")                                   \
    X(CONFLICT, "in use by another request")                 \
    X(DIVERGED, "does not continue what is kept")            \
    X(INTERNAL, "internal fault")

enum status {
#define STATUS_ENUM(name, sentence) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

struct error {
    enum status status;
    char message[1024]; /* NUL-terminated UTF-8, one line, cut at a character */
};

const char *status_name(enum status s);     /* "INVALID" */
const char *status_sentence(enum status s); /* "invalid input" */

/* Writes the message (control characters and ill-formed UTF-8 from hostile names are escaped)
 * and returns `s`, so that a failing function ends with `return error_set(err, ...)`. */
enum status error_set(struct error *err, enum status s, const char *format, ...) PRINTF_LIKE(3, 4);
enum status error_set_va(struct error *err, enum status s, const char *format, va_list arguments);

/* Puts "text: " in front of a message that is already set; returns err->status. */
enum status error_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* Returns the status of a failing call to the caller at once. */
#define TRY(call)                           \
    do {                                    \
        enum status try_status_ = (call);   \
        if (try_status_ != STATUS_OK)       \
            return try_status_;             \
    } while (0)

#endif
