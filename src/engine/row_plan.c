#include "engine/scheduler_internal.h"

/* The gap between two tokens of an answer while a prompt is read beside it: as many rows as fit
 * into this time, or into twice that of the answers alone. */
#define GAP_SECONDS 0.1
#define CHUNK_STEP 16
#define CHUNK_UNMEASURED 128

int32_t row_plan_unread(const struct request *r)
{
    return r->n_tokens - r->sequence->n_past;
}

/* Prompt rows from this one on have to become outputs. */
static int32_t first_wanted_row(const struct request *r)
{
    if (r->options.echo_logprobs)
        return 0;
    return r->options.prompt_logits ? r->options.prompt_logits_from : r->n_prompt;
}

/* An answer has one row: its newest token. Behind a draft that was partly right there are more,
 * since fixed state was kept as it was before the draft. */
static void plan_answers(struct scheduler *s, int32_t *rows_left, int32_t *outputs_left)
{
    for (int32_t i = 0; i < s->n_running; i++) {
        struct request *r = s->running[i];
        int32_t n = row_plan_unread(r);
        sequence_forget_draft(r->sequence, s->model->pool);
        s->plan[i] = (struct plan_row){ .first_index = r->sequence->n_past };
        bool continues = r->prompt_done && r->sequence->n_past >= r->n_prompt;
        if (!continues || n > 1 + DRAFT_MOST || n > *rows_left || request_room(r, 1) < 1)
            continue;
        s->plan[i].answer = true;
        s->plan[i].n_rows = n;
        s->plan[i].outputs = PASS_LAST_ROW;
        *rows_left -= n;
        --*outputs_left;
    }
}

/* Answers have their row already; what is left may check guesses. Followers need the state as it
 * is behind the prompt. */
static void plan_drafts(struct scheduler *s, int32_t *rows_left, int32_t *outputs_left)
{
    int32_t n_rows = s->pass.size.rows - *rows_left, n_answers = n_rows;
    for (int32_t i = 0; i < s->n_running; i++) {
        struct request *r = s->running[i];
        struct plan_row *plan = &s->plan[i];
        if (!plan->answer || !r->speculation.drafter)
            continue;
        int32_t most = MIN(r->limit - r->n_tokens - 1, request_room(r, 1) - 1);
        /* All of its rows become outputs when it drafts. */
        most = MIN(most, MIN(*rows_left, *outputs_left - (plan->n_rows - 1)));
        most = MIN(most, prefix_reuse_cut(s, r, plan->n_rows + most) - plan->n_rows);
        if (most <= 0)
            continue;
        plan->price = speculation_price(&s->cost, n_rows, n_answers);
        int32_t n = speculation_draft(&r->speculation, r->tokens, r->n_tokens, most, plan->price);
        if (n == 0 || !sequence_draft(r->sequence, s->model->pool, n))
            continue;
        *outputs_left -= plan->n_rows - 1;
        plan->n_drafted = n;
        plan->n_rows += n;
        plan->outputs = PASS_ALL_ROWS;
        n_rows += n;
        *rows_left -= n;
        *outputs_left -= n;
    }
}

static void plan_prompt(struct scheduler *s, int32_t i, int32_t *rows_left, int32_t *outputs_left)
{
    struct request *r = s->running[i];
    struct plan_row *plan = &s->plan[i];
    struct error err = { 0 };
    bool ready;
    if (prefix_reuse_ready(s, i, &ready, &err) != STATUS_OK) {
        residency_end(s, i, FINISH_ERROR, &err);
        return;
    }
    if (!ready)
        return;
    plan->first_index = r->sequence->n_past;
    int32_t n = MIN(row_plan_unread(r), *rows_left), past = r->sequence->n_past;
    int32_t wanted = first_wanted_row(r);
    if (past < wanted && wanted < r->n_prompt)
        n = MIN(n, wanted - past);
    n = prefix_reuse_cut(s, r, n);
    bool all = past >= wanted && past < r->n_prompt;
    bool last = n == row_plan_unread(r) && !r->options.prompt_only;
    if (all) {
        n = MIN(n, *outputs_left);
        if (r->options.echo_logprobs)
            n = MIN(n, request_room(r, 3) - 2);
        n = MIN(n, r->n_prompt - past);
    } else if (last && (*outputs_left < 1 || request_room(r, 1) < 1)) {
        n--; /* all but the row that would be drawn from */
    }
    if (n <= 0)
        return;
    plan->n_rows = n;
    if (all)
        plan->outputs = PASS_ALL_ROWS;
    else
        plan->outputs = last && n == row_plan_unread(r) ? PASS_LAST_ROW : PASS_NO_OUTPUT;
    *rows_left -= n;
    *outputs_left -= plan->outputs == PASS_ALL_ROWS ? n : plan->outputs == PASS_LAST_ROW;
}

static int32_t chunk_beside(const struct scheduler *s, int32_t n_answers)
{
    double alone = pass_cost_seconds(&s->cost, n_answers), allowed = MAX(GAP_SECONDS, 2 * alone);
    int32_t most = s->pass.size.rows, chunk = CHUNK_STEP;
    if (alone == 0)
        return MIN(CHUNK_UNMEASURED, most);
    while (chunk + CHUNK_STEP <= most &&
           pass_cost_seconds(&s->cost, n_answers + chunk + CHUNK_STEP) <= allowed)
        chunk += CHUNK_STEP;
    return chunk;
}

/* Whose prompt goes on: among the requests of one client the one that had least, so that short
 * prompts do not wait for long ones. */
static int32_t next_prompt(const struct scheduler *s)
{
    int32_t best = -1;
    for (int32_t i = 0; i < s->n_running; i++) {
        const struct request *r = s->running[i];
        bool starved = row_plan_unread(r) == 1 && r->prompt_done;
        if (s->plan[i].visited || s->plan[i].answer || starved)
            continue;
        const struct request *b = best < 0 ? r : s->running[best];
        bool same = r->account == b->account && r->options.priority == b->options.priority;
        bool before = same && r->rows_computed != b->rows_computed
                          ? r->rows_computed < b->rows_computed
                          : request_goes_before(r, b);
        if (best < 0 || before)
            best = i;
    }
    return best;
}

void row_plan_make(struct scheduler *s)
{
    int32_t rows_left = s->pass.size.rows, outputs_left = s->pass.size.outputs;
    int32_t all_rows = rows_left, i;
    plan_answers(s, &rows_left, &outputs_left);
    plan_drafts(s, &rows_left, &outputs_left);
    if (rows_left < all_rows)
        rows_left = MIN(rows_left, chunk_beside(s, all_rows - rows_left));
    while (rows_left > 0 && (i = next_prompt(s)) >= 0) {
        s->plan[i].visited = true;
        plan_prompt(s, i, &rows_left, &outputs_left);
    }
}
