#include "server/dialect_llama.h"

#include "base/json.h"
#include "base/utf8.h"
#include "server/request_fields.h"
#include "server/server_state.h"
#include "text/tokenizer/tokenizer.h"

static json_t *piece(const struct tokenizer *t, int32_t id)
{
    struct str bytes = tokenizer_bytes(t, id);
    if (utf8_valid(bytes))
        return json_stringn(bytes.ptr ? bytes.ptr : "", bytes.len);
    json_t *list = json_array();
    for (size_t i = 0; i < bytes.len; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes.ptr[i]));
    return list;
}

void llama_tokenize(struct exchange *x)
{
    struct error err = { 0 };
    const struct tokenizer *t = exchange_model(x)->tokenizer;
    bool add_special = false, parse_special = false, with_pieces = false;
    x->shape = ERROR_LLAMA;
    const json_t *content = field_get(x->json, "content");
    if (!content)
        content = field_get(x->json, "prompt");
    if (!json_is_string(content)) {
        exchange_error(x, 400, "content", NULL, "content: expected a string");
        return;
    }
    if (field_bool(x->json, "add_special", &add_special, &err) != STATUS_OK ||
        field_bool(x->json, "add_special_tokens", &add_special, &err) != STATUS_OK ||
        field_bool(x->json, "parse_special", &parse_special, &err) != STATUS_OK ||
        field_bool(x->json, "with_pieces", &with_pieces, &err) != STATUS_OK) {
        exchange_error(x, 400, NULL, NULL, "%s", err.message);
        return;
    }
    struct token_list ids = { 0 };
    unsigned flags =
        (add_special ? TOKENIZER_ADD_SPECIAL : 0) | (parse_special ? TOKENIZER_PARSE_SPECIAL : 0);
    if (tokenizer_encode(t, json_str(content), flags, &ids, &err) != STATUS_OK) {
        exchange_error_from(x, &err);
    } else {
        json_t *list = json_array();
        for (size_t i = 0; i < ids.n; i++)
            json_array_append_new(list, with_pieces ? json_pack("{s:i,s:o}", "id", ids.ids[i],
                                                                "piece", piece(t, ids.ids[i]))
                                                    : json_integer(ids.ids[i]));
        json_t *value = json_pack("{s:o}", "tokens", list);
        exchange_reply_json(x, 200, value);
        json_decref(value);
    }
    token_list_release(&ids);
}

void llama_detokenize(struct exchange *x)
{
    struct error err = { 0 };
    const struct engine_model_info *info = exchange_model(x);
    struct token_list ids = { 0 };
    struct strbuf text;
    strbuf_init(&text, LIMIT_REPLY_BYTES);
    x->shape = ERROR_LLAMA;
    const json_t *tokens = field_get(x->json, "tokens");
    bool good = json_is_array(tokens);
    size_t i;
    json_t *id;
    json_array_foreach(tokens, i, id)
    {
        good = good && json_is_integer(id) && json_integer_value(id) >= 0 &&
               json_integer_value(id) < info->n_vocab;
        token_list_add(&ids, good ? (int32_t)json_integer_value(id) : 0);
    }
    if (!good) {
        exchange_error(x, 400, "tokens", NULL, "tokens: expected a list of ids below %d",
                       info->n_vocab);
    } else if (tokenizer_decode(info->tokenizer, ids.ids, ids.n, &text, &err) != STATUS_OK) {
        exchange_error_from(x, &err);
    } else {
        json_t *value =
            json_pack("{s:o}", "content", json_stringn(text.ptr ? text.ptr : "", text.len));
        exchange_reply_json(x, 200, value);
        json_decref(value);
    }
    strbuf_release(&text);
    token_list_release(&ids);
}
