/* jinja_library: the filters, tests, methods and global functions a template can call.
 *
 * Each is one row of a table in its file; adding one is adding a row. `run` gets its arguments
 * bound to the parameter names of the row (an absent one has kind JV_FAILURE, see jarg_given),
 * `run_all` gets them as they were written. */
#ifndef TEXT_JINJA_LIBRARY_H
#define TEXT_JINJA_LIBRARY_H

#include "text/template/jinja_value.h"

#define JINJA_MAX_PARAMETERS 7

struct jargs {
    struct jv *positional;
    size_t n;
    struct jstr **names;
    struct jv *named;
    size_t n_named;
};

struct jinja_callable {
    const char *name;
    struct jv (*run)(struct jinja *r, struct jv self, struct jv *arg);
    struct jv (*run_all)(struct jinja *r, struct jv self, const struct jargs *args);
    uint8_t n_required;
    uint8_t kind; /* method: jv_kind of its object */
    const char *parameters[JINJA_MAX_PARAMETERS];
};

#define jarg_given(v) ((v).kind != JV_FAILURE)

const struct jinja_callable *jinja_filter_find(struct str name);
const struct jinja_callable *jinja_test_find(struct str name);
const struct jinja_callable *jinja_function_find(struct str name);
const struct jinja_callable *jinja_method_find(unsigned kind, struct str name);
/* Exists in Python, but the sandbox hides it because it would change the object. */
bool jinja_method_is_hidden(unsigned kind, struct str name);

/* Calls a row of a table. */
struct jv jinja_run(struct jinja *r, const struct jinja_callable *c, struct jv self,
                    const struct jargs *args);
/* Calls a value of the template: macro, method, function, loop, joiner. */
struct jv jinja_call(struct jinja *r, struct jv callee, const struct jargs *args);
struct jv jinja_attribute(struct jinja *r, struct jv object, struct jstr *name); /* object.name */
struct jv jinja_subscript(struct jinja *r, struct jv object, struct jv key);     /* object[key] */

/* Operators (jinja_operators.c). */
struct jv jinja_binary(struct jinja *r, unsigned op, struct jv a, struct jv b); /* enum jop */
struct jv jinja_compare(struct jinja *r, unsigned op, struct jv a, struct jv b);
struct jv jinja_negative(struct jinja *r, struct jv v);
struct jv jinja_positive(struct jinja *r, struct jv v);
struct jv jinja_slice(struct jinja *r, struct jv object, const struct jv bounds[3]);

/* Printing (jinja_format.c). */
void jformat_str(struct jbuild *b, struct jv v);                 /* str(v) */
void jformat_repr(struct jbuild *b, struct jv v, bool is_value); /* repr(v) */
struct jv jv_to_string(struct jinja *r, struct jv v);
struct jv jformat_percent(struct jinja *r, struct jstr *format, struct jv values);
struct jv jformat_method(struct jinja *r, struct jstr *format, const struct jargs *args);
void jformat_integer(struct jbuild *b, __int128 i, bool is_value);

/* Text helpers shared by filters and methods (jinja_text.c). */
struct jv jtext_upper(struct jinja *r, struct jstr *s);
struct jv jtext_lower(struct jinja *r, struct jstr *s);
struct jv jtext_fold(struct jinja *r, struct jstr *s);
struct jv jtext_swap_case(struct jinja *r, struct jstr *s);
struct jv jtext_capitalize(struct jinja *r, struct jstr *s);
struct jv jtext_title(struct jinja *r, struct jstr *s);
struct jv jtext_title_words(struct jinja *r, struct jstr *s); /* as the filter title */
struct jv jtext_strip(struct jinja *r, struct jstr *s, const struct jstr *chars, bool left,
                      bool right); /* chars NULL: white space */
struct jv jtext_replace(struct jinja *r, struct jstr *s, const struct jstr *from,
                        const struct jstr *to, int64_t count);
struct jv jtext_pad(struct jinja *r, struct jstr *s, size_t left, size_t right, uint32_t fill);
struct jv jtext_lines(struct jinja *r, struct jstr *s, bool keep_ends); /* LIST */
struct jv jtext_words(struct jinja *r, struct jstr *s);                 /* LIST */
struct jv jtext_escape(struct jinja *r, struct jstr *s);
bool jtext_is(struct jstr *s, const char *what); /* "upper", "lower" */

struct jv jinja_to_json(struct jinja *r, struct jv v, struct jv *arg);
struct jv jinja_parse_json(struct jinja *r, struct jv v);
struct jv jinja_strftime(struct jinja *r, struct jstr *format);

/* Argument helpers: the failure names what was expected. */
struct jv jarg_integer(struct jinja *r, struct jv v, int64_t *out); /* NONE, or failure */
struct jv jarg_string(struct jinja *r, struct jv v, const char *what);

#endif
