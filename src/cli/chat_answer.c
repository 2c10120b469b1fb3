#include <stdio.h>

#include "base/json.h"
#include "cli/chat.h"
#include "cli/prompt_input.h"
#include "engine/render_prompt.h"
#include "cli/term.h"
#include "cli/thought_filter.h"

#define PROMPT_TAIL 16 /* ids that surely hold an opened <think> and its line end */

struct answer {
    const struct chat *chat;
    struct strbuf text, thoughts;
    bool dimmed, printed, line_open;
    struct event done;
};

static void show(struct answer *a, struct str text, bool dim)
{
    if (dim != a->dimmed) {
        if (!dim && a->line_open)
            putchar('\n');
        fputs(term_style(stdout, dim ? TERM_DIM : TERM_PLAIN), stdout);
        a->dimmed = dim;
    }
    cli_print(text);
    a->line_open = text.ptr[text.len - 1] != '\n';
}

/* White space between the thoughts and the answer is not the answer's. */
static struct str without_leading_space(struct str text)
{
    size_t from = 0;
    while (from < text.len && (text.ptr[from] == '\n' || text.ptr[from] == ' '))
        from++;
    return str_slice(text, from, text.len);
}

static void take_text(void *user, struct str text, bool is_thought)
{
    struct answer *a = user;
    struct strbuf *to = is_thought ? &a->thoughts : &a->text;
    if (to->len == 0 && (is_thought || a->thoughts.len > 0))
        text = without_leading_space(text);
    if (text.len == 0)
        return;
    strbuf_add(to, text);
    if (!is_thought || !a->chat->hides_thoughts)
        show(a, text, is_thought);
}

/* The prompt of many templates ends inside of the thoughts. */
static bool opens_thoughts(const struct chat *c, const struct token_list *prompt)
{
    struct strbuf tail;
    strbuf_init(&tail, 4096);
    size_t from = prompt->n > PROMPT_TAIL ? prompt->n - PROMPT_TAIL : 0;
    bool good = tokenizer_decode(c->info->tokenizer, prompt->ids + from, prompt->n - from, &tail,
                                 NULL) == STATUS_OK;
    bool opens = good && str_ends(str_trim(strbuf_str(&tail)), STR("<think>"));
    strbuf_release(&tail);
    return opens;
}

/* Replayed turns are counted by the assistant's turns so far. */
static const struct str *script_turn(const struct chat *c)
{
    size_t i, turn = 0;
    json_t *message;
    json_array_foreach(chat_messages(c), i, message)
        turn += str_is(json_str(json_object_get(message, "role")), "assistant");
    return turn < c->setup->n_script ? &c->setup->script[turn] : NULL;
}

static void follow(struct request *r, struct answer *a, struct thought_filter *filter)
{
    struct event e = { .kind = EVENT_PROGRESS };
    while (e.kind != EVENT_DONE) {
        if (cli_interrupted())
            request_cancel(r);
        if (!request_wait_for(r, &e, 100)) {
            e.kind = EVENT_PROGRESS;
            continue;
        }
        if (e.kind == EVENT_TOKEN)
            thought_filter_push(filter, e.text);
        fflush(stdout);
    }
    a->done = e;
}

static enum status generate(struct chat *c, const struct token_list *prompt, struct answer *a,
                            struct error *err)
{
    const struct engine_setup *s = c->setup;
    struct request_options options = {
        .model = c->model, .tokens = prompt->ids, .n_tokens = (int32_t)prompt->n,
        .sampling = c->sampling, .max_tokens = c->max_tokens, .min_tokens = s->min_tokens,
        .ignore_eos = s->ignore_eos, .stop = s->stop, .n_stop = s->n_stop, .n_logprobs = -1,
        .script = script_turn(c), .session = c->session,
        .session_strict = options_flag(c->o, "session-strict"),
    };
    struct request *r;
    struct thought_filter filter;
    TRY(engine_submit(c->engine, &options, &r, err));
    thought_filter_init(&filter, opens_thoughts(c, prompt), take_text, a);
    follow(r, a, &filter);
    thought_filter_finish(&filter);
    request_drop(r);
    cli_interrupt_clear();
    if (a->dimmed)
        fputs(term_style(stdout, TERM_PLAIN), stdout);
    if (a->line_open || a->text.len == 0)
        putchar('\n');
    fflush(stdout);
    if (a->done.finish != FINISH_ERROR)
        return STATUS_OK;
    *err = a->done.error;
    return err->status;
}

static void keep(struct chat *c, const struct answer *a)
{
    struct str text = strbuf_str(&a->text), thoughts = strbuf_str(&a->thoughts);
    json_t *message = json_pack("{s:s, s:s%}", "role", "assistant", "content", text.ptr, text.len);
    if (thoughts.len > 0)
        json_object_set_new(message, "reasoning_content", json_stringn(thoughts.ptr, thoughts.len));
    json_array_append_new(chat_messages(c), message);
    c->n_answers++;
    c->last = a->done.usage;
    c->prompt_tokens += c->last.prompt_tokens;
    c->cached_tokens += c->last.cached_tokens;
    c->completion_tokens += c->last.completion_tokens;
}

/* The answer stays where it was printed, whatever becomes of the session. */
static void keep_session(struct chat *c)
{
    struct error err = { 0 };
    if (!c->session ||
        engine_session_set_client(c->engine, c->session, c->request, &err) == STATUS_OK)
        return;
    if (err.status == STATUS_NOT_FOUND)
        (void)error_set(&err, STATUS_IO, "session %s: not saved", c->session);
    cli_fail(&err);
    c->lost = true;
}

/* Answers the newest message of the conversation. */
static enum status answer(struct chat *c, struct error *err)
{
    struct token_list prompt = { 0 };
    struct answer a = { .chat = c };
    strbuf_init(&a.text, 1u << 30);
    strbuf_init(&a.thoughts, 1u << 30);
    enum status status = render_prompt(c->info, c->request, options_flag(c->o, "parse-special"),
                                       &prompt, err);
    if (status == STATUS_OK)
        status = generate(c, &prompt, &a, err);
    bool nothing = a.done.finish == FINISH_CANCELLED && a.text.len + a.thoughts.len == 0;
    if (status == STATUS_OK && !nothing)
        keep(c, &a);
    else if (status == STATUS_OK)
        status = error_set(err, STATUS_CANCELLED, "stopped before the first word");
    if (status == STATUS_OK)
        keep_session(c);
    token_list_release(&prompt);
    strbuf_release(&a.text);
    strbuf_release(&a.thoughts);
    return status;
}

enum status chat_say(struct chat *c, struct str text, struct error *err)
{
    json_t *messages = chat_messages(c);
    json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", "user", "content", text.ptr,
                                              text.len));
    enum status status = answer(c, err);
    if (status != STATUS_OK)
        json_array_remove(messages, json_array_size(messages) - 1);
    return status;
}

enum status chat_replace(struct chat *c, struct str text, struct error *err)
{
    json_t *before = json_copy(chat_messages(c));
    enum status status = STATUS_OK;
    if (!chat_undo(c))
        status = error_set(err, STATUS_INVALID, "/edit: there is no message yet");
    if (status == STATUS_OK)
        status = chat_say(c, text, err);
    if (status != STATUS_OK)
        json_object_set(c->request, "messages", before);
    json_decref(before);
    return status;
}

enum status chat_regenerate(struct chat *c, struct error *err)
{
    json_t *messages = chat_messages(c);
    size_t n = json_array_size(messages);
    json_t *last = n ? json_incref(json_array_get(messages, n - 1)) : NULL;
    bool answered = last && str_is(json_str(json_object_get(last, "role")), "assistant");
    if (!answered) {
        json_decref(last);
        return error_set(err, STATUS_INVALID, "/regen: there is no answer yet");
    }
    json_array_remove(messages, n - 1);
    enum status status = answer(c, err);
    if (status != STATUS_OK)
        json_array_append(messages, last);
    json_decref(last);
    return status;
}

enum status chat_count_tokens(const struct chat *c, size_t *n, struct error *err)
{
    struct token_list ids = { 0 };
    *n = 0;
    if (json_array_size(chat_messages(c)) == 0)
        return STATUS_OK;
    enum status status = render_prompt(c->info, c->request, options_flag(c->o, "parse-special"),
                                       &ids, err);
    *n = ids.n;
    token_list_release(&ids);
    return status;
}
