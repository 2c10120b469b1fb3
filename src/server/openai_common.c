#include "server/openai_common.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "server/server_state.h"

/* JSON has no infinities: a forbidden token gets the smallest number that OpenAI prints. */
#define SMALLEST_LOGPROB -9999.0

bool openai_read_fields(struct exchange *x, struct generation *g)
{
    struct error err = { 0 };
    int32_t n_vocab = exchange_model(x)->n_vocab;
    if (request_fields_read(x->json, strbuf_str(&x->body), n_vocab, &g->fields, &err) == STATUS_OK)
        return true;
    exchange_error(x, 400, g->fields.param[0] ? g->fields.param : NULL, NULL, "%s", err.message);
    return false;
}

json_t *openai_text(struct str utf8)
{
    return json_stringn(utf8.ptr ? utf8.ptr : "", utf8.len);
}

json_t *openai_token_text(const struct exchange *x, int32_t token)
{
    struct strbuf text;
    strbuf_init(&text, 1u << 16);
    utf8_repair(&text, tokenizer_bytes(exchange_model(x)->tokenizer, token));
    json_t *value = openai_text(strbuf_str(&text));
    strbuf_release(&text);
    return value;
}

static json_t *entry(const struct exchange *x, const struct token_probability *p)
{
    struct str raw = tokenizer_bytes(exchange_model(x)->tokenizer, p->token);
    json_t *bytes = json_array();
    for (size_t i = 0; i < raw.len; i++)
        json_array_append_new(bytes, json_integer((unsigned char)raw.ptr[i]));
    double logprob = isfinite(p->logprob) ? (double)p->logprob : SMALLEST_LOGPROB;
    return json_pack("{s:o,s:f,s:o}", "token", openai_token_text(x, p->token), "logprob", logprob,
                     "bytes", bytes);
}

json_t *openai_logprob(const struct exchange *x, const struct event *e)
{
    json_t *own = entry(x, &e->drawn), *top = json_array();
    for (int32_t i = 0; i < e->n_top; i++)
        json_array_append_new(top, entry(x, &e->top[i]));
    json_object_set_new(own, "top_logprobs", top);
    return own;
}
