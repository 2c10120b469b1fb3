/* config_source: a model's hyper-parameters, from GGUF metadata or from config.json.
 *
 * Every getter takes both spellings of a key; NULL where a format has none (then it is absent):
 *   gguf  without the architecture in front: "attention.head_count" is looked up as
 *         "llama.attention.head_count"; one that begins with '=' is taken as it is: "=general.name"
 *   hf    a path of members: "rope_parameters.rope_theta"; looked up in text_config first (when
 *         there is one), then in the outermost object. JSON null is absent.
 * Both may list alternatives with '|', the first that is there wins:
 *   config_get_i64(c, "rope.dimension_count", "rotary_dim|head_dim", &n, err)
 * NOT_FOUND: absent; the message names the key. INVALID: another type or out of range; the message
 * says key, expected and found. A number written as 5.0 is an integer in JSON only.
 * The _or variants give the default when the key is absent, and still fail on a wrong type.
 * Ownership: borrows its gguf or hf_config; strings live as long as those. Threads: read-only. */
#ifndef FORMATS_CONFIG_SOURCE_H
#define FORMATS_CONFIG_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

struct gguf;

struct config_source {
    const struct gguf *gguf; /* one of the two is set */
    const json_t *json;      /* config.json */
};

/* GGUF general.architecture, or model_type of config.json; empty when absent. */
struct str config_architecture(const struct config_source *c);
/* model_type of text_config; empty when there is none. */
struct str config_text_model_type(const struct config_source *c);

/* What kind of value a key holds; of its first element if it is an array. */
enum config_kind {
    CONFIG_ABSENT,
    CONFIG_BOOL,
    CONFIG_INTEGER,
    CONFIG_FLOAT,
    CONFIG_STRING,
    CONFIG_OTHER, /* an object, an empty array, an array of arrays */
};
enum config_kind config_kind(const struct config_source *c, const char *gguf, const char *hf);
bool config_is_array(const struct config_source *c, const char *gguf, const char *hf);
bool config_has(const struct config_source *c, const char *gguf, const char *hf);

MUST_CHECK enum status config_get_i64(const struct config_source *c, const char *gguf,
                                      const char *hf, int64_t *out, struct error *err);
MUST_CHECK enum status config_get_f64(const struct config_source *c, const char *gguf,
                                      const char *hf, double *out, struct error *err);
MUST_CHECK enum status config_get_bool(const struct config_source *c, const char *gguf,
                                       const char *hf, bool *out, struct error *err);
MUST_CHECK enum status config_get_str(const struct config_source *c, const char *gguf,
                                      const char *hf, struct str *out, struct error *err);

/* An i32 between low and high, both included: LIMIT says the bounds. */
MUST_CHECK enum status config_get_i32(const struct config_source *c, const char *gguf,
                                      const char *hf, int32_t low, int32_t high, int32_t *out,
                                      struct error *err);
MUST_CHECK enum status config_get_i32_or(const struct config_source *c, const char *gguf,
                                         const char *hf, int32_t low, int32_t high,
                                         int32_t otherwise, int32_t *out, struct error *err);
MUST_CHECK enum status config_get_f32_or(const struct config_source *c, const char *gguf,
                                         const char *hf, float otherwise, float *out,
                                         struct error *err);
MUST_CHECK enum status config_get_bool_or(const struct config_source *c, const char *gguf,
                                          const char *hf, bool otherwise, bool *out,
                                          struct error *err);
MUST_CHECK enum status config_get_str_or(const struct config_source *c, const char *gguf,
                                         const char *hf, struct str otherwise, struct str *out,
                                         struct error *err);

/* Arrays. Elements of a list that the key holds; a scalar counts as a list of one. */
MUST_CHECK enum status config_count(const struct config_source *c, const char *gguf,
                                    const char *hf, size_t *n, struct error *err);
/* One value for each of n layers: a scalar fills all, an array must have at least n elements (a
 * GGUF counts draft blocks too). */
MUST_CHECK enum status config_get_i32_each(const struct config_source *c, const char *gguf,
                                           const char *hf, int32_t *out, size_t n,
                                           struct error *err);
MUST_CHECK enum status config_get_f32_each(const struct config_source *c, const char *gguf,
                                           const char *hf, float *out, size_t n,
                                           struct error *err);
MUST_CHECK enum status config_get_bool_each(const struct config_source *c, const char *gguf,
                                            const char *hf, bool *out, size_t n,
                                            struct error *err);
/* Strings of an array (layer_types): out[n], exactly n of them. */
MUST_CHECK enum status config_get_str_each(const struct config_source *c, const char *gguf,
                                           const char *hf, struct str *out, size_t n,
                                           struct error *err);

#endif
