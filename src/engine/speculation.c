#include "engine/speculation.h"

#include "base/compiler.h"

#define HIT_RATE_FIRST 0.7
#define FRESHNESS (1.0 / 16)
/* Guesses before a verdict, and the tokens for which it holds; so long a record is believed. */
#define TRIAL 32
#define VERDICT_TOKENS 2048
/* While a price is only extrapolated, sure guesses are tried all the same. */
#define PRICE_MOST 0.75
#define PROBE_ROWS 4

void speculation_init(struct speculation *s, struct drafter *drafter, int32_t most)
{
    *s = (struct speculation){
        .drafter = drafter,
        .most = MIN(most, DRAFT_MOST),
        .hit_rate = HIT_RATE_FIRST,
    };
}

void speculation_release(struct speculation *s)
{
    if (s->drafter)
        s->drafter->ops->free(s->drafter);
    *s = (struct speculation){ 0 };
}

double speculation_price(const struct pass_cost *c, int32_t n_rows, int32_t n_answers)
{
    double now = pass_cost_seconds(c, n_rows);
    double more = pass_cost_seconds(c, n_rows + PROBE_ROWS);
    if (now <= 0 || n_answers == 0)
        return PRICE_MOST;
    double price = (more - now) / PROBE_ROWS / now * n_answers;
    return price > PRICE_MOST ? PRICE_MOST : price < 0 ? 0 : price;
}

static void forget_record(struct speculation *s)
{
    s->hit_rate = HIT_RATE_FIRST;
    s->balance = 0;
    s->n_tested = 0;
}

int32_t speculation_draft(struct speculation *s, int32_t *tokens, int32_t n, int32_t most,
                          double price)
{
    if (n < s->asleep_until)
        return 0;
    if (n >= s->tested_at + VERDICT_TOKENS)
        forget_record(s);
    struct draft draft = { 0 };
    s->drafter->ops->observe(s->drafter, tokens, n);
    s->drafter->ops->propose(s->drafter, tokens, n, MIN(most, s->most), &draft);
    double alive = 1;
    int32_t worth = 0;
    while (worth < draft.n) {
        alive *= draft.confidence[worth] * s->hit_rate;
        if (alive <= price)
            break;
        tokens[n + worth] = draft.token[worth];
        worth++;
    }
    return worth;
}

void speculation_note(struct speculation *s, int32_t n_drafted, int32_t n_right, int32_t n_again,
                      double price, int32_t n)
{
    int32_t tested = MIN(n_right + 1, n_drafted);
    for (int32_t i = 0; i < tested; i++)
        s->hit_rate += FRESHNESS * ((i < n_right ? 1.0 : 0.0) - s->hit_rate);
    s->balance += n_right - price * (n_drafted + n_again);
    s->n_tested += n_drafted;
    s->tested_at = n_drafted > 0 ? n : s->tested_at;
    if (s->n_tested < TRIAL)
        return;
    if (s->balance < 0) {
        s->asleep_until = n + VERDICT_TOKENS;
        s->hit_rate = HIT_RATE_FIRST;
    }
    s->balance = 0;
    s->n_tested = 0;
}
