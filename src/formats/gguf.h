/* gguf: reader of GGUF files, version 2 and 3, little-endian, whole or split.
 *
 * The file stays mapped; metadata values are views into it, so that opening costs one walk over
 * the header and no copy of a vocabulary. Scalar strings and keys are checked to be UTF-8 at
 * opening; the elements of a string array are not: whoever reads them checks what he needs.
 * Everything that the header states is compared with the file's size before it is used. A file
 * that shrinks or changes later gives wrong values, never reads outside of the mapping.
 *
 * Ownership: see formats/weight_file.h; values and strings live until gguf_close().
 * Threads: read-only once opened.
 * Format: gguf_read.c has the offset table. Source: ggml, docs/gguf.md. */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strmap.h"
#include "formats/weight_file.h"

/* name, id in the file, bytes of one element (0: varies), what a person calls it */
#define GGUF_TYPE_LIST(X)                  \
    X(U8, 0, 1, "uint8")                   \
    X(I8, 1, 1, "int8")                    \
    X(U16, 2, 2, "uint16")                 \
    X(I16, 3, 2, "int16")                  \
    X(U32, 4, 4, "uint32")                 \
    X(I32, 5, 4, "int32")                  \
    X(F32, 6, 4, "float32")                \
    X(BOOL, 7, 1, "bool")                  \
    X(STRING, 8, 0, "string")              \
    X(ARRAY, 9, 0, "array")                \
    X(U64, 10, 8, "uint64")                \
    X(I64, 11, 8, "int64")                 \
    X(F64, 12, 8, "float64")

enum gguf_type {
#define GGUF_TYPE_ENUM(name, id, bytes, text) GGUF_##name = id,
    GGUF_TYPE_LIST(GGUF_TYPE_ENUM)
#undef GGUF_TYPE_ENUM
};
const char *gguf_type_name(enum gguf_type type); /* "uint32" */

/* A view. Elements are unaligned and little-endian; strings are each a u64 length and bytes. */
struct gguf_value {
    enum gguf_type type; /* of the value; of the elements where is_array */
    bool is_array;
    uint64_t count;      /* elements; 1 if not an array */
    const uint8_t *bytes;
    size_t n_bytes;      /* of all elements */
};

struct gguf_pair {
    struct str key;
    struct gguf_value value;
};

struct gguf {
    struct weight_file weights;
    uint32_t version, alignment;
    struct gguf_pair *pairs; /* in file order; of a split archive those of the first part */
    size_t n_pairs;
    struct strmap pair_index;
};

/* Opens the file, or all parts of the archive whose first part it is. On failure *g is closed. */
MUST_CHECK enum status gguf_open(struct gguf *g, const char *path, struct error *err);
/* The same for one whole file in memory, which has to stay until gguf_close(). */
MUST_CHECK enum status gguf_open_memory(struct gguf *g, const char *label, const void *bytes,
                                        size_t n, struct error *err);
void gguf_close(struct gguf *g); /* a zeroed one is allowed */

/* NULL: absent. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
/* "{arch}.name", with the file's general.architecture. */
const struct gguf_value *gguf_find_arch(const struct gguf *g, const char *name);
struct str gguf_architecture(const struct gguf *g); /* empty when absent or not a string */

/* Getters: NOT_FOUND when the key is absent, INVALID when the value has another type or does not
 * fit; the message names the key, what was expected and what was found. Any integer type gives a
 * u64 or i64 if the number fits; f64 takes floats and integers. */
MUST_CHECK enum status gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out,
                                    struct error *err);
MUST_CHECK enum status gguf_get_i64(const struct gguf *g, const char *key, int64_t *out,
                                    struct error *err);
MUST_CHECK enum status gguf_get_f64(const struct gguf *g, const char *key, double *out,
                                    struct error *err);
MUST_CHECK enum status gguf_get_bool(const struct gguf *g, const char *key, bool *out,
                                     struct error *err);
MUST_CHECK enum status gguf_get_str(const struct gguf *g, const char *key, struct str *out,
                                    struct error *err);
/* An array whose elements are of `type`; GGUF_ARRAY: of any type. */
MUST_CHECK enum status gguf_get_array(const struct gguf *g, const char *key, enum gguf_type type,
                                      const struct gguf_value **out, struct error *err);

/* Elements of a value, which may be a scalar (then index 0). False: of another kind, does not fit,
 * or index is too large. Strings of an array: use the iterator or gguf_strings. */
bool gguf_value_u64(const struct gguf_value *v, uint64_t index, uint64_t *out);
bool gguf_value_i64(const struct gguf_value *v, uint64_t index, int64_t *out);
bool gguf_value_f64(const struct gguf_value *v, uint64_t index, double *out);
bool gguf_value_bool(const struct gguf_value *v, uint64_t index, bool *out);
bool gguf_value_str(const struct gguf_value *v, struct str *out); /* scalar strings only */

/* Walks the strings of an array (or the one string of a scalar):
 *     struct gguf_string_iter it = gguf_strings_begin(value);
 *     for (struct str s; gguf_strings_next(&it, &s);) ... */
struct gguf_string_iter {
    const uint8_t *at, *end;
    uint64_t left;
};
struct gguf_string_iter gguf_strings_begin(const struct gguf_value *v);
bool gguf_strings_next(struct gguf_string_iter *it, struct str *out);

/* Fills out[v->count]; false if v holds no strings or the file has changed under the mapping. */
bool gguf_strings(const struct gguf_value *v, struct str *out);

/* A short text for messages: `string "abc"`, `uint32 7`, `array of 262144 string`. */
void gguf_value_describe(const struct gguf_value *v, char *out, size_t size);

#endif
