/* When a sequence drafts: a drafter that loses is turned off, and tried again 2,048 tokens later.
 */
#include "unit/cmocka_setup.h"

#include "base/compiler.h"
#include "engine/speculation.h"

enum { VERDICT_TOKENS = 2048, MOST = 4 };
#define PRICE 0.2

static int32_t tokens[8192];

static void observe(struct drafter *d, const int32_t *seen, int32_t n)
{
    (void)d;
    (void)seen;
    (void)n;
}

/* Always sure of as many as it may name. */
static void propose(struct drafter *d, const int32_t *seen, int32_t n, int32_t most,
                    struct draft *out)
{
    (void)d;
    (void)seen;
    (void)n;
    for (out->n = 0; out->n < most; out->n++) {
        out->token[out->n] = 7;
        out->confidence[out->n] = 1;
    }
}

static void release(struct drafter *d)
{
    (void)d;
}

static const struct drafter_ops ops = { "sure", observe, propose, release };

static int32_t draft(struct speculation *s, int32_t n)
{
    return speculation_draft(s, tokens, n, MOST, PRICE);
}

/* Drafts until it is turned off; each pass confirms `n_right`. Returns the tokens by then, or 0
 * when it still drafts after `most` of them. */
static int32_t run_until_off(struct speculation *s, int32_t n, int32_t n_right, int32_t most)
{
    for (int32_t end = n + most; n < end;) {
        int32_t n_drafted = draft(s, n), right = MIN(n_right, n_drafted);
        n += right + 1;
        if (n_drafted == 0)
            return n - 1;
        speculation_note(s, n_drafted, right, 0, PRICE, n);
    }
    return 0;
}

static void loser_is_off_for_a_while(void **state)
{
    (void)state;
    struct drafter d = { &ops };
    struct speculation s;
    speculation_init(&s, &d, MOST);
    int32_t off = run_until_off(&s, 100, 0, 1000);
    assert_in_range(off, 101, 200);
    for (int round = 0; round < 2; round++) {
        for (int32_t n = off; n < off + VERDICT_TOKENS; n++)
            assert_int_equal(draft(&s, n), 0);
        /* The verdict has expired: tried again, and turned off again. */
        assert_true(draft(&s, off + VERDICT_TOKENS) > 0);
        int32_t again = run_until_off(&s, off + VERDICT_TOKENS, 0, 1000);
        assert_in_range(again, off + VERDICT_TOKENS + 1, off + VERDICT_TOKENS + 100);
        off = again;
    }
    speculation_release(&s);
}

static void second_chance(void **state)
{
    (void)state;
    struct drafter d = { &ops };
    struct speculation s;
    speculation_init(&s, &d, MOST);
    int32_t off = run_until_off(&s, 100, 0, 1000);
    assert_true(off > 0);
    /* What it says is right now: it stays. */
    assert_int_equal(run_until_off(&s, off + VERDICT_TOKENS, MOST, 4000), 0);
    speculation_release(&s);
}

static void winner_stays(void **state)
{
    (void)state;
    struct drafter d = { &ops };
    struct speculation s;
    speculation_init(&s, &d, MOST);
    assert_int_equal(run_until_off(&s, 100, MOST, 6000), 0);
    speculation_release(&s);
}

/* Guesses that are right and still cost more than they save: what is computed again counts. */
static void costly_rollback(void **state)
{
    (void)state;
    struct drafter d = { &ops };
    struct speculation s;
    speculation_init(&s, &d, MOST);
    int32_t n = 100;
    while (n < 1000 && draft(&s, n) > 0) {
        n += MOST + 1;
        speculation_note(&s, MOST, MOST, 100, PRICE, n);
    }
    assert_in_range(n, 101, 200);
    assert_int_equal(draft(&s, n + VERDICT_TOKENS - 1), 0);
    assert_true(draft(&s, n + VERDICT_TOKENS) > 0);
    speculation_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loser_is_off_for_a_while),
        cmocka_unit_test(second_chance),
        cmocka_unit_test(winner_stays),
        cmocka_unit_test(costly_rollback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
