/* jinja: an interpreter for the template language of Jinja2 3.1 as chat templates use it.
 *
 * A template is compiled once into an immutable tree and may then be rendered by any number of
 * threads at the same time. Nothing is read from or written to the outside: no loader, no file,
 * no clock except the one in the options.
 *
 * The environment is that of Hugging Face transformers: trim_blocks and lstrip_blocks on, one
 * final newline dropped, no autoescape, the immutable sandbox (except list.append, list.pop and
 * the filter from_json, which published templates use), break and continue, the generation
 * block, tojson without HTML escaping, raise_exception and strftime_now.
 *
 * Every byte of the output is known to be the template's own or to stem from a value of the
 * context: see struct jinja_span. Ownership: compile/free, render/release; the context is only
 * borrowed during the render.
 * Source: Jinja2 3.1.6 documentation and observed behaviour; Python 3 text formatting. */
#ifndef TEXT_JINJA_H
#define TEXT_JINJA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define JINJA_MAX_SOURCE_BYTES (4u << 20)
#define JINJA_MAX_DEPTH 200             /* of nesting in the source, and of calls in a render */
#define JINJA_MAX_STEPS 10000000u       /* and, for each element of `messages`: */
#define JINJA_MAX_STEPS_PER_MESSAGE 5000u
#define JINJA_MAX_OUTPUT_BYTES (16u << 20)
#define JINJA_MAX_MEMORY_BYTES (512u << 20)
#define JINJA_MAX_RANGE 100000

struct jinja_template;

enum jinja_failure {
    JINJA_FAILURE_NONE,
    JINJA_FAILURE_SYNTAX,    /* not parsed, unknown filter or test */
    JINJA_FAILURE_UNDEFINED, /* something undefined was used */
    JINJA_FAILURE_SECURITY,  /* refused by the sandbox */
    JINJA_FAILURE_RAISED,    /* raise_exception(text): the message ends with that text */
    JINJA_FAILURE_VALUE,     /* any other fault of the template or its context */
    JINJA_FAILURE_LIMIT,     /* steps, depth, memory or output size */
};

/* Bytes [from, to) of the output stem from a value: message content, tool descriptions, ...
 * A control token may be recognized only where no byte of it lies in a span. Spans are sorted
 * and neither touch nor overlap. */
struct jinja_span {
    size_t from, to;
};

struct jinja_options {
    /* Names of the context's own variables whose text counts as the template's own ("bos_token",
     * ...); NULL-terminated, or NULL for none. */
    const char *const *trusted;
    /* What strftime_now() prints: seconds since 1970 of the local civil time, see jinja_now(). */
    int64_t now;
};

struct jinja_output {
    char *text; /* NUL-terminated; NULL after a failure */
    size_t len;
    struct jinja_span *spans;
    size_t n_spans;
    enum jinja_failure failure;
    unsigned line; /* of the failure, from 1; 0 when unknown */
};

/* INVALID: the message names the line and the reason. */
MUST_CHECK enum status jinja_compile(struct str source, struct jinja_template **out,
                                     struct error *err);
void jinja_free(struct jinja_template *t); /* NULL is allowed */

/* `context` is a JSON object: the variables that the template sees. On failure (INVALID, or LIMIT)
 * out->failure and out->line say more, and the message is "line N: reason". Text of a `role` in
 * `messages` that is one of the usual role names counts as the template's own: several templates
 * build control tokens from it. */
MUST_CHECK enum status jinja_render(const struct jinja_template *t, const json_t *context,
                                    const struct jinja_options *options, struct jinja_output *out,
                                    struct error *err);
void jinja_output_release(struct jinja_output *out); /* a zeroed one is allowed */

int64_t jinja_now(void); /* the current local time in the form of jinja_options.now */
/* "2025-03-09T14:05:07" (or with a blank, or the date alone) to that form. */
bool jinja_parse_time(struct str text, int64_t *now);

#endif
