#include "base/clock.h"
#include "engine/answer.h"
#include "engine/scheduler_internal.h"

/* The prompt has just been read: the others of its group take its state and draw from the same
 * logits. */
static void fork_followers(struct scheduler *s, struct request *leader, const float *logits)
{
    while (leader->followers && s->n_idle > 0) {
        struct request *r = leader->followers;
        struct error err = { 0 };
        struct sequence *q = residency_take(s, &err);
        if (!q)
            break;
        leader->followers = r->next;
        r->next = NULL;
        if (sequence_fork(leader->sequence, q, s->model->pool, &err) != STATUS_OK) {
            r->sequence = q;
            residency_end_unlisted(s, r, FINISH_ERROR, &err);
            continue;
        }
        residency_enter(s, r, q);
        s->plan[s->n_running - 1] = (struct plan_row){ 0 };
        r->cached_tokens = r->n_prompt;
        r->cache_source = CACHE_LIVE;
        r->prompt_done = true;
        r->prompt_ns = clock_ns();
        enum finish_reason finish;
        if (answer_token(r, logits, s->sampler, &finish, &err))
            residency_end(s, s->n_running - 1, finish, &err);
        else
            metrics_count(&s->engine->metrics, COUNTER_GENERATED_TOKENS, 1);
    }
    residency_release_followers(s, leader);
}

/* Rows of the prompt were read. False: the request failed. */
static bool deliver_prompt(struct scheduler *s, struct request *r, const struct plan_row *plan,
                           struct error *err)
{
    for (int32_t k = 0; plan->outputs == PASS_ALL_ROWS && k < plan->n_rows; k++)
        if (!answer_prompt_row(r, plan->first_index + k,
                               pass_logits(&s->pass, plan->first_output + k), s->sampler, err))
            return false;
    if (r->sequence->n_past >= r->n_prompt) {
        r->prompt_done = true;
        if (r->prompt_ns == 0)
            r->prompt_ns = clock_ns();
    }
    request_progress(r, MIN(r->sequence->n_past, r->n_prompt));
    return true;
}

/* One row of an answer, and the guesses behind it: each row's draw is the answer's next token;
 * the first that differs from the guess ends the run. True: the request is over. */
static bool deliver_answer(struct scheduler *s, struct request *r, const struct plan_row *plan,
                           enum finish_reason *finish, struct error *err)
{
    int32_t n_right = 0, k = 0, n_before = plan->n_rows - plan->n_drafted - 1;
    int32_t output = plan->first_output + (plan->outputs == PASS_ALL_ROWS ? n_before : 0);
    bool over = false, right = true;
    for (; k <= plan->n_drafted && right && !over; k++) {
        int32_t guess = k < plan->n_drafted ? r->tokens[r->n_tokens] : -1;
        over = answer_token(r, pass_logits(&s->pass, output + k), s->sampler, finish, err);
        right = *finish != FINISH_ERROR && guess == r->tokens[r->n_tokens - 1];
        n_right += right;
    }
    fair_share_charge(r->account, plan->n_rows);
    sequence_settle(r->sequence, s->model->pool, plan->n_rows, n_before + k);
    prefix_reuse_note_answer(s, r);
    metrics_count(&s->engine->metrics, COUNTER_GENERATED_TOKENS, (uint64_t)k);
    if (plan->n_drafted == 0)
        return over;
    metrics_count(&s->engine->metrics, COUNTER_PROPOSED_LOOKUP, (uint64_t)plan->n_drafted);
    metrics_count(&s->engine->metrics, COUNTER_ACCEPTED_LOOKUP, (uint64_t)n_right);
    r->n_drafted += plan->n_drafted;
    r->n_accepted += n_right;
    int32_t n_again = over ? 0 : row_plan_unread(r) - 1;
    speculation_note(&r->speculation, plan->n_drafted, n_right, n_again, plan->price, r->n_tokens);
    return over;
}

/* True: the request is over. */
static bool deliver(struct scheduler *s, struct request *r, const struct plan_row *plan,
                    enum finish_reason *finish, struct error *err)
{
    if (plan->answer)
        return deliver_answer(s, r, plan, finish, err);
    fair_share_charge(r->account, plan->n_rows);
    r->rows_computed += plan->n_rows;
    prefix_reuse_note(s, r, plan->n_rows);
    sequence_advance(r->sequence, s->model->pool, plan->n_rows);
    if (plan->first_index < r->n_prompt) {
        int32_t n_read = MIN(plan->n_rows, r->n_prompt - plan->first_index);
        metrics_count(&s->engine->metrics, COUNTER_PROMPT_TOKENS, (uint64_t)n_read);
        if (!deliver_prompt(s, r, plan, err)) {
            *finish = FINISH_ERROR;
            return true;
        }
    }
    if (row_plan_unread(r) > 0)
        return false;
    if (r->options.prompt_only) {
        *finish = FINISH_LENGTH;
        return true;
    }
    int32_t last = plan->outputs == PASS_ALL_ROWS ? plan->n_rows - 1 : 0;
    const float *logits = pass_logits(&s->pass, plan->first_output + last);
    if (r->followers)
        fork_followers(s, r, logits);
    metrics_count(&s->engine->metrics, COUNTER_GENERATED_TOKENS, 1);
    return answer_token(r, logits, s->sampler, finish, err);
}

void delivery_run(struct scheduler *s)
{
    /* Forks are appended behind n; they had their token already. */
    for (int32_t i = 0, n = s->n_running; i < n; i++) {
        struct plan_row plan = s->plan[i];
        struct request *r = s->running[i];
        enum finish_reason finish = FINISH_STOP;
        struct error err = { 0 };
        if (plan.n_rows == 0 || !deliver(s, r, &plan, &finish, &err))
            continue;
        residency_end(s, i, finish, &err);
        i--;
        n--;
    }
}
