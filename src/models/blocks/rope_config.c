/* Sources: YaRN, Peng et al., arXiv:2309.00071, section 3; the llama-3 bands and all meanings of
 * absent keys: transformers, modeling_rope_utils.py. GGUF spellings: llama.cpp, gguf-py. */
#include "models/blocks/rope_config.h"

#include <math.h>
#include <stdio.h>

enum scaling { SCALING_NONE, SCALING_LINEAR, SCALING_YARN, SCALING_LLAMA3 };

/* Everything a scaling may say. */
struct scaling_values {
    enum scaling kind;
    double base, factor, original, beta_fast, beta_slow, extrapolation;
    double low_band, high_band;       /* llama-3 */
    double magnitude;                 /* the whole factor on cos and sin; 0: derived */
    double further;                   /* one more factor */
    double mscale, mscale_all_dim;
    bool truncate;
};

/* --- where the values lie ----------------------------------------------------------------- */

/* "rope_parameters.full_attention" or "rope_scaling": the HF object that holds them. */
struct rope_path {
    char text[64];
};

static bool holds(const struct config_source *c, const char *path)
{
    static const char *const member[] = { "rope_type", "type", "factor", "rope_theta" };
    for (size_t i = 0; i < ARRAY_SIZE(member); i++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", path, member[i]);
        if (config_has(c, NULL, key))
            return true;
    }
    return false;
}

/* The object called `name`, the part for this layer type where it has such parts. */
static bool find_object(const struct config_source *c, const char *name, const char *layer_type,
                        struct rope_path *out)
{
    if (layer_type) {
        snprintf(out->text, sizeof out->text, "%s.%s", name, layer_type);
        if (holds(c, out->text))
            return true;
    }
    snprintf(out->text, sizeof out->text, "%s", name);
    return holds(c, out->text);
}

static enum status member_f64(const struct config_source *c, const struct rope_path *p,
                              const char *gguf, const char *member, double otherwise, double *out,
                              struct error *err)
{
    char path[sizeof p->text + 64];
    const char *key = member ? path : NULL;
    snprintf(path, sizeof path, "%s.%s", p->text, member ? member : "");
    if (!config_has(c, gguf, key)) {
        *out = otherwise;
        return STATUS_OK;
    }
    return config_get_f64(c, gguf, key, out, err);
}

static enum status member_str(const struct config_source *c, const struct rope_path *p,
                              const char *gguf, struct str *out, struct error *err)
{
    char key[160];
    snprintf(key, sizeof key, "%s.rope_type|%s.type", p->text, p->text);
    return config_get_str_or(c, gguf, key, STR(""), out, err);
}

/* Old and new spelling side by side must say the same. */
static enum status check_agreement(const struct config_source *c, const struct rope_path *a,
                                   const struct rope_path *b, struct error *err)
{
    static const char *const member[] = { "factor", "rope_theta",
                                          "original_max_position_embeddings" };
    struct str x, y;
    TRY(member_str(c, a, NULL, &x, err));
    TRY(member_str(c, b, NULL, &y, err));
    bool same = str_eq(x, y);
    for (size_t i = 0; i < ARRAY_SIZE(member) && same; i++) {
        double p, q;
        TRY(member_f64(c, a, NULL, member[i], 0, &p, err));
        TRY(member_f64(c, b, NULL, member[i], p, &q, err));
        same = p == q || p == 0;
    }
    return same ? STATUS_OK
                : error_set(err, STATUS_UNSUPPORTED, "%s and %s are both set and differ", a->text,
                            b->text);
}

static enum status find_path(const struct config_source *c, const char *layer_type,
                             struct rope_path *out, struct error *err)
{
    struct rope_path other;
    bool has_old = find_object(c, "rope_scaling", layer_type, out);
    bool has_new = find_object(c, "rope_parameters", layer_type, &other);
    if (has_old && has_new)
        return check_agreement(c, out, &other, err);
    if (has_new)
        *out = other;
    return STATUS_OK;
}

/* --- reading ------------------------------------------------------------------------------ */

static enum status kind_of(struct str name, enum scaling *out, struct error *err)
{
    static const struct {
        const char *name;
        enum scaling kind;
    } known[] = { { "", SCALING_NONE },          { "none", SCALING_NONE },
                  { "default", SCALING_NONE },   { "mrope", SCALING_NONE },
                  { "linear", SCALING_LINEAR },  { "yarn", SCALING_YARN },
                  { "llama3", SCALING_LLAMA3 } };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_is(name, known[i].name)) {
            *out = known[i].kind;
            return STATUS_OK;
        }
    return error_set(err, STATUS_UNSUPPORTED,
                     "rope scaling: expected none, linear, yarn or llama3, found %.*s",
                     STR_ARG(name));
}

static enum status read_yarn(struct scaling_values *v, const struct config_source *c,
                             const struct rope_path *p, struct error *err)
{
    TRY(member_f64(c, p, "rope.scaling.yarn_beta_fast", "beta_fast", 32, &v->beta_fast, err));
    TRY(member_f64(c, p, "rope.scaling.yarn_beta_slow", "beta_slow", 1, &v->beta_slow, err));
    v->beta_fast = v->beta_fast != 0 ? v->beta_fast : 32;
    v->beta_slow = v->beta_slow != 0 ? v->beta_slow : 1;
    TRY(member_f64(c, p, "rope.scaling.yarn_ext_factor", "extrapolation_factor", 1,
                   &v->extrapolation, err));
    v->extrapolation = v->extrapolation < 0 ? 1 : v->extrapolation; /* -1: not stated */
    TRY(member_f64(c, p, "rope.scaling.yarn_attn_factor", "attention_factor", 0, &v->magnitude,
                   err));
    if (v->magnitude == 0)
        TRY(member_f64(c, p, NULL, "attn_factor", 0, &v->magnitude, err));
    TRY(member_f64(c, p, NULL, "mscale", 0, &v->mscale, err));
    TRY(member_f64(c, p, NULL, "mscale_all_dim", 0, &v->mscale_all_dim, err));
    char key[96];
    snprintf(key, sizeof key, "%s.truncate", p->text);
    return config_get_bool_or(c, NULL, key, true, &v->truncate, err);
}

static enum status read_scaling(struct scaling_values *v, const struct model_source *s,
                                const struct rope_path *p, int32_t context, struct error *err)
{
    const struct config_source *c = &s->config;
    struct str name;
    TRY(member_str(c, p, "rope.scaling.type", &name, err));
    TRY(kind_of(name, &v->kind, err));
    if (s->kind == MODEL_SOURCE_GGUF && !name.len && config_has(c, "rope.scale_linear", NULL)) {
        v->kind = SCALING_LINEAR; /* files older than the type key */
        TRY(config_get_f64(c, "rope.scale_linear", NULL, &v->factor, err));
    } else {
        TRY(member_f64(c, p, "rope.scaling.factor", "factor", 0, &v->factor, err));
    }
    TRY(member_f64(c, p, "rope.scaling.attn_factor", NULL, 1, &v->further, err));
    TRY(member_f64(c, p, "rope.scaling.original_context_length",
                   "original_max_position_embeddings", context, &v->original, err));
    if (config_has(c, NULL, "original_max_position_embeddings"))
        TRY(config_get_f64(c, NULL, "original_max_position_embeddings", &v->original, err));
    if (v->kind == SCALING_YARN && v->factor == 0 && v->original > 0)
        v->factor = context / v->original;
    TRY(member_f64(c, p, NULL, "low_freq_factor", 1, &v->low_band, err));
    TRY(member_f64(c, p, NULL, "high_freq_factor", 4, &v->high_band, err));
    TRY(read_yarn(v, c, p, err));
    if (v->factor == 0 || v->kind == SCALING_NONE)
        v->factor = 1;
    if (!(v->factor > 0 && v->factor < 1e6) || !(v->original >= 0) || !(v->beta_fast > 0) ||
        !(v->beta_slow > 0) || !(v->high_band > v->low_band) || !(v->further > 0))
        return error_set(err, STATUS_INVALID,
                         "rope scaling: factor %g, original context %g, bands %g to %g: no "
                         "frequencies follow from them", v->factor, v->original, v->low_band,
                         v->high_band);
    return STATUS_OK;
}

static enum status read_base(struct scaling_values *v, const struct model_source *s,
                             const struct rope_request *r, const struct rope_path *p,
                             struct error *err)
{
    double outer = r->default_base;
    if (config_has(&s->config, r->gguf_base, r->hf_base))
        TRY(config_get_f64(&s->config, r->gguf_base, r->hf_base, &outer, err));
    TRY(member_f64(&s->config, p, NULL, "rope_theta", outer, &v->base, err));
    if (v->base > 1 && v->base < 1e12)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "rope base: expected more than 1, found %g", v->base);
}

static enum status read_width(int32_t *n_rotated, const struct model_source *s,
                              const struct rope_request *r, const struct rope_path *p,
                              struct error *err)
{
    double part = 1;
    TRY(config_get_i32_or(&s->config, "rope.dimension_count", NULL, 2, r->head_dim, r->head_dim,
                          n_rotated, err));
    if (config_has(&s->config, NULL, "partial_rotary_factor"))
        TRY(config_get_f64(&s->config, NULL, "partial_rotary_factor", &part, err));
    TRY(member_f64(&s->config, p, NULL, "partial_rotary_factor", part, &part, err));
    if (s->kind != MODEL_SOURCE_GGUF && part > 0 && part <= 1)
        *n_rotated = (int32_t)(r->head_dim * part);
    if (!(part > 0 && part <= 1) || *n_rotated % 2 || *n_rotated < 2)
        return error_set(err, STATUS_INVALID,
                         "rope: expected an even width up to %d, found %d (factor %g)", r->head_dim,
                         *n_rotated, part);
    return STATUS_OK;
}

/* --- frequencies -------------------------------------------------------------------------- */

/* The pair that turns beta times over the original context: d(beta) of the YaRN paper. */
static double yarn_pair(const struct scaling_values *v, double width, double beta)
{
    return width * log(v->original / (2 * M_PI * beta)) / (2 * log(v->base));
}

static double yarn_magnitude(const struct scaling_values *v)
{
    if (v->magnitude != 0)
        return v->magnitude;
    if (v->factor <= 1 || v->extrapolation == 0)
        return 1;
    double grow = 0.1 * log(v->factor);
    if (v->mscale != 0 && v->mscale_all_dim != 0)
        return (grow * v->mscale + 1) / (grow * v->mscale_all_dim + 1);
    return grow + 1;
}

static double scaled(const struct scaling_values *v, double f, int32_t i, int32_t width)
{
    if (v->kind == SCALING_LINEAR)
        return f / v->factor;
    if (v->kind == SCALING_LLAMA3) {
        double length = 2 * M_PI / f;
        if (length < v->original / v->high_band)
            return f;
        if (length > v->original / v->low_band)
            return f / v->factor;
        double m = (v->original / length - v->low_band) / (v->high_band - v->low_band);
        return f * ((1 - m) / v->factor + m);
    }
    if (v->kind == SCALING_YARN) {
        double low = yarn_pair(v, width, v->beta_fast), high = yarn_pair(v, width, v->beta_slow);
        low = fmax(v->truncate ? floor(low) : low, 0);
        high = fmin(v->truncate ? ceil(high) : high, width - 1);
        high += high == low ? 0.001 : 0;
        double t = fmin(fmax((i - low) / (high - low), 0), 1);
        t = 1 - (1 - t) * v->extrapolation;
        return f * ((1 - t) + t / v->factor);
    }
    return f;
}

enum status rope_config_read(struct rope *out, const struct model_source *s,
                             const struct rope_request *r, struct arena *arena, struct error *err)
{
    struct scaling_values v = { 0 };
    struct rope_path path = { "rope_scaling" };
    TRY(find_path(&s->config, r->layer_type, &path, err));
    TRY(read_base(&v, s, r, &path, err));
    TRY(read_scaling(&v, s, &path, r->context, err));
    if (!r->scaled)
        v.kind = SCALING_NONE;
    *out = (struct rope){ .style = ROPE_HALVES, .magnitude = 1 };
    TRY(read_width(&out->n_rotated, s, r, &path, err));
    int32_t n = out->n_rotated / 2;
    float *frequency = arena_array(arena, float, (size_t)n);
    for (int32_t i = 0; i < n; i++)
        frequency[i] = (float)scaled(&v, pow(v.base, -2.0 * i / out->n_rotated), i,
                                     out->n_rotated);
    out->frequency = frequency;
    if (v.kind == SCALING_YARN)
        out->magnitude = (float)(yarn_magnitude(&v) * v.further);
    return STATUS_OK;
}

enum status rope_divide(struct rope *r, const float *divisor, struct error *err)
{
    float *frequency = (float *)r->frequency; /* arena memory of the model that owns the rope */
    for (int32_t i = 0; i < r->n_rotated / 2; i++) {
        if (!(divisor[i] > 0))
            return error_set(err, STATUS_INVALID,
                             "rope_freqs: expected divisors above 0, found %g at %d",
                             (double)divisor[i], i);
        frequency[i] /= divisor[i];
    }
    return STATUS_OK;
}
