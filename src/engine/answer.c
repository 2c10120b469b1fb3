#include "engine/answer.h"

#include <math.h>

#include "base/clock.h"
#include "engine/candidates.h"
#include "engine/engine_internal.h"
#include "engine/loop_guard.h"

static bool is_among(const int32_t *list, int32_t n, int32_t token)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == token)
            return true;
    return false;
}

static bool ends_answer(const struct request *r, int32_t token)
{
    const struct engine_model_info *info = engine_model_info(r->model);
    if (is_among(r->options.stop_tokens, r->options.n_stop_tokens, token))
        return true;
    return !r->options.ignore_eos && is_among(info->end_tokens, info->n_end_tokens, token);
}

/* A replayed turn goes through everything but the draw. Behind its last token comes an end
 * token, unless it ended with one. */
static int32_t forced_token(const struct request *r, int32_t n_done)
{
    if (n_done < (int32_t)r->forced.n)
        return r->forced.ids[n_done];
    const struct engine_model_info *info = engine_model_info(r->model);
    return info->n_end_tokens > 0 ? info->end_tokens[0] : -1;
}

static int32_t next_token(struct request *r, const struct sampler_input *in,
                          struct sampler_scratch *scratch, struct error *err)
{
    bool has_nan;
    int32_t n_done = r->n_tokens - r->n_prompt;
    if (r->replays)
        return forced_token(r, n_done);
    int32_t token = sampler_pick(in, &r->sampling, scratch);
    if (token >= 0)
        return token;
    float best = logits_maximum(in->logits, in->n_vocab, &has_nan);
    if (has_nan || !isfinite(best))
        error_set(err, STATUS_INTERNAL,
                  "token %d of the answer: expected finite logits, found %s", n_done,
                  has_nan ? "NaN" : "none that is finite");
    else
        error_set(err, STATUS_INVALID,
                  "token %d of the answer: bias and masks forbid all %d tokens", n_done,
                  in->n_vocab);
    return -1;
}

static void fill_logprobs(struct token_event *e, const struct request *r,
                          const struct sampler_input *in, int32_t token,
                          struct sampler_scratch *scratch)
{
    if (r->options.n_logprobs < 0)
        return;
    sampler_logprobs(in, token, &e->drawn, e->top, r->options.n_logprobs, scratch);
    e->n_top = r->options.n_logprobs;
}

/* Adds the token's text to the event; true: a stop string was found. */
static bool add_text(struct request *r, struct token_event *e, int32_t token)
{
    if (!r->detokenizer.tokenizer)
        return false;
    strbuf_clear(&r->piece);
    detokenizer_push(&r->detokenizer, token, &r->piece);
    r->stop_index = stop_matcher_push(&r->stops, strbuf_str(&r->piece), &e->text);
    return r->stop_index >= 0;
}

/* The answer ends without a stop string: what was held back comes out, half a character becomes
 * U+FFFD. A stop string may still appear in that. */
static void add_last_text(struct request *r, struct token_event *e)
{
    if (!r->detokenizer.tokenizer)
        return;
    strbuf_clear(&r->piece);
    detokenizer_flush(&r->detokenizer, &r->piece);
    r->stop_index = stop_matcher_push(&r->stops, strbuf_str(&r->piece), &e->text);
    if (r->stop_index < 0)
        stop_matcher_flush(&r->stops, &e->text);
}

static void note_time(struct request *r)
{
    uint64_t now = clock_ns();
    if (r->first_token_ns == 0)
        r->first_token_ns = now;
    else
        metrics_measure(&r->engine->metrics, HISTOGRAM_TOKEN_GAP,
                        (double)(now - r->last_token_ns) * 1e-9);
    r->last_token_ns = now;
}

bool answer_token(struct request *r, const float *logits, struct sampler_scratch *scratch,
                  enum finish_reason *finish, struct error *err)
{
    int32_t n_done = r->n_tokens - r->n_prompt;
    bool early = n_done < r->options.min_tokens;
    struct sampler_input in = {
        .logits = logits, .n_vocab = engine_model_info(r->model)->n_vocab,
        .history = r->tokens + r->n_prompt, .n_history = n_done,
        .forbidden = r->forbidden, .n_forbidden = early ? r->n_forbidden : 0,
        .position = (uint64_t)n_done,
    };
    int32_t token = next_token(r, &in, scratch, err);
    *finish = token < 0 && !r->replays ? FINISH_ERROR : FINISH_STOP;
    if (token < 0)
        return true;

    struct token_event *e = request_entry(r);
    e->kind = EVENT_TOKEN;
    e->token = token;
    fill_logprobs(e, r, &in, token, scratch);
    r->tokens[r->n_tokens++] = token;
    note_time(r);
    bool over = true;
    if (ends_answer(r, token)) {
        r->stop_token = token;
        add_last_text(r, e);
    } else if (!add_text(r, e, token)) {
        const int32_t *answer = r->tokens + r->n_prompt;
        r->repeats =
            r->engine->options.loop_guard && loop_guard_sees(answer, r->n_tokens - r->n_prompt);
        over = r->n_tokens >= r->limit || r->repeats;
        if (over) {
            *finish = FINISH_LENGTH;
            add_last_text(r, e);
        }
    }
    if (r->stop_index >= 0)
        *finish = FINISH_STOP;
    request_publish(r);
    return over;
}

static void echo_token(struct request *r, int32_t index, const struct sampler_input *in,
                       struct sampler_scratch *scratch)
{
    struct token_event *e = request_entry(r);
    e->kind = EVENT_PROMPT;
    e->token = r->tokens[index];
    if (in)
        fill_logprobs(e, r, in, e->token, scratch);
    else
        e->drawn = (struct token_probability){ e->token, NAN };
    if (r->detokenizer.tokenizer)
        strbuf_add(&e->text, tokenizer_bytes(r->detokenizer.tokenizer, e->token));
    request_publish(r);
}

bool answer_prompt_row(struct request *r, int32_t index, const float *logits,
                       struct sampler_scratch *scratch, struct error *err)
{
    int32_t n_vocab = engine_model_info(r->model)->n_vocab;
    if (index < r->n_rows_seen) /* read again after it had to make room */
        return true;
    r->n_rows_seen = index + 1;
    if (r->options.prompt_logits)
        r->options.prompt_logits(r->options.prompt_logits_user, index, logits, n_vocab);
    if (!r->options.echo_logprobs)
        return true;
    bool has_nan;
    float best = logits_maximum(logits, n_vocab, &has_nan);
    if (has_nan || !isfinite(best)) {
        error_set(err, STATUS_INTERNAL, "prompt token %d: expected finite logits, found %s",
                  index, has_nan ? "NaN" : "none that is finite");
        return false;
    }
    struct sampler_input in = { .logits = logits, .n_vocab = n_vocab };
    if (index == 0)
        echo_token(r, 0, NULL, scratch);
    if (index + 1 < r->n_prompt)
        echo_token(r, index + 1, &in, scratch);
    return true;
}
