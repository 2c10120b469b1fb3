/* Hugging Face tokenizer.json:
 *
 *   added_tokens    [{id, content, special, normalized, lstrip, rstrip, single_word}]
 *   normalizer      null or a step, or {type: Sequence, normalizers: [...]}
 *   pre_tokenizer   likewise, `pretokenizers`
 *   post_processor  what is put around a text: TemplateProcessing, ByteLevel, ...
 *   decoder         how ids become text again
 *   model           {type: BPE, vocab: {piece: id}, merges: ["a b" or ["a", "b"]], ...}
 *                   {type: Unigram, vocab: [[piece, score]], unk_id, ...}
 */
#include "text/tokenizer/tokenizer_json.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tokenizer/tokenizer_spec.h"

#define MAX_STEPS 16
#define META_SPACE "\xE2\x96\x81"

struct loader {
    struct arena arena;
    struct tokenizer_spec spec;
    struct normalizer_step normalizer[MAX_STEPS];
    struct split_step split[MAX_STEPS];
    int32_t prefix[MAX_STEPS], suffix[MAX_STEPS];
    bool byte_level;
    struct error *err;
};

static bool is_type(const json_t *object, const char *type)
{
    return str_is(json_str(json_object_get(object, "type")), type);
}

static bool flag(const json_t *object, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static bool is_empty(const json_t *value)
{
    return !value || json_is_null(value) || (json_is_string(value) && json_str(value).len == 0);
}

static enum status refuse(struct loader *l, const char *part, const json_t *object)
{
    struct str type = json_str(json_object_get(object, "type"));
    return error_set(l->err, STATUS_UNSUPPORTED, "tokenizer.json: %s of type \"%.*s\" or with "
                     "these settings is not supported", part, STR_ARG(type));
}

static enum status add_normalizer(struct loader *l, enum normalizer_step_kind kind,
                                  struct str from, struct str to)
{
    size_t n = l->spec.n_normalizer_steps;
    if (n == MAX_STEPS)
        return error_set(l->err, STATUS_LIMIT, "tokenizer.json: more than %d normalizers",
                         MAX_STEPS);
    l->normalizer[n] = (struct normalizer_step){ kind, from, to };
    l->spec.n_normalizer_steps++;
    return STATUS_OK;
}

static enum status add_split(struct loader *l, struct str pattern, bool literal,
                             enum split_behavior behavior)
{
    size_t n = l->spec.n_split_steps;
    if (n == MAX_STEPS)
        return error_set(l->err, STATUS_LIMIT, "tokenizer.json: more than %d pre-tokenizers",
                         MAX_STEPS);
    l->split[n] = (struct split_step){ pattern, literal, behavior };
    l->spec.n_split_steps++;
    return STATUS_OK;
}

/* Calls `read` for each member of object[key], the list of a Sequence. */
static enum status read_sequence(struct loader *l, const json_t *object, const char *key,
                                 enum status (*read)(struct loader *, const json_t *))
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(object, key), i, item)
        TRY(read(l, item));
    return STATUS_OK;
}

static enum status read_normalizer(struct loader *l, const json_t *z)
{
    struct str none = { "", 0 };
    if (!z || json_is_null(z))
        return STATUS_OK;
    if (is_type(z, "Sequence"))
        return read_sequence(l, z, "normalizers", read_normalizer);
    if (is_type(z, "NFC"))
        return add_normalizer(l, NORMALIZE_NFC, none, none);
    if (is_type(z, "NFKC"))
        return add_normalizer(l, NORMALIZE_NFKC, none, none);
    if (is_type(z, "Lowercase"))
        return add_normalizer(l, NORMALIZE_LOWERCASE, none, none);
    if (is_type(z, "Prepend"))
        return add_normalizer(l, NORMALIZE_PREPEND, none,
                              json_str(json_object_get(z, "prepend")));
    const json_t *string = json_object_get(json_object_get(z, "pattern"), "String");
    if (is_type(z, "Replace") && json_is_string(string))
        return add_normalizer(l, NORMALIZE_REPLACE, json_str(string),
                              json_str(json_object_get(z, "content")));
    return refuse(l, "normalizer", z);
}

static enum status read_split(struct loader *l, const json_t *p)
{
    static const struct {
        const char *name;
        bool invert;
        enum split_behavior behavior;
    } behaviors[] = {
        { "Isolated", false, SPLIT_ISOLATED },
        { "Isolated", true, SPLIT_ISOLATED },
        { "Removed", false, SPLIT_REMOVED },
        { "Removed", true, SPLIT_KEEP },
        { "MergedWithPrevious", false, SPLIT_WITH_PREVIOUS },
        { "MergedWithNext", false, SPLIT_WITH_NEXT },
    };
    const json_t *pattern = json_object_get(p, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    struct str behavior = json_str(json_object_get(p, "behavior"));
    for (size_t i = 0; i < ARRAY_SIZE(behaviors); i++) {
        if (!str_is(behavior, behaviors[i].name) ||
            flag(p, "invert", false) != behaviors[i].invert)
            continue;
        if (json_is_string(regex))
            return add_split(l, json_str(regex), false, behaviors[i].behavior);
        if (json_is_string(string))
            return add_split(l, json_str(string), true, behaviors[i].behavior);
    }
    return refuse(l, "pre-tokenizer", p);
}

static enum status read_byte_level(struct loader *l, const json_t *p)
{
    l->byte_level = true;
    if (flag(p, "add_prefix_space", true)) {
        if (l->spec.n_split_steps)
            return refuse(l, "pre-tokenizer behind a split", p);
        TRY(add_normalizer(l, NORMALIZE_PREPEND_UNLESS, STR(""), STR(" ")));
    }
    if (flag(p, "use_regex", true))
        TRY(add_split(l, STR(PRETOKENIZER_GPT2), false, SPLIT_ISOLATED));
    return STATUS_OK;
}

static enum status read_metaspace(struct loader *l, const json_t *p)
{
    struct str mark = json_str(json_object_get(p, "replacement"));
    struct str scheme = json_str(json_object_get(p, "prepend_scheme"));
    if (scheme.len == 0)
        scheme = flag(p, "add_prefix_space", true) ? STR("always") : STR("never");
    if (!str_is(mark, META_SPACE) || l->spec.n_split_steps)
        return refuse(l, "pre-tokenizer", p);
    TRY(add_normalizer(l, NORMALIZE_REPLACE, STR(" "), mark));
    if (str_is(scheme, "always"))
        TRY(add_normalizer(l, NORMALIZE_PREPEND_UNLESS, STR(""), mark));
    else if (str_is(scheme, "first"))
        TRY(add_normalizer(l, NORMALIZE_PREPEND_FIRST, STR(""), mark));
    else if (!str_is(scheme, "never"))
        return refuse(l, "pre-tokenizer", p);
    return flag(p, "split", true) ? add_split(l, mark, true, SPLIT_WITH_NEXT) : STATUS_OK;
}

static enum status read_pretokenizer(struct loader *l, const json_t *p)
{
    if (!p || json_is_null(p))
        return STATUS_OK;
    if (is_type(p, "Sequence"))
        return read_sequence(l, p, "pretokenizers", read_pretokenizer);
    if (is_type(p, "Split"))
        return read_split(l, p);
    if (is_type(p, "ByteLevel"))
        return read_byte_level(l, p);
    if (is_type(p, "Metaspace"))
        return read_metaspace(l, p);
    if (is_type(p, "Digits"))
        return add_split(l, flag(p, "individual_digits", false) ? STR("\\p{N}") : STR("\\p{N}+"),
                         false, SPLIT_ISOLATED);
    if (is_type(p, "Whitespace"))
        return add_split(l, STR("\\w+|[^\\w\\s]+"), false, SPLIT_KEEP);
    if (is_type(p, "WhitespaceSplit"))
        return add_split(l, STR("\\s"), false, SPLIT_REMOVED);
    if (is_type(p, "Punctuation") && str_is(json_str(json_object_get(p, "behavior")), "Isolated"))
        return add_split(l, STR("[!-/:-@\\[-`{-~\\p{P}]"), false, SPLIT_ISOLATED);
    return refuse(l, "pre-tokenizer", p);
}

static enum status add_around(struct loader *l, bool behind, const json_t *id)
{
    int32_t *list = behind ? l->suffix : l->prefix;
    size_t *n = behind ? &l->spec.n_suffix : &l->spec.n_prefix;
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value > INT32_MAX || *n == MAX_STEPS)
        return error_set(l->err, STATUS_INVALID,
                         "tokenizer.json: the post-processor names no valid token id");
    list[(*n)++] = (int32_t)value;
    return STATUS_OK;
}

static enum status read_template(struct loader *l, const json_t *p)
{
    bool behind = false;
    size_t i, k;
    json_t *item, *id;
    json_array_foreach(json_object_get(p, "single"), i, item) {
        const json_t *special = json_object_get(item, "SpecialToken");
        if (!special) {
            behind = true;
            continue;
        }
        struct str name = json_str(json_object_get(special, "id"));
        const json_t *known = json_object_getn(json_object_get(p, "special_tokens"), name.ptr,
                                               name.len);
        if (!json_is_array(json_object_get(known, "ids")))
            return error_set(l->err, STATUS_INVALID,
                             "tokenizer.json: the post-processor has no ids for \"%.*s\"",
                             STR_ARG(name));
        json_array_foreach(json_object_get(known, "ids"), k, id)
            TRY(add_around(l, behind, id));
    }
    return STATUS_OK;
}

static enum status read_post_processor(struct loader *l, const json_t *p)
{
    if (!p || json_is_null(p) || is_type(p, "ByteLevel"))
        return STATUS_OK;
    if (is_type(p, "Sequence"))
        return read_sequence(l, p, "processors", read_post_processor);
    if (is_type(p, "TemplateProcessing"))
        return read_template(l, p);
    if (is_type(p, "BertProcessing") || is_type(p, "RobertaProcessing")) {
        TRY(add_around(l, false, json_array_get(json_object_get(p, "cls"), 1)));
        return add_around(l, true, json_array_get(json_object_get(p, "sep"), 1));
    }
    return refuse(l, "post-processor", p);
}

static enum status read_decoder(struct loader *l, const json_t *d)
{
    if (!d || json_is_null(d) || is_type(d, "ByteLevel") || is_type(d, "ByteFallback") ||
        is_type(d, "Fuse"))
        return STATUS_OK;
    if (is_type(d, "Sequence"))
        return read_sequence(l, d, "decoders", read_decoder);
    struct str content = json_str(json_object_get(d, "content"));
    struct str from = json_str(json_object_get(json_object_get(d, "pattern"), "String"));
    if (is_type(d, "Replace") && str_is(from, META_SPACE) && str_is(content, " ")) {
        l->spec.meta_space = true;
        return STATUS_OK;
    }
    if (is_type(d, "Strip") && str_is(content, " ") &&
        json_integer_value(json_object_get(d, "start")) <= 1 &&
        json_integer_value(json_object_get(d, "stop")) == 0) {
        l->spec.strip_first_space = json_integer_value(json_object_get(d, "start")) == 1;
        return STATUS_OK;
    }
    if (is_type(d, "Metaspace")) {
        l->spec.meta_space = true;
        struct str scheme = json_str(json_object_get(d, "prepend_scheme"));
        l->spec.strip_first_space =
            scheme.len ? !str_is(scheme, "never") : flag(d, "add_prefix_space", true);
        return STATUS_OK;
    }
    return refuse(l, "decoder", d);
}

static enum status note_id(struct loader *l, const json_t *id, size_t *n)
{
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= (1 << 24))
        return error_set(l->err, STATUS_INVALID,
                         "tokenizer.json: a token id is %lld, expected 0 to %d",
                         (long long)value, (1 << 24) - 1);
    *n = MAX(*n, (size_t)value + 1);
    return STATUS_OK;
}

/* The number of tokens: one more than the highest id. */
static enum status count_tokens(struct loader *l, const json_t *vocab, const json_t *added,
                                size_t *n)
{
    size_t i;
    const char *key;
    json_t *value;
    *n = json_is_array(vocab) ? json_array_size(vocab) : 0;
    if (json_is_object(vocab))
        json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
            TRY(note_id(l, value, n));
    json_array_foreach(added, i, value)
        TRY(note_id(l, json_object_get(value, "id"), n));
    return STATUS_OK;
}

static enum status read_added(struct loader *l, const json_t *added, struct str *tokens)
{
    size_t i;
    json_t *item;
    struct added_token *list = arena_array(&l->arena, struct added_token, json_array_size(added));
    json_array_foreach(added, i, item) {
        struct str text = json_str(json_object_get(item, "content"));
        if (!text.ptr)
            return error_set(l->err, STATUS_INVALID,
                             "tokenizer.json: added token %zu has no content", i);
        bool special = flag(item, "special", false);
        list[i] = (struct added_token){
            .text = text,
            .id = (int32_t)json_integer_value(json_object_get(item, "id")),
            .control = special,
            .normalized = flag(item, "normalized", !special),
            .strip_left = flag(item, "lstrip", false),
            .strip_right = flag(item, "rstrip", false),
            .single_word = flag(item, "single_word", false),
        };
        tokens[list[i].id] = text;
    }
    l->spec.added = list;
    l->spec.n_added = json_array_size(added);
    return STATUS_OK;
}

static enum status read_merges(struct loader *l, const json_t *merges)
{
    size_t n = json_array_size(merges), i;
    struct str *list = arena_array(&l->arena, struct str, n);
    uint32_t *left_len = arena_array(&l->arena, uint32_t, n);
    json_t *item;
    json_array_foreach(merges, i, item) {
        struct str left, right;
        if (json_is_string(item)) {
            list[i] = json_str(item);
            const char *space =
                list[i].len > 1 ? memchr(list[i].ptr + 1, ' ', list[i].len - 1) : NULL;
            left_len[i] = space ? (uint32_t)(space - list[i].ptr) : 0;
            continue;
        }
        left = json_str(json_array_get(item, 0));
        right = json_str(json_array_get(item, 1));
        if (!left.ptr || !right.ptr || json_array_size(item) != 2)
            return error_set(l->err, STATUS_INVALID,
                             "tokenizer.json: merge %zu is not a pair of texts", i);
        char *joined = arena_alloc(&l->arena, left.len + right.len + 1);
        memcpy(joined, left.ptr, left.len);
        joined[left.len] = ' ';
        memcpy(joined + left.len + 1, right.ptr, right.len);
        list[i] = (struct str){ joined, left.len + right.len + 1 };
        left_len[i] = (uint32_t)left.len;
    }
    l->spec.merges = list;
    l->spec.merge_left_len = left_len;
    l->spec.n_merges = n;
    return STATUS_OK;
}

static enum status read_bpe(struct loader *l, const json_t *model, struct str *tokens)
{
    const char *key;
    size_t length;
    json_t *value;
    const json_t *dropout = json_object_get(model, "dropout");
    if (!is_empty(json_object_get(model, "continuing_subword_prefix")) ||
        !is_empty(json_object_get(model, "end_of_word_suffix")) ||
        (json_is_number(dropout) && json_number_value(dropout) != 0.0))
        return error_set(l->err, STATUS_UNSUPPORTED,
                         "tokenizer.json: BPE with a subword prefix, a word suffix or dropout is "
                         "not supported");
    json_object_keylen_foreach((json_t *)(uintptr_t)json_object_get(model, "vocab"), key, length,
                               value)
        tokens[json_integer_value(value)] = (struct str){ key, length };
    l->spec.kind = l->byte_level ? TOKENIZER_BPE_BYTES : TOKENIZER_BPE_CHARS;
    l->spec.ignore_merges = flag(model, "ignore_merges", false);
    l->spec.fuse_unknown = flag(model, "fuse_unk", false);
    struct str unknown = json_str(json_object_get(model, "unk_token"));
    if (unknown.len) {
        const json_t *id =
            json_object_getn(json_object_get(model, "vocab"), unknown.ptr, unknown.len);
        for (size_t i = 0; i < l->spec.n_tokens && !id; i++)
            if (str_eq(tokens[i], unknown))
                l->spec.roles[TOKEN_ROLE_UNKNOWN] = (int32_t)i;
        if (id)
            l->spec.roles[TOKEN_ROLE_UNKNOWN] = (int32_t)json_integer_value(id);
    }
    return read_merges(l, json_object_get(model, "merges"));
}

static enum status read_unigram(struct loader *l, const json_t *model, struct str *tokens)
{
    size_t i;
    json_t *item;
    float *scores = arena_array(&l->arena, float, l->spec.n_tokens);
    json_array_foreach(json_object_get(model, "vocab"), i, item) {
        const json_t *score = json_array_get(item, 1);
        tokens[i] = json_str(json_array_get(item, 0));
        if (!tokens[i].ptr || !json_is_number(score))
            return error_set(l->err, STATUS_INVALID,
                             "tokenizer.json: piece %zu is not a text with a score", i);
        scores[i] = (float)json_number_value(score);
    }
    l->spec.scores = scores;
    l->spec.kind = TOKENIZER_UNIGRAM;
    l->spec.fuse_unknown = true;
    const json_t *unknown = json_object_get(model, "unk_id");
    json_int_t id = json_integer_value(unknown);
    if (json_is_integer(unknown) && id >= 0 && id < (json_int_t)l->spec.n_tokens)
        l->spec.roles[TOKEN_ROLE_UNKNOWN] = (int32_t)id;
    return STATUS_OK;
}

static enum status read_model(struct loader *l, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *added = json_object_get(root, "added_tokens");
    /* Files from before the type was written: merges say BPE. */
    bool bpe = is_type(model, "BPE") ||
               (!json_object_get(model, "type") && json_object_get(model, "merges"));
    bool unigram = is_type(model, "Unigram");
    if (!bpe && !unigram)
        return refuse(l, "model", model);
    if (bpe ? !json_is_object(vocab) : !json_is_array(vocab))
        return error_set(l->err, STATUS_INVALID, "tokenizer.json: model.vocab is not %s",
                         bpe ? "an object" : "an array");
    TRY(count_tokens(l, vocab, added, &l->spec.n_tokens));
    struct str *tokens = arena_array(&l->arena, struct str, l->spec.n_tokens);
    l->spec.tokens = tokens;
    l->spec.byte_fallback = flag(model, "byte_fallback", false);
    TRY(read_added(l, added, tokens));
    return bpe ? read_bpe(l, model, tokens) : read_unigram(l, model, tokens);
}

/* The id of a token that the config names, as a text or as {content}. */
static int32_t named_token(const struct loader *l, const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    struct str text = json_str(json_is_object(value) ? json_object_get(value, "content") : value);
    for (size_t i = 0; i < l->spec.n_added && text.len; i++)
        if (str_eq(l->spec.added[i].text, text))
            return l->spec.added[i].id;
    for (size_t i = 0; i < l->spec.n_tokens && text.len; i++)
        if (str_eq(l->spec.tokens[i], text))
            return (int32_t)i;
    return TOKEN_NONE;
}

/* Tokenizer classes that rebuild what surrounds a text from add_bos_token and add_eos_token. */
static bool class_adds_tokens(const json_t *config)
{
    struct str class = json_str(json_object_get(config, "tokenizer_class"));
    return str_starts(class, STR("Llama")) || str_starts(class, STR("Gemma")) ||
           str_starts(class, STR("Cohere"));
}

static void read_config(struct loader *l, const json_t *config)
{
    static const char *const keys[TOKEN_N_ROLES] = { "bos_token", "eos_token", NULL,
                                                     "unk_token", "pad_token", "mask_token" };
    int32_t *roles = l->spec.roles;
    for (int i = 0; i < TOKEN_N_ROLES; i++)
        if (keys[i] && roles[i] == TOKEN_NONE && i != TOKEN_ROLE_UNKNOWN)
            roles[i] = named_token(l, config, keys[i]);
    const json_t *bos = json_object_get(config, "add_bos_token");
    const json_t *eos = json_object_get(config, "add_eos_token");
    if (class_adds_tokens(config) && json_is_boolean(bos)) {
        l->spec.n_prefix = json_is_true(bos) && roles[TOKEN_ROLE_BOS] != TOKEN_NONE;
        l->prefix[0] = roles[TOKEN_ROLE_BOS];
    }
    if (class_adds_tokens(config) && json_is_boolean(eos)) {
        l->spec.n_suffix = json_is_true(eos) && roles[TOKEN_ROLE_EOS] != TOKEN_NONE;
        l->suffix[0] = roles[TOKEN_ROLE_EOS];
    }
    if (roles[TOKEN_ROLE_BOS] == TOKEN_NONE && l->spec.n_prefix)
        roles[TOKEN_ROLE_BOS] = l->prefix[0];
}

static enum status read_all(struct loader *l, const json_t *root, const json_t *config,
                            struct tokenizer **out)
{
    tokenizer_spec_init(&l->spec);
    l->spec.normalizer_steps = l->normalizer;
    l->spec.split_steps = l->split;
    l->spec.prefix = l->prefix;
    l->spec.suffix = l->suffix;
    if (!json_is_object(root))
        return error_set(l->err, STATUS_INVALID, "tokenizer.json: not an object");
    TRY(read_normalizer(l, json_object_get(root, "normalizer")));
    TRY(read_pretokenizer(l, json_object_get(root, "pre_tokenizer")));
    TRY(read_post_processor(l, json_object_get(root, "post_processor")));
    TRY(read_decoder(l, json_object_get(root, "decoder")));
    TRY(read_model(l, root));
    read_config(l, config);
    return tokenizer_new(&l->spec, out, l->err);
}

enum status tokenizer_from_json(struct str text, struct str config, struct tokenizer **out,
                                struct error *err)
{
    json_t *root = NULL, *settings = NULL;
    *out = NULL;
    enum status s = json_parse(text, 0, &root, err);
    if (s != STATUS_OK) {
        error_prefix(err, "tokenizer.json");
        return s;
    }
    if (config.len && json_parse(config, 0, &settings, err) != STATUS_OK) {
        json_decref(root);
        return error_prefix(err, "tokenizer_config.json");
    }
    struct loader l = { .err = err };
    arena_init(&l.arena, 0);
    s = read_all(&l, root, settings, out);
    arena_release(&l.arena);
    json_decref(root);
    json_decref(settings);
    return s;
}
