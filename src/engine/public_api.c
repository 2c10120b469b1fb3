#include "ingot.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

#define TEXT_MAX_BYTES (1u << 30)

struct ingot_model {
    struct ingot_engine *owner;
    struct engine_model *model;
    struct ingot_model *next;
};
struct ingot_engine {
    struct engine *engine;
    struct log_sink log;
    struct ingot_engine_options options;
    struct ingot_model *models;
};
struct ingot_request {
    struct request *request;
    struct error error;
};

static enum ingot_status status_of(enum status s)
{
    switch (s) {
    case STATUS_OK:
        return INGOT_OK;
    case STATUS_INVALID:
        return INGOT_INVALID;
    case STATUS_UNSUPPORTED:
        return INGOT_UNSUPPORTED;
    case STATUS_NOT_FOUND:
        return INGOT_NOT_FOUND;
    case STATUS_NO_MEMORY:
        return INGOT_NO_MEMORY;
    case STATUS_IO:
        return INGOT_IO;
    case STATUS_LIMIT:
        return INGOT_LIMIT;
    case STATUS_EXHAUSTED:
        return INGOT_BUSY;
    default:
        return INGOT_FAILED;
    }
}

static enum ingot_status give(enum status s, const struct error *err, struct ingot_error *out)
{
    if (s != STATUS_OK && out)
        snprintf(out->message, sizeof(out->message), "%s",
                 err->message[0] ? err->message : status_sentence(s));
    return status_of(s);
}

static void write_log(void *user, enum log_level level, struct str line)
{
    const struct ingot_engine *e = user;
    (void)level;
    e->options.log(e->options.user, line.ptr, line.len);
}

static void report_progress(void *user, int64_t done, int64_t all)
{
    const struct ingot_engine *e = user;
    e->options.progress(e->options.user, done, all);
}

enum ingot_status ingot_engine_new(const struct ingot_engine_options *o,
                                   struct ingot_engine **engine, struct ingot_error *error)
{
    struct error err = { 0 };
    struct ingot_engine *e = mem_new(struct ingot_engine);
    if (o)
        e->options = *o;
    e->log = (struct log_sink){ .write = e->options.log ? write_log : NULL, .user = e,
                                .level = LOG_INFO };
    struct engine_options options = {
        .device = e->options.device, .n_threads = e->options.threads,
        .context = e->options.context, .max_requests = e->options.max_requests,
        .exact = e->options.exact, .deterministic = e->options.deterministic,
        .tokenizer_path = e->options.tokenizer, .chat_template = e->options.chat_template,
        .progress = e->options.progress ? report_progress : NULL, .progress_user = e,
        .log = &e->log,
    };
    enum status status = engine_new(&options, &e->engine, &err);
    if (status == STATUS_OK)
        *engine = e;
    else
        mem_free(e);
    return give(status, &err, error);
}

void ingot_engine_free(struct ingot_engine *e)
{
    if (!e)
        return;
    engine_free(e->engine);
    while (e->models) {
        struct ingot_model *m = e->models;
        e->models = m->next;
        mem_free(m);
    }
    mem_free(e);
}

enum ingot_status ingot_load(struct ingot_engine *e, const char *path, struct ingot_model **model,
                             struct ingot_error *error)
{
    struct error err = { 0 };
    struct engine_model *loaded;
    enum status status = engine_load(e->engine, path, &loaded, &err);
    if (status == STATUS_OK) {
        struct ingot_model *m = mem_new(struct ingot_model);
        *m = (struct ingot_model){ e, loaded, e->models };
        e->models = m;
        *model = m;
    }
    return give(status, &err, error);
}

const char *ingot_model_name(const struct ingot_model *m)
{
    return engine_model_info(m->model)->name;
}

int32_t ingot_model_context(const struct ingot_model *m)
{
    return engine_model_info(m->model)->context;
}

int32_t ingot_model_vocabulary(const struct ingot_model *m)
{
    return engine_model_info(m->model)->n_vocab;
}

void ingot_free(void *block)
{
    mem_free(block);
}

static enum ingot_status give_ids(enum status status, struct token_list *list, int32_t **ids,
                                  size_t *n_ids, const struct error *err,
                                  struct ingot_error *error)
{
    if (status == STATUS_OK) {
        *ids = list->ids;
        *n_ids = list->n;
    } else {
        token_list_release(list);
    }
    return give(status, err, error);
}

enum ingot_status ingot_tokenize(const struct ingot_model *m, const char *text, size_t n,
                                 bool add_special, bool parse_special, int32_t **ids,
                                 size_t *n_ids, struct ingot_error *error)
{
    struct error err = { 0 };
    struct token_list list = { 0 };
    unsigned flags = (add_special ? TOKENIZER_ADD_SPECIAL : 0u) |
                     (parse_special ? TOKENIZER_PARSE_SPECIAL : 0u);
    enum status status = tokenizer_encode(engine_model_info(m->model)->tokenizer,
                                          (struct str){ text, n }, flags, &list, &err);
    return give_ids(status, &list, ids, n_ids, &err, error);
}

enum ingot_status ingot_detokenize(const struct ingot_model *m, const int32_t *ids, size_t n_ids,
                                   char **text, size_t *n, struct ingot_error *error)
{
    struct error err = { 0 };
    struct strbuf out;
    strbuf_init(&out, TEXT_MAX_BYTES);
    enum status status = tokenizer_decode(engine_model_info(m->model)->tokenizer, ids, n_ids,
                                          &out, &err);
    if (status == STATUS_OK) {
        *n = out.len;
        strbuf_append(&out, "", 0);
        *text = out.ptr ? strbuf_detach(&out) : mem_string("", 0);
    }
    strbuf_release(&out);
    return give(status, &err, error);
}

static enum status render(const struct engine_model_info *info, json_t *request,
                          struct token_list *list, struct error *err)
{
    struct jinja_output text = { 0 };
    enum status status = chat_template_render(info->chat, request, jinja_now(), &text, err);
    if (status == STATUS_OK)
        status = tokenizer_encode_spans(info->tokenizer, (struct str){ text.text, text.len },
                                        text.spans, text.n_spans, TOKENIZER_ADD_SPECIAL, list,
                                        err);
    jinja_output_release(&text);
    return status;
}

enum ingot_status ingot_chat_prompt(const struct ingot_model *m, const char *json, int32_t **ids,
                                    size_t *n_ids, struct ingot_error *error)
{
    struct error err = { 0 };
    struct token_list list = { 0 };
    json_t *request = NULL;
    enum status status = json_parse(str_of(json), 0, &request, &err);
    if (status == STATUS_OK && json_is_array(request))
        request = json_pack("{s:o}", "messages", request);
    if (status == STATUS_OK)
        status = render(engine_model_info(m->model), request, &list, &err);
    json_decref(request);
    return give_ids(status, &list, ids, n_ids, &err, error);
}

void ingot_defaults(const struct ingot_model *m, struct ingot_request_options *o)
{
    const struct engine_model_info *info = engine_model_info(m->model);
    *o = (struct ingot_request_options){ .seed = -1, .max_tokens = info->default_max_tokens };
#define COPY_DEFAULT(name, type, value, low, high) o->name = info->defaults.name;
    SAMPLING_FIELDS(COPY_DEFAULT)
#undef COPY_DEFAULT
}

static enum status check_sampling(const struct sampling *s, struct error *err)
{
#define CHECK_RANGE(name, type, value, low, high)                                              \
    if (!(s->name >= (low) && s->name <= (high)))                                              \
        return error_set(err, STATUS_INVALID, #name ": expected %g to %g, found %g",           \
                         (double)(low), (double)(high), (double)s->name);
    SAMPLING_FIELDS(CHECK_RANGE)
#undef CHECK_RANGE
    return STATUS_OK;
}

enum ingot_status ingot_submit(struct ingot_model *m, const int32_t *ids, size_t n,
                               const struct ingot_request_options *options,
                               struct ingot_request **request, struct ingot_error *error)
{
    struct error err = { 0 };
    struct ingot_request_options o;
    ingot_defaults(m, &o);
    if (options)
        o = *options;
    struct str *stop = mem_array(struct str, (size_t)MAX(o.n_stop, 0) + 1);
    for (int32_t i = 0; i < o.n_stop; i++)
        stop[i] = str_of(o.stop[i]);
    struct request_options r = {
        .model = m->model, .tokens = ids, .n_tokens = n > INT32_MAX ? INT32_MAX : (int32_t)n,
        .sampling = sampling_builtin, .max_tokens = o.max_tokens, .min_tokens = o.min_tokens,
        .ignore_eos = o.ignore_eos, .stop = stop, .n_stop = o.n_stop, .n_logprobs = -1,
        .notify = o.notify, .notify_user = o.user,
    };
#define COPY_SETTING(name, type, value, low, high) r.sampling.name = o.name;
    SAMPLING_FIELDS(COPY_SETTING)
#undef COPY_SETTING
    r.sampling.has_seed = o.seed >= 0;
    r.sampling.seed = o.seed >= 0 ? (uint64_t)o.seed : 0;
    struct request *submitted = NULL;
    enum status status = check_sampling(&r.sampling, &err);
    if (status == STATUS_OK)
        status = engine_submit(m->owner->engine, &r, &submitted, &err);
    mem_free(stop);
    if (status == STATUS_OK) {
        *request = mem_new(struct ingot_request);
        (*request)->request = submitted;
    }
    return give(status, &err, error);
}

/* Prompt echoes are never asked for here. */
static void convert(struct ingot_request *r, const struct event *e, struct ingot_event *out)
{
    static const enum ingot_finish finishes[] = {
        [FINISH_STOP] = INGOT_FINISH_STOP, [FINISH_LENGTH] = INGOT_FINISH_LENGTH,
        [FINISH_CANCELLED] = INGOT_FINISH_CANCELLED, [FINISH_ERROR] = INGOT_FINISH_ERROR,
    };
    *out = (struct ingot_event){ .token = e->token, .text = "", .prompt_tokens = e->prompt_done };
    out->kind = e->kind == EVENT_DONE    ? INGOT_DONE
                : e->kind == EVENT_TOKEN ? INGOT_TOKEN
                                         : INGOT_PROGRESS;
    if (e->kind == EVENT_TOKEN && e->text.len > 0) {
        out->text = e->text.ptr;
        out->n = e->text.len;
    }
    if (e->kind != EVENT_DONE)
        return;
    out->finish = finishes[e->finish];
    out->prompt_tokens = e->usage.prompt_tokens;
    out->answer_tokens = e->usage.completion_tokens;
    out->prompt_ms = e->usage.prompt_ms;
    out->answer_ms = e->usage.decode_ms;
    if (e->finish == FINISH_ERROR) {
        r->error = e->error;
        out->error = r->error.message;
    }
}

bool ingot_wait(struct ingot_request *r, struct ingot_event *event)
{
    struct event e;
    if (!request_wait(r->request, &e))
        return false;
    convert(r, &e, event);
    return true;
}

bool ingot_next(struct ingot_request *r, struct ingot_event *event)
{
    struct event e;
    if (!request_next(r->request, &e))
        return false;
    convert(r, &e, event);
    return true;
}

void ingot_cancel(struct ingot_request *r)
{
    request_cancel(r->request);
}

void ingot_request_free(struct ingot_request *r)
{
    if (!r)
        return;
    request_drop(r->request);
    mem_free(r);
}
