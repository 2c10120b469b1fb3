#include "text/tokenizer/unigram.h"

#include <math.h>

#include "base/mem.h"
#include "text/tokenizer/added_tokens.h"

#define UNREACHED UINT32_MAX
#define UNKNOWN_PENALTY 10.0

enum status unigram_init(struct unigram_model *u, const struct vocab *v, struct error *err)
{
    if (!v->scores)
        return error_set(err, STATUS_INVALID, "tokenizer: a unigram model needs scores");
    byte_trie_init(&u->trie);
    double worst = INFINITY;
    for (uint32_t id = 0; id < v->n; id++) {
        if (!isfinite(v->scores[id]))
            return error_set(err, STATUS_INVALID, "tokenizer: the score of token %u is %g", id,
                             (double)v->scores[id]);
        worst = fmin(worst, (double)v->scores[id]);
        struct str text = vocab_text(v, (int32_t)id);
        if (text.len && !byte_trie_insert(&u->trie, text, (int32_t)id))
            return error_set(err, STATUS_LIMIT, "tokenizer: %u unigram pieces are too many", v->n);
    }
    u->unknown_score = worst - UNKNOWN_PENALTY;
    return STATUS_OK;
}

void unigram_release(struct unigram_model *u)
{
    byte_trie_release(&u->trie);
}

void unigram_work_release(struct unigram_work *work)
{
    mem_free(work->nodes);
    *work = (struct unigram_work){ 0 };
}

static size_t character_length(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static bool may_take(const struct vocab *v, int32_t id, bool values)
{
    if (!values)
        return true;
    uint8_t type = v->types[id];
    if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN)
        return false;
    return type != TOKEN_USER_DEFINED || !added_token_is_markup(vocab_text(v, id));
}

static void reach(struct unigram_node *target, double score, size_t from, int32_t id)
{
    if (target->from == UNREACHED || score > target->score)
        *target = (struct unigram_node){ score, (uint32_t)from, id };
}

static void turn_path(struct unigram_node *nodes, size_t end)
{
    uint32_t at = (uint32_t)end, ends_at = UNREACHED;
    int32_t id = TOKEN_NONE;
    for (;;) {
        uint32_t from = nodes[at].from;
        int32_t piece = nodes[at].id;
        nodes[at].from = ends_at;
        nodes[at].id = id;
        if (at == 0)
            return;
        ends_at = at;
        id = piece;
        at = from;
    }
}

void unigram_run(const struct unigram_model *u, const struct vocab *v, struct unigram_work *work,
                 struct str piece, bool values)
{
    size_t n = piece.len;
    mem_reserve((void **)&work->nodes, &work->capacity, n + 1, sizeof *work->nodes);
    struct unigram_node *nodes = work->nodes;
    nodes[0] = (struct unigram_node){ 0.0, 0, TOKEN_NONE };
    for (size_t i = 1; i <= n; i++)
        nodes[i].from = UNREACHED;
    for (size_t from = 0; from < n;) {
        size_t character = MIN(character_length((uint8_t)piece.ptr[from]), n - from);
        bool has_single = false;
        uint32_t node = BYTE_TRIE_ROOT;
        double base = nodes[from].score;
        for (size_t i = from; i < n;) {
            node = byte_trie_step(&u->trie, node, (uint8_t)piece.ptr[i++]);
            if (node == BYTE_TRIE_NONE)
                break;
            int32_t id = u->trie.values[node];
            if (id < 0 || !may_take(v, id, values))
                continue;
            reach(&nodes[i], base + (double)v->scores[id], from, id);
            has_single |= i - from == character;
        }
        if (!has_single)
            reach(&nodes[from + character], base + u->unknown_score, from, TOKEN_NONE);
        from += character;
    }
    turn_path(nodes, n);
}
