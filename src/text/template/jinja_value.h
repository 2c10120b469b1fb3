/* jinja_value: the values a template computes with, and the state of one render.
 *
 * Everything lives in the render's arena (constants of the template in the template's) and is
 * freed with it. Strings and lists share memory freely: a string is never changed after it was
 * made, lists and dicts of the context neither; only namespaces and lists made by the template
 * change. Functions that can fail return a JV_FAILURE value and leave the reason in the render.
 * Threads: a render belongs to one thread; the template's constants are only read. */
#ifndef TEXT_JINJA_VALUE_H
#define TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "text/template/jinja.h"

enum jv_kind {
    JV_FAILURE, /* the reason is in the render */
    JV_UNDEFINED,
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_WIDE, /* an integer beyond 64 bits, up to 127 */
    JV_FLOAT,
    JV_STRING,
    JV_BYTES,
    JV_LIST,
    JV_TUPLE,
    JV_DICT,
    JV_KEYS,
    JV_VALUES,
    JV_ITEMS,
    JV_RANGE,
    JV_GENERATOR, /* what map, select and the like return: can be read once */
    JV_NAMESPACE,
    JV_MACRO,
    JV_FUNCTION, /* a global function */
    JV_METHOD,   /* a method together with its object */
    JV_LOOP,
    JV_CYCLER,
    JV_JOINER,
    JV_SELF,
};

/* flags of a value */
#define JV_UNSAFE 1  /* undefined: the attribute exists, the sandbox hides it */
#define JV_ELEMENT 2 /* undefined: a missing element, not an attribute */
#define JV_PARAMETER 4 /* undefined: an argument that was not given */
#define JV_GROUP 8   /* tuple: has the names grouper and list, from groupby */

struct jv {
    uint8_t kind;
    uint8_t flags;
    uint8_t owner; /* undefined: jv_kind of the object; 0: a variable */
    union {
        bool b;
        int64_t i;
        double f;
        const __int128 *wide;
        struct jstr *s; /* also the name of what is undefined */
        struct jlist *list;
        struct jdict *dict;
        struct jrange *range;
        struct jmacro *macro;
        const struct jinja_callable *function;
        struct jmethod *method;
        struct jloop *loop;
        struct jcycler *cycler;
    };
};

/* A string, where its bytes come from, and the buffer it may be extended in. */
enum jstr_source { JSTR_OWN, JSTR_VALUE, JSTR_MIXED };
#define JSTR_UNCOUNTED ((size_t)-1)

struct jbuffer {
    size_t used, capacity;             /* bytes */
    struct jinja_span *spans;          /* of MIXED strings; a shorter string clips the last one */
    size_t n_spans, span_capacity;
};

struct jstr {
    const char *ptr;
    size_t len;
    size_t n_chars; /* or JSTR_UNCOUNTED */
    const struct jinja_span *spans;
    size_t n_spans;
    struct jbuffer *buffer; /* NULL: cannot be extended in place */
    uint8_t source;
    bool markup; /* escaped text that `+` must not escape again */
};

struct jlist {
    struct jv *items;
    size_t n, capacity;
    size_t taken;    /* generator: items already read */
    bool from_value; /* part of the context: never changed */
};

struct jentry {
    struct jv key, value;
};
struct jdict {
    struct jentry *entries;
    size_t n, capacity;
    uint32_t *index; /* open addressing, entry + 1; NULL while small */
    size_t n_index;
    bool from_value;
};

struct jrange {
    int64_t start, stop, step;
    size_t n;
};
struct jcycler {
    struct jlist *items;
    size_t at;
};
struct jmethod {
    struct jv object;
    const struct jinja_callable *method;
};

/* Text under construction. */
struct jbuild {
    struct jinja *r;
    char *ptr;
    size_t len, capacity;
    struct jinja_span *spans;
    size_t n_spans, span_capacity;
    bool failed; /* out of memory or over the limit; the reason is in the render */
};

#define JINJA_CACHED_KEYS 64

/* One render. */
struct jinja {
    struct arena arena;
    const struct jinja_template *t;
    const struct jinja_options *options;
    const json_t *context;
    struct jv *globals; /* per symbol: context, then global functions */
    struct jv keys[JINJA_CACHED_KEYS]; /* of the context's objects */
    struct jscope *scope, *root;
    struct jbuild *out;
    size_t steps, max_steps;
    unsigned depth, calls;
    unsigned line;
    enum jinja_failure failure;
    struct error error;
};

#define JV_IS_FAILURE(v) ((v).kind == JV_FAILURE)

/* Evaluates to a fresh variable, or leaves the function with the failure. */
#define JV_TRY(name, expression)        \
    struct jv name = (expression);      \
    if (JV_IS_FAILURE(name))            \
        return name

struct jv jv_fail(struct jinja *r, enum jinja_failure kind, const char *format, ...)
    PRINTF_LIKE(3, 4);
struct jv jv_no_memory(struct jinja *r);
bool jinja_step(struct jinja *r, size_t n); /* counts work; false when the limit is reached */
/* Aborts nothing: NULL with the failure set. */
void *jinja_alloc(struct jinja *r, size_t count, size_t size);
struct arena *jinja_arena(struct jinja *r);

/* --- making values -------------------------------------------------------------------------- */
static inline struct jv jv_none(void) { return (struct jv){ .kind = JV_NONE }; }
static inline struct jv jv_bool(bool b) { return (struct jv){ .kind = JV_BOOL, .b = b }; }
static inline struct jv jv_int(int64_t i) { return (struct jv){ .kind = JV_INT, .i = i }; }
static inline struct jv jv_float(double f) { return (struct jv){ .kind = JV_FLOAT, .f = f }; }
static inline struct jv jv_size(size_t n) { return jv_int((int64_t)n); }
static inline struct jv jv_of_str(struct jstr *s)
{
    return (struct jv){ .kind = JV_STRING, .s = s };
}
static inline struct jv jv_of_list(struct jlist *l)
{
    return (struct jv){ .kind = JV_LIST, .list = l };
}
static inline struct jv jv_undefined(struct jstr *name)
{
    return (struct jv){ .kind = JV_UNDEFINED, .s = name };
}
struct jv jv_wide(struct jinja *r, __int128 i); /* INT when it fits */
struct jv jv_text(struct jinja *r, const char *ptr, size_t n, enum jstr_source source);
struct jv jv_literal(struct jinja *r, const char *text); /* a C literal: not copied */
struct jv jv_string_like(struct jinja *r, const struct jstr *like, const char *ptr, size_t n);
struct jv jv_slice(struct jinja *r, struct jstr *s, size_t from, size_t to); /* bytes */

struct jlist *jlist_new(struct jinja *r, size_t capacity); /* NULL: failed */
bool jlist_push(struct jinja *r, struct jlist *l, struct jv v);
struct jdict *jdict_new(struct jinja *r, size_t capacity);
bool jdict_set(struct jinja *r, struct jdict *d, struct jv key, struct jv value);
bool jdict_get(struct jinja *r, struct jdict *d, struct jv key, struct jv *value);
#define JDICT_INDEX_FROM 9 /* smaller ones are searched from end to end */
bool jdict_reindex(struct jinja *r, struct jdict *d); /* after entries were put in directly */
bool jdict_get_str(struct jinja *r, struct jdict *d, struct str key, struct jv *value);

/* The variables of a render from JSON; strings are borrowed from it. */
struct jv jv_from_json(struct jinja *r, const json_t *j, bool trusted);

/* --- asking values -------------------------------------------------------------------------- */
const char *jv_type_name(struct jv v);  /* "int", "str", "NoneType" */
struct str jv_object_name(struct jinja *r, unsigned kind); /* "str object", "None" */
bool jv_truth(struct jv v);
bool jv_is_number(struct jv v);  /* bool, int, float */
bool jv_is_integer(struct jv v); /* bool, int */
__int128 jv_integer(struct jv v);
double jv_double(struct jv v);
bool jv_is_hashable(struct jv v);
bool jv_is_callable(struct jv v);
bool jv_is_iterable(struct jv v);
bool jv_equal(struct jinja *r, struct jv a, struct jv b);
bool jv_same(struct jv a, struct jv b);
struct jv jv_less(struct jinja *r, struct jv a, struct jv b, const char *op, bool or_equal);
struct jv jv_length(struct jinja *r, struct jv v);
struct jv jv_contains(struct jinja *r, struct jv item, struct jv container);
struct jv jv_undefined_error(struct jinja *r, struct jv v);

size_t jstr_chars(struct jstr *s);
size_t jstr_offset(struct jstr *s, size_t n_chars); /* byte offset of a character */
static inline struct str jstr_str(const struct jstr *s) { return (struct str){ s->ptr, s->len }; }
/* Whether the byte at `at` came from a value, and where that changes next. */
bool jstr_value_at(const struct jstr *s, size_t at, size_t *until);

/* --- walking -------------------------------------------------------------------------------- */
struct jiter {
    struct jv source;
    size_t at, n;
    bool counted; /* n is the number of items */
};
struct jv jiter_init(struct jinja *r, struct jiter *it, struct jv v); /* NONE or failure */
bool jiter_next(struct jinja *r, struct jiter *it, struct jv *item); /* false: end or failed */
struct jv jv_list_of(struct jinja *r, struct jv v); /* a fresh LIST of the items */

/* --- building text -------------------------------------------------------------------------- */
void jbuild_init(struct jbuild *b, struct jinja *r, size_t expected);
void jbuild_bytes(struct jbuild *b, const char *ptr, size_t n, bool is_value);
void jbuild_puts(struct jbuild *b, const char *text, bool is_value);
void jbuild_add(struct jbuild *b, const struct jstr *s, size_t from, size_t to);
void jbuild_str(struct jbuild *b, const struct jstr *s);
void jbuild_char(struct jbuild *b, uint32_t code_point, bool is_value);
struct jv jbuild_finish(struct jbuild *b);
struct jv jv_concat(struct jinja *r, struct jstr *const *parts, size_t n); /* n > 0 */

#endif
