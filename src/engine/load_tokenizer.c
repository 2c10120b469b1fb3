/* Keys of a GGUF vocabulary:
 *
 *   tokenizer.ggml.model            gpt2 (byte-level BPE), llama (BPE by scores), gemma4 (BPE over
 *                                   characters), t5 (Unigram)
 *   tokenizer.ggml.pre              name of the split expressions, for gpt2
 *   tokenizer.ggml.tokens           strings
 *   tokenizer.ggml.scores           f32, for llama and t5
 *   tokenizer.ggml.token_type       enum token_type
 *   tokenizer.ggml.merges           "left right", for gpt2 and gemma4
 *   tokenizer.ggml.*_token_id       roles
 *   tokenizer.ggml.add_bos_token, add_eos_token, add_space_prefix
 */
#include "engine/load_tokenizer.h"

#include <math.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"
#include "formats/model_source.h"
#include "text/tokenizer/tokenizer_json.h"
#include "text/tokenizer/tokenizer_spec.h"

#define KEY "tokenizer.ggml."
#define META_SPACE "\xE2\x96\x81"
#define MAX_JSON_BYTES ((size_t)256 << 20)

struct loader {
    const struct gguf *file;
    struct arena arena;
    struct tokenizer_spec spec;
    struct normalizer_step normalizer[4];
    struct split_step split;
    int32_t prefix, suffix;
    bool add_bos, add_eos; /* defaults of the model */
    struct strbuf *notice;
    struct error *err;
};

static enum status read_tokens(struct loader *l)
{
    const struct gguf_value *v;
    TRY(gguf_get_array(l->file, KEY "tokens", GGUF_STRING, &v, l->err));
    if (v->count > (1u << 24))
        return error_set(l->err, STATUS_LIMIT, KEY "tokens: %llu tokens, at most %u",
                         (unsigned long long)v->count, 1u << 24);
    struct str *tokens = arena_array(&l->arena, struct str, v->count);
    if (!gguf_strings(v, tokens))
        return error_set(l->err, STATUS_INVALID, KEY "tokens: the file has changed while read");
    l->spec.tokens = tokens;
    l->spec.n_tokens = (size_t)v->count;
    return STATUS_OK;
}

/* A list with one number per token; *v is NULL where the file has none. */
static enum status find_list(struct loader *l, const char *key, const struct gguf_value **v)
{
    *v = gguf_find(l->file, key);
    if (!*v)
        return STATUS_OK;
    TRY(gguf_get_array(l->file, key, GGUF_ARRAY, v, l->err));
    if ((*v)->count != l->spec.n_tokens)
        return error_set(l->err, STATUS_INVALID, "%s: %llu entries, the vocabulary has %zu tokens",
                         key, (unsigned long long)(*v)->count, l->spec.n_tokens);
    return STATUS_OK;
}

static enum status read_scores(struct loader *l)
{
    const struct gguf_value *v;
    TRY(find_list(l, KEY "scores", &v));
    if (!v)
        return STATUS_OK;
    float *scores = arena_array(&l->arena, float, l->spec.n_tokens);
    if (v->type == GGUF_F32) {
        memcpy(scores, v->bytes, l->spec.n_tokens * sizeof *scores);
    } else {
        for (size_t i = 0; i < l->spec.n_tokens; i++) {
            double score;
            if (!gguf_value_f64(v, i, &score))
                return error_set(l->err, STATUS_INVALID,
                                 KEY "scores: entry %zu is %s, not a number", i,
                                 gguf_type_name(v->type));
            scores[i] = (float)score;
        }
    }
    for (size_t i = 0; i < l->spec.n_tokens; i++)
        if (isnan(scores[i]))
            return error_set(l->err, STATUS_INVALID, KEY "scores: entry %zu is not a number", i);
    l->spec.scores = scores;
    return STATUS_OK;
}

static void mark_roles_as_control(struct loader *l, uint8_t *types)
{
    for (int i = 0; i < TOKEN_N_ROLES; i++) {
        int32_t id = l->spec.roles[i];
        if (id >= 0 && (size_t)id < l->spec.n_tokens)
            types[id] = i == TOKEN_ROLE_UNKNOWN ? TOKEN_UNKNOWN : TOKEN_CONTROL;
    }
}

static enum status read_types(struct loader *l)
{
    const struct gguf_value *v;
    TRY(find_list(l, KEY "token_type", &v));
    uint8_t *types = arena_array(&l->arena, uint8_t, l->spec.n_tokens);
    for (size_t i = 0; i < l->spec.n_tokens; i++) {
        int64_t type = TOKEN_NORMAL;
        int32_t plain;
        if (v && v->type == GGUF_I32) { /* what all writers use */
            memcpy(&plain, v->bytes + i * sizeof plain, sizeof plain);
            type = plain;
        } else if (v && !gguf_value_i64(v, i, &type))
            return error_set(l->err, STATUS_INVALID,
                             KEY "token_type: entry %zu is %s, not an integer", i,
                             gguf_type_name(v->type));
        types[i] = type >= TOKEN_NORMAL && type <= TOKEN_BYTE ? (uint8_t)type : TOKEN_NORMAL;
    }
    if (!v)
        mark_roles_as_control(l, types);
    l->spec.types = types;
    return STATUS_OK;
}

static enum status read_merges(struct loader *l)
{
    const struct gguf_value *v;
    TRY(gguf_get_array(l->file, KEY "merges", GGUF_STRING, &v, l->err));
    struct str *merges = arena_array(&l->arena, struct str, v->count);
    if (!gguf_strings(v, merges))
        return error_set(l->err, STATUS_INVALID, KEY "merges: the file has changed while read");
    l->spec.merges = merges;
    l->spec.n_merges = (size_t)v->count;
    return STATUS_OK;
}

/* 2^32 - 1 and negative numbers mean none. */
static enum status read_roles(struct loader *l)
{
    static const struct {
        enum token_role role;
        const char *key;
    } keys[] = {
        { TOKEN_ROLE_BOS, KEY "bos_token_id" },     { TOKEN_ROLE_EOS, KEY "eos_token_id" },
        { TOKEN_ROLE_EOT, KEY "eot_token_id" },     { TOKEN_ROLE_UNKNOWN, KEY "unknown_token_id" },
        { TOKEN_ROLE_PAD, KEY "padding_token_id" }, { TOKEN_ROLE_MASK, KEY "mask_token_id" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        int64_t id;
        if (!gguf_find(l->file, keys[i].key))
            continue;
        TRY(gguf_get_i64(l->file, keys[i].key, &id, l->err));
        if (id < 0 || id == UINT32_MAX)
            continue;
        if (id >= (int64_t)l->spec.n_tokens)
            return error_set(l->err, STATUS_INVALID, "%s: %lld, the vocabulary has %zu tokens",
                             keys[i].key, (long long)id, l->spec.n_tokens);
        l->spec.roles[keys[i].role] = (int32_t)id;
    }
    return STATUS_OK;
}

static void default_role(struct loader *l, enum token_role role, int32_t id)
{
    if (l->spec.roles[role] == TOKEN_NONE && (size_t)id < l->spec.n_tokens)
        l->spec.roles[role] = id;
}

static void add_step(struct loader *l, enum normalizer_step_kind kind, struct str from,
                     struct str to)
{
    l->normalizer[l->spec.n_normalizer_steps++] = (struct normalizer_step){ kind, from, to };
}

static enum status read_flag(struct loader *l, const char *key, bool *value)
{
    return gguf_find(l->file, key) ? gguf_get_bool(l->file, key, value, l->err) : STATUS_OK;
}

static enum status set_byte_level(struct loader *l)
{
    struct str pre = { NULL, 0 };
    if (gguf_find(l->file, KEY "pre"))
        TRY(gguf_get_str(l->file, KEY "pre", &pre, l->err));
    const struct pretokenizer_name *known = pretokenizer_find(pre.len ? pre : STR("default"));
    if (!known) {
        struct strbuf names;
        strbuf_init(&names, 4096);
        pretokenizer_list_names(&names);
        error_set(l->err, STATUS_UNSUPPORTED,
                  KEY "pre: unknown pre-tokenizer \"%.*s\"; known are %.*s", STR_ARG(pre),
                  STR_ARG(strbuf_str(&names)));
        strbuf_release(&names);
        return STATUS_UNSUPPORTED;
    }
    if ((pre.len == 0 || str_is(pre, "default")) && l->notice)
        strbuf_puts(l->notice, "tokenizer: the file names no pre-tokenizer; text is split by the "
                               "default expressions, ids may differ from the model's own\n");
    l->spec.kind = TOKENIZER_BPE_BYTES;
    l->spec.split_steps = known->steps;
    l->spec.n_split_steps = known->n_steps;
    l->spec.ignore_merges = known->ignore_merges;
    l->add_bos = known->add_bos;
    if (known->nfc)
        add_step(l, NORMALIZE_NFC, STR(""), STR(""));
    return read_merges(l);
}

/* Gemma's files mark tokens otherwise than its tokenizer.json, which is the reference: unused ones
 * and the mask are not control tokens there, those around an image are. */
static void restore_gemma_types(struct loader *l)
{
    uint8_t *types = (uint8_t *)(uintptr_t)l->spec.types;
    bool is_gemma = false;
    for (size_t i = 0; i < MIN(l->spec.n_tokens, (size_t)256) && !is_gemma; i++)
        is_gemma = str_is(l->spec.tokens[i], "<start_of_turn>");
    for (size_t i = 0; i < l->spec.n_tokens && is_gemma; i++) {
        struct str text = l->spec.tokens[i];
        if (text.len < 6 || text.ptr[0] != '<')
            continue;
        if (str_starts(text, STR("<unused")) || str_is(text, "<mask>"))
            types[i] = TOKEN_USER_DEFINED;
        else if (str_is(text, "<start_of_image>") || str_is(text, "<end_of_image>"))
            types[i] = TOKEN_CONTROL;
    }
}

/* White space that Gemma's vocabulary lists as user-defined is matched in its literal spelling and
 * merged before everything else; the file spells U+2581 in it as a space. */
static void restore_white_space(struct loader *l)
{
    struct str *tokens = (struct str *)(uintptr_t)l->spec.tokens;
    float *scores = (float *)(uintptr_t)l->spec.scores;
    for (size_t i = 0; i < l->spec.n_tokens; i++) {
        if (l->spec.types[i] != TOKEN_USER_DEFINED || tokens[i].len == 0)
            continue;
        size_t n_spaces = 0, n_other = 0;
        for (size_t k = 0; k < tokens[i].len; k++) {
            char c = tokens[i].ptr[k];
            n_spaces += c == ' ';
            n_other += c != ' ' && c != '\n' && c != '\t';
        }
        if (n_other)
            continue;
        scores[i] = INFINITY;
        if (n_spaces != tokens[i].len)
            continue;
        char *text = arena_alloc(&l->arena, 3 * n_spaces);
        for (size_t k = 0; k < n_spaces; k++)
            memcpy(text + 3 * k, META_SPACE, 3);
        tokens[i] = (struct str){ text, 3 * n_spaces };
    }
}

static enum status set_meta_space(struct loader *l, enum tokenizer_kind kind, bool prefix)
{
    TRY(read_flag(l, KEY "add_space_prefix", &prefix));
    l->spec.kind = kind;
    l->spec.byte_fallback = true;
    l->spec.fuse_unknown = true;
    l->spec.meta_space = true;
    l->spec.strip_first_space = prefix;
    struct str mark = STR(META_SPACE);
    if (kind == TOKENIZER_UNIGRAM) {
        add_step(l, NORMALIZE_REPLACE, STR(" "), mark);
        if (prefix)
            add_step(l, NORMALIZE_PREPEND_UNLESS, STR(""), mark);
        l->split = (struct split_step){ mark, true, SPLIT_WITH_NEXT };
        l->spec.split_steps = &l->split;
        l->spec.n_split_steps = 1;
        return STATUS_OK;
    }
    if (prefix)
        add_step(l, NORMALIZE_PREPEND, STR(""), mark);
    add_step(l, NORMALIZE_REPLACE, STR(" "), mark);
    return STATUS_OK;
}

static enum status set_scores(struct loader *l)
{
    if (!l->spec.scores)
        return error_set(l->err, STATUS_INVALID, KEY "scores is missing");
    default_role(l, TOKEN_ROLE_UNKNOWN, 0);
    default_role(l, TOKEN_ROLE_BOS, 1);
    default_role(l, TOKEN_ROLE_EOS, 2);
    l->add_bos = true;
    TRY(set_meta_space(l, TOKENIZER_BPE_SCORES, true));
    restore_gemma_types(l);
    restore_white_space(l);
    return STATUS_OK;
}

static enum status set_unigram(struct loader *l)
{
    const struct gguf_value *map = gguf_find(l->file, KEY "precompiled_charsmap");
    if (map && map->count)
        return error_set(l->err, STATUS_UNSUPPORTED,
                         KEY "precompiled_charsmap: a table of %llu bytes, not supported",
                         (unsigned long long)map->count);
    if (!l->spec.scores)
        return error_set(l->err, STATUS_INVALID, KEY "scores is missing");
    l->add_eos = true;
    return set_meta_space(l, TOKENIZER_UNIGRAM, true);
}

static enum status set_kind(struct loader *l)
{
    struct str model;
    TRY(gguf_get_str(l->file, KEY "model", &model, l->err));
    if (str_is(model, "gpt2"))
        return set_byte_level(l);
    if (str_is(model, "llama"))
        return set_scores(l);
    if (str_is(model, "t5"))
        return set_unigram(l);
    if (str_is(model, "gemma4")) {
        l->add_bos = true;
        TRY(set_meta_space(l, TOKENIZER_BPE_CHARS, false));
        return read_merges(l);
    }
    return error_set(l->err, STATUS_UNSUPPORTED,
                     KEY "model: unknown tokenizer \"%.*s\"; known are gpt2, llama, gemma4, t5",
                     STR_ARG(model));
}

static void list_added(struct loader *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->spec.n_tokens; i++)
        n += l->spec.types[i] >= TOKEN_UNKNOWN && l->spec.types[i] <= TOKEN_USER_DEFINED;
    struct added_token *added = arena_array(&l->arena, struct added_token, n);
    for (size_t i = 0; i < l->spec.n_tokens; i++)
        if (l->spec.types[i] >= TOKEN_UNKNOWN && l->spec.types[i] <= TOKEN_USER_DEFINED)
            added[l->spec.n_added++] =
                (struct added_token){ .text = l->spec.tokens[i],
                                      .id = (int32_t)i,
                                      .control = l->spec.types[i] != TOKEN_USER_DEFINED };
    l->spec.added = added;
}

static enum status set_surroundings(struct loader *l)
{
    TRY(read_flag(l, KEY "add_bos_token", &l->add_bos));
    TRY(read_flag(l, KEY "add_eos_token", &l->add_eos));
    l->prefix = l->spec.roles[TOKEN_ROLE_BOS];
    l->suffix = l->spec.roles[TOKEN_ROLE_EOS];
    l->spec.prefix = &l->prefix;
    l->spec.suffix = &l->suffix;
    l->spec.n_prefix = l->add_bos && l->prefix != TOKEN_NONE;
    l->spec.n_suffix = l->add_eos && l->suffix != TOKEN_NONE;
    return STATUS_OK;
}

static enum status load(struct loader *l, struct tokenizer **out)
{
    tokenizer_spec_init(&l->spec);
    l->spec.normalizer_steps = l->normalizer;
    TRY(read_tokens(l));
    TRY(read_roles(l));
    TRY(read_scores(l));
    TRY(read_types(l));
    TRY(set_kind(l));
    TRY(set_surroundings(l));
    list_added(l);
    /* Files of byte-level BPE name some control token here; the model has no unknown text. */
    if (l->spec.kind == TOKENIZER_BPE_BYTES)
        l->spec.roles[TOKEN_ROLE_UNKNOWN] = TOKEN_NONE;
    return tokenizer_new(&l->spec, out, l->err);
}

enum status load_tokenizer_gguf(const struct gguf *file, struct tokenizer **out,
                                struct strbuf *notice, struct error *err)
{
    *out = NULL;
    if (!gguf_find(file, KEY "tokens"))
        return error_set(err, STATUS_NOT_FOUND, "the file has no vocabulary (" KEY "tokens)");
    struct loader l = { .file = file, .notice = notice, .err = err };
    arena_init(&l.arena, 0);
    enum status s = load(&l, out);
    arena_release(&l.arena);
    return s;
}

static enum status load_json(const char *path, struct str config, struct tokenizer **out,
                             struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, MAX_JSON_BYTES);
    enum status s = file_read(path, MAX_JSON_BYTES, &text, err);
    if (s == STATUS_OK)
        s = tokenizer_from_json(strbuf_str(&text), config, out, err);
    strbuf_release(&text);
    return s;
}

static enum status load_folder(const struct hf_config *hf, struct tokenizer **out,
                               struct error *err)
{
    char *path = hf_config_file(hf, "tokenizer.json");
    if (!path)
        return error_set(err, STATUS_NOT_FOUND, "%s: no tokenizer.json", hf->folder);
    struct strbuf config;
    strbuf_init(&config, MAX_JSON_BYTES);
    if (hf->tokenizer_config)
        json_write(&config, hf->tokenizer_config);
    enum status s = load_json(path, strbuf_str(&config), out, err);
    strbuf_release(&config);
    mem_free(path);
    return s;
}

enum status load_tokenizer_path(const char *path, struct tokenizer **out, struct strbuf *notice,
                                struct error *err)
{
    struct model_source *source;
    *out = NULL;
    TRY(model_source_open(&source, path, err));
    enum status s = STATUS_OK;
    switch (source->kind) {
    case MODEL_SOURCE_GGUF:
        s = load_tokenizer_gguf(source->gguf, out, notice, err);
        break;
    case MODEL_SOURCE_HF:
        s = load_folder(source->hf, out, err);
        break;
    case MODEL_SOURCE_TOKENIZER:
        s = load_json(source->path, (struct str){ "", 0 }, out, err);
        break;
    case MODEL_SOURCE_TENSORS:
        s = error_set(err, STATUS_NOT_FOUND, "%s: weights alone: give the folder that holds the "
                      "tokenizer.json", path);
        break;
    }
    model_source_free(source);
    return s;
}
