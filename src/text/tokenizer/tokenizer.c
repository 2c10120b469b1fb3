#include "text/tokenizer/tokenizer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

/* Turn and text ends that vocabularies of the known families hold as control tokens. */
static const char *const well_known_stops[] = {
    "<|im_end|>",    "<|ifm|im_end|>", "<|endoftext|>", "<turn|>", "<eos>",
    "<end_of_turn>", "<|eot_id|>",     "<|eom_id|>",    "<|eot|>", "<|end|>",
};

void tokenizer_spec_init(struct tokenizer_spec *spec)
{
    *spec = (struct tokenizer_spec){ 0 };
    for (int i = 0; i < TOKEN_N_ROLES; i++)
        spec->roles[i] = TOKEN_NONE;
}

void token_list_release(struct token_list *list)
{
    mem_free(list->ids);
    *list = (struct token_list){ 0 };
}

void token_list_add(struct token_list *list, int32_t id)
{
    if (list->n == list->capacity)
        mem_reserve((void **)&list->ids, &list->capacity, list->n + 1, sizeof *list->ids);
    list->ids[list->n++] = id;
}

static void add_stop(struct tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->stops.n; i++)
        if (t->stops.ids[i] == id)
            return;
    if (id != TOKEN_NONE)
        token_list_add(&t->stops, id);
}

static enum status check_id(const struct tokenizer *t, int32_t id, const char *what,
                            struct error *err)
{
    if (id == TOKEN_NONE || (id >= 0 && (uint32_t)id < t->vocab.n))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "tokenizer: the %s token is %d, the vocabulary has %u",
                     what, id, t->vocab.n);
}

static enum status set_roles(struct tokenizer *t, const struct tokenizer_spec *spec,
                             struct error *err)
{
    static const char *const names[TOKEN_N_ROLES] = { "bos",     "eos", "eot",
                                                      "unknown", "pad", "mask" };
    for (int i = 0; i < TOKEN_N_ROLES; i++) {
        TRY(check_id(t, spec->roles[i], names[i], err));
        t->roles[i] = spec->roles[i];
    }
    for (size_t i = 0; i < spec->n_prefix; i++) {
        TRY(check_id(t, spec->prefix[i], "first", err));
        token_list_add(&t->prefix, spec->prefix[i]);
    }
    for (size_t i = 0; i < spec->n_suffix; i++) {
        TRY(check_id(t, spec->suffix[i], "last", err));
        token_list_add(&t->suffix, spec->suffix[i]);
    }
    add_stop(t, t->roles[TOKEN_ROLE_EOS]);
    add_stop(t, t->roles[TOKEN_ROLE_EOT]);
    for (size_t i = 0; i < ARRAY_SIZE(well_known_stops); i++) {
        int32_t id = tokenizer_find(t, str_of(well_known_stops[i]));
        if (id != TOKEN_NONE && t->vocab.types[id] == TOKEN_CONTROL)
            add_stop(t, id);
    }
    return STATUS_OK;
}

static enum status set_model(struct tokenizer *t, const struct tokenizer_spec *spec,
                             struct error *err)
{
    t->kind = spec->kind;
    t->ignore_merges = spec->ignore_merges;
    t->byte_fallback = spec->byte_fallback;
    t->fuse_unknown = spec->fuse_unknown;
    t->strip_first_space = spec->strip_first_space;
    TRY(vocab_init(&t->vocab, spec, err));
    for (unsigned b = 0; b < 256; b++) {
        struct alphabet_entry *a = &t->alphabet[b];
        a->n = (uint32_t)byte_alphabet_encode((uint8_t)b, a->bytes);
        t->byte_ids[b] =
            vocab_find_byte(&t->vocab, (uint8_t)b, spec->kind == TOKENIZER_BPE_BYTES);
    }
    for (unsigned c = 0; c < 128; c++) {
        char text = (char)c;
        t->ascii_ids[c] = vocab_find(&t->vocab, (struct str){ &text, 1 });
    }
    switch (spec->kind) {
    case TOKENIZER_BPE_SCORES:
        if (!spec->scores)
            return error_set(err, STATUS_INVALID, "tokenizer: BPE by scores needs scores");
        break;
    case TOKENIZER_UNIGRAM:
        TRY(unigram_init(&t->unigram, &t->vocab, err));
        break;
    case TOKENIZER_BPE_BYTES:
    case TOKENIZER_BPE_CHARS:
        TRY(merge_table_init(&t->merges, spec, &t->vocab, err));
        break;
    }
    return STATUS_OK;
}

enum status tokenizer_new(const struct tokenizer_spec *spec, struct tokenizer **out,
                          struct error *err)
{
    struct tokenizer *t = mem_new(struct tokenizer);
    pthread_mutex_init(&t->scratch_lock, NULL);
    enum status s = set_model(t, spec, err);
    if (s == STATUS_OK)
        s = added_tokens_init(&t->added, spec, err);
    if (s == STATUS_OK)
        s = normalizer_init(&t->normalizer, spec, err);
    if (s == STATUS_OK)
        s = pretokenizer_init(&t->split, spec, err);
    if (s == STATUS_OK)
        s = set_roles(t, spec, err);
    if (s != STATUS_OK) {
        tokenizer_free(t);
        t = NULL;
    }
    *out = t;
    return s;
}

bool tokenizer_splits_by_bigrams(const struct tokenizer *t)
{
    return t->kind != TOKENIZER_BPE_BYTES && !t->ignore_merges;
}

static void free_scratch(struct tokenizer_scratch *s)
{
    pretokenizer_state_release(&s->split);
    merger_release(&s->merger);
    unigram_work_release(&s->unigram);
    piece_cache_release(&s->cache);
    text_buffer_release(&s->normalized[0]);
    text_buffer_release(&s->normalized[1]);
    text_buffer_release(&s->spelled);
    mem_free(s);
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    while (t->scratches) {
        struct tokenizer_scratch *s = t->scratches;
        t->scratches = s->next;
        free_scratch(s);
    }
    pthread_mutex_destroy(&t->scratch_lock);
    vocab_release(&t->vocab);
    merge_table_release(&t->merges);
    bigram_set_release(&t->bigrams);
    unigram_release(&t->unigram);
    added_tokens_release(&t->added);
    normalizer_release(&t->normalizer);
    pretokenizer_release(&t->split);
    token_list_release(&t->prefix);
    token_list_release(&t->suffix);
    token_list_release(&t->stops);
    mem_free(t);
}

/* Scratches, and the set of bigrams made with the first, are what changes in a tokenizer. */
struct tokenizer_scratch *tokenizer_take_scratch(const struct tokenizer *t)
{
    struct tokenizer *shared = (struct tokenizer *)(uintptr_t)t;
    pthread_mutex_lock(&shared->scratch_lock);
    struct tokenizer_scratch *s = shared->scratches;
    if (s) {
        shared->scratches = s->next;
        shared->n_scratches--;
    }
    pthread_mutex_unlock(&shared->scratch_lock);
    if (!s) {
        /* Loading a model to run it on given ids never pays for this. */
        pthread_mutex_lock(&shared->scratch_lock);
        if (!t->bigrams.bits && tokenizer_splits_by_bigrams(t))
            bigram_set_init(&shared->bigrams, &t->vocab);
        pthread_mutex_unlock(&shared->scratch_lock);
        s = mem_new(struct tokenizer_scratch);
        pretokenizer_state_init(&s->split, &t->split);
    }
    return s;
}

/* A scratch that a huge piece has blown up gives that memory back. */
static void shrink_scratch(struct tokenizer_scratch *s)
{
    enum { KEPT_SYMBOLS = 1 << 16, KEPT_BYTES = 4 << 20 };
    merger_shrink(&s->merger, KEPT_SYMBOLS);
    if (s->unigram.capacity > KEPT_SYMBOLS)
        unigram_work_release(&s->unigram);
    for (int i = 0; i < 2; i++)
        if (s->normalized[i].capacity > KEPT_BYTES)
            text_buffer_release(&s->normalized[i]);
}

void tokenizer_put_scratch(const struct tokenizer *t, struct tokenizer_scratch *s)
{
    struct tokenizer *shared = (struct tokenizer *)(uintptr_t)t;
    shrink_scratch(s);
    pthread_mutex_lock(&shared->scratch_lock);
    bool keep = shared->n_scratches < TOKENIZER_KEPT_SCRATCHES;
    if (keep) {
        s->next = shared->scratches;
        shared->scratches = s;
        shared->n_scratches++;
    }
    pthread_mutex_unlock(&shared->scratch_lock);
    if (!keep)
        free_scratch(s);
}

int32_t tokenizer_n_tokens(const struct tokenizer *t)
{
    return (int32_t)t->vocab.n;
}

int32_t tokenizer_role(const struct tokenizer *t, enum token_role role)
{
    return t->roles[role];
}

static bool is_inside(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n;
}

enum token_type tokenizer_type(const struct tokenizer *t, int32_t id)
{
    return is_inside(t, id) ? (enum token_type)t->vocab.types[id] : TOKEN_UNUSED;
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    enum token_type type = tokenizer_type(t, id);
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN;
}

struct str tokenizer_text(const struct tokenizer *t, int32_t id)
{
    return is_inside(t, id) ? vocab_text(&t->vocab, id) : (struct str){ "", 0 };
}

struct str tokenizer_bytes(const struct tokenizer *t, int32_t id)
{
    if (!is_inside(t, id))
        return (struct str){ "", 0 };
    const struct vocab *v = &t->vocab;
    return (struct str){ v->bytes + v->bytes_at[id], v->bytes_at[id + 1] - v->bytes_at[id] };
}

int32_t tokenizer_find(const struct tokenizer *t, struct str text)
{
    return vocab_find(&t->vocab, text);
}

static size_t give(const struct token_list *list, const int32_t **ids)
{
    *ids = list->ids;
    return list->n;
}

size_t tokenizer_stop_ids(const struct tokenizer *t, const int32_t **ids)
{
    return give(&t->stops, ids);
}

size_t tokenizer_prefix_ids(const struct tokenizer *t, const int32_t **ids)
{
    return give(&t->prefix, ids);
}

size_t tokenizer_suffix_ids(const struct tokenizer *t, const int32_t **ids)
{
    return give(&t->suffix, ids);
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
    return t->prefix.n > 0 && t->prefix.ids[0] == t->roles[TOKEN_ROLE_BOS];
}

const char *tokenizer_kind_name(const struct tokenizer *t)
{
    switch (t->kind) {
    case TOKENIZER_BPE_BYTES:
        return "byte-level BPE";
    case TOKENIZER_BPE_CHARS:
        return "BPE over characters";
    case TOKENIZER_BPE_SCORES:
        return "BPE by scores";
    case TOKENIZER_UNIGRAM:
        return "Unigram";
    }
    return "unknown";
}
