#include "engine/kv_learning.h"

#include "base/mem.h"
#include "tensor/kv_balance.h"
#include "text/tokenizer/tokenizer.h"

#define LEARN_TOKENS 256

static const char text[] =
    "The old harbour lies on the north side of the river, a mile below the bridge. Ships of up to "
    "three hundred tons could reach it until 1874, when the channel silted up; since then only "
    "fishing boats have used the quay. In the spring the water rises by two metres within a week.\n"
    "\n\"Did you see the lamp last night?\" she asked. He shook his head and went on mending the "
    "net. \"It was lit for an hour, and then somebody put it out.\" Neither of them spoke again "
    "before the kettle boiled.\n\n# How to measure\n\n1. Fill the glass to the mark.\n2. Wait "
    "until the scale shows a steady value, at least 30 seconds.\n3. Write down the temperature "
    "(in degrees Celsius) and the time.\n\n```python\ndef mean(values):\n    total = 0.0\n    for "
    "value in values:\n        total += value\n    return total / len(values)\n```\n\nQuestion: "
    "Why "
    "does the result change when the room is warm? Answer: because water expands, and the same "
    "mass takes more space. The effect is small, about 0.02 percent for each degree, but it can be "
    "seen with a good instrument. Scientists have known this for more than two hundred years.\n";

static bool learns(const struct state_pool *pool)
{
    for (int32_t i = 0; i < pool->layout->n_pieces; i++)
        if (kv_balance_learns(pool->kv[i].balance))
            return true;
    return false;
}

/* Ids spread over the vocabulary: less like what models are asked, but better than nothing. */
static void draw_tokens(struct token_list *out, int32_t n_vocab)
{
    uint32_t x = 1;
    out->ids = mem_array(int32_t, LEARN_TOKENS);
    for (out->n = 0; out->n < LEARN_TOKENS; out->n++) {
        x = x * 1664525u + 1013904223u;
        out->ids[out->n] = (int32_t)((x >> 8) % (uint32_t)n_vocab);
    }
}

static enum status read_all(struct pass *p, struct sequence *s, struct state_pool *pool,
                            const int32_t *tokens, int32_t n, struct error *err)
{
    TRY(sequence_open(s, pool, err));
    while (s->n_past < n) {
        int32_t rows = MIN(n - s->n_past, p->size.rows);
        TRY(sequence_reserve(s, pool, rows, err));
        pass_begin(p);
        pass_add(p, s, tokens + s->n_past, rows, NULL, 0, PASS_NO_OUTPUT);
        TRY(pass_run(p, pool, NULL, NULL, err));
        sequence_advance(s, pool, rows);
    }
    return STATUS_OK;
}

static enum status read_tokens(const struct model *model, struct state_pool *pool,
                               struct pass_size size, size_t scratch_bytes,
                               const struct token_list *tokens, struct error *err)
{
    struct pass p;
    struct sequence s;
    int32_t n = (int32_t)MIN(tokens->n, LEARN_TOKENS);
    TRY(pass_init(&p, model, size, scratch_bytes, err));
    sequence_init(&s, pool);
    enum status status = read_all(&p, &s, pool, tokens->ids, MIN(n, pool->options.context), err);
    sequence_close(&s, pool);
    sequence_release(&s);
    pass_release(&p);
    return status;
}

enum status kv_learn(const struct model *model, const struct tokenizer *tokenizer,
                     struct state_pool *pool, struct pass_size size, size_t scratch_bytes,
                     struct error *err)
{
    struct token_list tokens = { 0 };
    enum status status = STATUS_OK;
    if (!learns(pool))
        return STATUS_OK;
    if (tokenizer)
        status = tokenizer_encode(tokenizer, str_of(text), TOKENIZER_ADD_SPECIAL, &tokens, err);
    else
        draw_tokens(&tokens, model->shape.n_vocab);
    if (status == STATUS_OK)
        status = read_tokens(model, pool, size, scratch_bytes, &tokens, err);
    mem_free(tokens.ids);
    TRY(status);
    for (int32_t i = 0; i < pool->layout->n_pieces; i++)
        if (kv_balance_learns(pool->kv[i].balance))
            kv_balance_finish(pool->kv[i].balance);
    return STATUS_OK;
}
