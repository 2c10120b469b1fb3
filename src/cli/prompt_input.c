#include "cli/prompt_input.h"

#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "base/utf8.h"
#include "text/template/chat_template.h"

#define MAX_INPUT_BYTES (256u << 20)

enum status prompt_read_text(const char *path, struct strbuf *out, struct error *err)
{
    struct strbuf raw;
    strbuf_init(&raw, MAX_INPUT_BYTES);
    enum status status = file_read(path, MAX_INPUT_BYTES, &raw, err);
    if (status == STATUS_OK)
        utf8_repair(out, strbuf_str(&raw));
    strbuf_release(&raw);
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static enum status parse_ids(const char *path, struct str text, struct token_list *out,
                             struct error *err)
{
    for (size_t i = 0; i < text.len;) {
        if (is_blank(text.ptr[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < text.len && !is_blank(text.ptr[end]))
            end++;
        int64_t id;
        struct str word = str_slice(text, i, end);
        if (!number_parse_i64(word, &id) || id < 0 || id > INT32_MAX)
            return error_set(err, STATUS_INVALID, "%s: expected a token id, found '%.*s'", path,
                             (int)(word.len < 40 ? word.len : 40), word.ptr);
        token_list_add(out, (int32_t)id);
        i = end;
    }
    return out->n > 0 ? STATUS_OK : error_set(err, STATUS_INVALID, "%s: no token ids", path);
}

enum status prompt_read_ids(const char *path, struct token_list *out, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, MAX_INPUT_BYTES);
    enum status status = file_read(path, MAX_INPUT_BYTES, &text, err);
    if (status == STATUS_OK)
        status = parse_ids(path, strbuf_str(&text), out, err);
    strbuf_release(&text);
    return status;
}

static void add_message(json_t *messages, const char *role, struct str text)
{
    json_t *m = json_object();
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", json_stringn(text.ptr ? text.ptr : "", text.len));
    json_array_append_new(messages, m);
}

enum status prompt_take_kwargs(const struct options *o, json_t *request, struct error *err)
{
    if (options_given(o, "enable-thinking"))
        json_object_set_new(request, "enable_thinking",
                            json_boolean(options_flag(o, "enable-thinking")));
    const char *text = options_text(o, "chat-template-kwargs");
    if (!text)
        return STATUS_OK;
    json_t *kwargs;
    TRY(json_parse(str_of(text), 0, &kwargs, err));
    bool good = json_is_object(kwargs);
    if (good)
        json_object_update_missing(request, kwargs);
    json_decref(kwargs);
    return good ? STATUS_OK : error_set(err, STATUS_INVALID,
                                        "--chat-template-kwargs: expected a JSON object");
}

enum status prompt_read_messages(const char *path, json_t **out, struct error *err)
{
    json_t *value;
    TRY(json_parse_file(path, MAX_INPUT_BYTES, 0, &value, err));
    if (json_is_array(value))
        value = json_pack("{s:o}", "messages", value);
    if (json_is_object(value) && json_is_array(json_object_get(value, "messages"))) {
        *out = value;
        return STATUS_OK;
    }
    json_decref(value);
    return error_set(err, STATUS_INVALID, "%s: expected an array of messages or an object with "
                     "the member messages", path);
}

enum status prompt_conversation(const struct options *o, struct str text,
                                const char *messages_path, json_t **out, struct error *err)
{
    json_t *request = NULL;
    const char *system = options_text(o, "system");
    if (messages_path) {
        TRY(prompt_read_messages(messages_path, &request, err));
        if (system)
            json_array_insert_new(json_object_get(request, "messages"), 0,
                                  json_pack("{s:s, s:s}", "role", "system", "content", system));
    } else {
        request = json_pack("{s:[]}", "messages");
        json_t *messages = json_object_get(request, "messages");
        if (system)
            add_message(messages, "system", str_of(system));
        add_message(messages, "user", text);
    }
    enum status status = prompt_take_kwargs(o, request, err);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    *out = request;
    return STATUS_OK;
}
