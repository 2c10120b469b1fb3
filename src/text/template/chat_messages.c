/* Conversations as clients send them, repaired to what the template at hand can read. A message
 * that needs no repair is shared with the request, a repaired one is a copy. */
#include <stdio.h>

#include "base/json.h"
#include "text/template/chat_template_internal.h"

/* jansson takes no const, and sharing only counts a reference. */
static json_t *share(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

static bool is_text_type(const char *type)
{
    return strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
           strcmp(type, "output_text") == 0;
}

/* The text of a part; NULL: it is none. */
static const json_t *part_text(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (json_is_string(part))
        return part;
    if (type && strcmp(type, "refusal") == 0)
        return json_object_get(part, "refusal");
    const json_t *text = json_object_get(part, "text");
    return json_is_string(text) && (!type || is_text_type(type)) ? text : NULL;
}

static json_t *text_part(const json_t *text)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", share(text));
}

static json_t *string_of(const struct strbuf *b)
{
    return json_stringn(b->len ? b->ptr : "", b->len);
}

/* --- content -------------------------------------------------------------------------------- */

/* All parts as one text, a line for each; INVALID at a part that is no text. */
static enum status join_parts(const json_t *parts, size_t message, json_t **out, struct error *err)
{
    struct strbuf b;
    enum status status = STATUS_OK;
    strbuf_init(&b, JINJA_MAX_OUTPUT_BYTES);
    for (size_t i = 0; i < json_array_size(parts) && status == STATUS_OK; i++) {
        const json_t *part = json_array_get(parts, i), *text = part_text(part);
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!text)
            status = error_set(err, STATUS_INVALID,
                               "messages[%zu].content[%zu]: the model's chat template takes text "
                               "only, found a part of type '%s'",
                               message, i, type ? type : "(none)");
        if (text && i)
            strbuf_putc(&b, '\n');
        strbuf_add(&b, json_str(text));
    }
    if (b.overflow)
        status = error_set(err, STATUS_LIMIT, "messages[%zu].content: longer than %u MiB", message,
                           JINJA_MAX_OUTPUT_BYTES >> 20);
    *out = status == STATUS_OK ? string_of(&b) : NULL;
    strbuf_release(&b);
    return status;
}

/* Text parts under the name that templates know; all others as they are. */
static json_t *plain_parts(const json_t *parts)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = part_text(part);
        json_array_append_new(out, text ? text_part(text) : share(part));
    }
    return out;
}

static enum status repair_content(const struct chat_template *t, json_t *message, size_t index,
                                  struct error *err)
{
    const json_t *content = json_object_get(message, "content");
    json_t *repaired;
    if (!content || json_is_null(content)) {
        json_object_set_new(message, "content",
                            t->caps.wants_empty_content ? json_string("") : json_null());
    } else if (json_is_array(content)) {
        if (t->caps.handles_parts)
            repaired = plain_parts(content);
        else
            TRY(join_parts(content, index, &repaired, err));
        json_object_set_new(message, "content", repaired);
    } else if (json_is_string(content) && t->wants_parts) {
        json_object_set_new(message, "content", json_pack("[o]", text_part(content)));
    } else if (!json_is_string(content) && !json_is_object(content)) {
        return error_set(err, STATUS_INVALID,
                         "messages[%zu].content: expected text, a list of parts or null", index);
    }
    return STATUS_OK;
}

/* --- tool calls ----------------------------------------------------------------------------- */

static json_t *parsed_arguments(const struct chat_template *t, const json_t *text)
{
    struct error err;
    json_t *object = NULL;
    if (json_parse(json_str(text), 0, &object, &err) == STATUS_OK && json_is_object(object))
        return object;
    json_decref(object);
    /* Half a call must not make the whole conversation unusable. */
    return t->fails_on_text_arguments ? json_pack("{s:o}", "arguments", share(text)) : share(text);
}

static json_t *printed_arguments(const json_t *object)
{
    struct strbuf b;
    strbuf_init(&b, JINJA_MAX_OUTPUT_BYTES);
    json_write(&b, object);
    json_t *text = string_of(&b);
    strbuf_release(&b);
    return text;
}

/* Nine letters and digits that stand for the id; the same for the same id. */
static json_t *short_id(const json_t *id)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    struct str s = json_str(id);
    bool fits = s.len == 9;
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < s.len; i++) {
        fits = fits && s.ptr[i] && strchr(digits, s.ptr[i]);
        hash = (hash ^ (unsigned char)s.ptr[i]) * 0x100000001B3u;
    }
    if (fits)
        return share(id);
    char text[9];
    for (int i = 0; i < 9; i++, hash /= 62)
        text[i] = digits[hash % 62];
    return json_stringn(text, sizeof text);
}

static void repair_id(const struct chat_template *t, json_t *object, const char *key)
{
    const json_t *id = json_object_get(object, key);
    if (t->wants_short_ids && json_is_string(id))
        json_object_set_new(object, key, short_id(id));
}

static json_t *repair_call(const struct chat_template *t, const json_t *call)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)call);
    json_t *function = json_copy(json_object_get(copy, "function"));
    const json_t *arguments = json_object_get(function, "arguments");
    repair_id(t, copy, "id");
    if (json_is_string(arguments) && t->caps.wants_object_arguments)
        json_object_set_new(function, "arguments", parsed_arguments(t, arguments));
    else if (json_is_object(arguments) && t->wants_text_arguments)
        json_object_set_new(function, "arguments", printed_arguments(arguments));
    else if (json_is_object(function) && (!arguments || json_is_null(arguments)))
        json_object_set_new(function, "arguments",
                            t->wants_text_arguments ? json_string("{}") : json_object());
    if (function)
        json_object_set_new(copy, "function", function);
    return copy;
}

static enum status repair_calls(const struct chat_template *t, json_t *message, size_t index,
                                struct error *err)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    if (!calls)
        return STATUS_OK;
    if (json_is_null(calls) || (json_is_array(calls) && json_array_size(calls) == 0)) {
        (void)json_object_del(message, "tool_calls");
        return STATUS_OK;
    }
    if (!json_is_array(calls))
        return error_set(err, STATUS_INVALID, "messages[%zu].tool_calls: expected a list", index);
    json_t *repaired = json_array();
    json_object_set_new(message, "tool_calls", repaired);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        if (!json_is_object(call))
            return error_set(err, STATUS_INVALID,
                             "messages[%zu].tool_calls[%zu]: expected an object", index, i);
        json_array_append_new(repaired, repair_call(t, call));
    }
    return STATUS_OK;
}

/* --- one message ---------------------------------------------------------------------------- */

static void copy_reasoning(json_t *message)
{
    static const char *const names[] = { "reasoning_content", "reasoning", "thinking" };
    const json_t *text = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(names) && !text; i++)
        if (json_is_string(json_object_get(message, names[i])))
            text = json_object_get(message, names[i]);
    for (size_t i = 0; i < ARRAY_SIZE(names) && text; i++)
        if (!json_is_string(json_object_get(message, names[i])))
            json_object_set_new(message, names[i], share(text));
}

/* Role and text, and nothing else: the usual message, which is shared as it is. */
static bool is_plain(const struct chat_template *t, const json_t *message, const char *role)
{
    return json_object_size(message) == 2 &&
           json_is_string(json_object_get(message, "content")) && !t->wants_parts &&
           strcmp(role, "developer") != 0 && strcmp(role, "function") != 0;
}

static enum status repair_message(const struct chat_template *t, const json_t *message,
                                  size_t index, json_t **out, struct error *err)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!json_is_object(message) || !role)
        return error_set(err, STATUS_INVALID, "messages[%zu]: expected an object with a role",
                         index);
    if (is_plain(t, message, role)) {
        *out = share(message);
        return STATUS_OK;
    }
    json_t *copy = json_copy((json_t *)(uintptr_t)message);
    if (strcmp(role, "developer") == 0 && !t->caps.supports_developer_role)
        json_object_set_new(copy, "role", json_string("system"));
    if (strcmp(role, "function") == 0)
        json_object_set_new(copy, "role", json_string("tool"));
    enum status status = repair_content(t, copy, index, err);
    /* The old list belongs to the request, so that it outlives its replacement. */
    if (status == STATUS_OK)
        status = repair_calls(t, copy, index, err);
    repair_id(t, copy, "tool_call_id");
    copy_reasoning(copy);
    *out = copy;
    return status;
}

/* --- system messages ------------------------------------------------------------------------ */

static bool has_role(const json_t *message, const char *role)
{
    const char *found = json_string_value(json_object_get(message, "role"));
    return found && strcmp(found, role) == 0;
}

static bool is_instruction(const json_t *message)
{
    return has_role(message, "system") || has_role(message, "developer");
}

static bool is_blank(const json_t *content)
{
    return !content || json_is_null(content) ||
           (json_is_string(content) && !json_string_length(content)) ||
           (json_is_array(content) && !json_array_size(content));
}

/* first, a blank line, second: as text, or as parts if one of them is a list. */
static json_t *join_contents(const json_t *first, const json_t *second)
{
    if (is_blank(first) || is_blank(second))
        return is_blank(second) ? share(first) : share(second);
    if (json_is_string(first) && json_is_string(second)) {
        struct strbuf b;
        strbuf_init(&b, SIZE_MAX);
        strbuf_add(&b, json_str(first));
        strbuf_puts(&b, "\n\n");
        strbuf_add(&b, json_str(second));
        json_t *joined = string_of(&b);
        strbuf_release(&b);
        return joined;
    }
    json_t *parts = json_is_array(first) ? json_copy((json_t *)(uintptr_t)first)
                                         : json_pack("[o]", text_part(first));
    json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", "\n\n"));
    if (json_is_array(second))
        json_array_extend(parts, (json_t *)(uintptr_t)second);
    else
        json_array_append_new(parts, text_part(second));
    return parts;
}

/* The message with more content in front of its own (or behind it); a copy. */
static json_t *with_content(const json_t *message, const json_t *more, bool in_front)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)message);
    const json_t *own = json_object_get(message, "content");
    json_object_set_new(copy, "content",
                        in_front ? join_contents(more, own) : join_contents(own, more));
    return copy;
}

/* Leading instructions become one message. */
static json_t *join_leading(json_t *messages)
{
    json_t *out = json_array();
    size_t n = json_array_size(messages), i = 0;
    json_t *first = NULL;
    for (; i < n && is_instruction(json_array_get(messages, i)); i++) {
        json_t *next = json_array_get(messages, i);
        json_t *joined = first ? with_content(first, json_object_get(next, "content"), false)
                               : json_incref(next);
        json_decref(first);
        first = joined;
    }
    if (first)
        json_array_append_new(out, first);
    for (; i < n; i++)
        json_array_append(out, json_array_get(messages, i));
    return out;
}

/* Instructions that the template would refuse go into the next user turn, else into the user
 * turn before, else they become one. */
static json_t *fold_instructions(const struct chat_template *t, json_t *messages)
{
    json_t *out = json_array();
    size_t n = json_array_size(messages);
    for (size_t i = 0; i < n; i++) {
        json_t *message = json_array_get(messages, i);
        bool keep = i == 0 ? t->caps.supports_system_role : t->caps.supports_late_system;
        if (!is_instruction(message) || keep) {
            json_array_append(out, message);
            continue;
        }
        const json_t *content = json_object_get(message, "content");
        json_t *next = json_array_get(messages, i + 1);
        size_t n_out = json_array_size(out);
        json_t *before = n_out ? json_array_get(out, n_out - 1) : NULL;
        if (next && (has_role(next, "user") || is_instruction(next)))
            json_array_set_new(messages, i + 1, with_content(next, content, true));
        else if (before && has_role(before, "user"))
            json_array_set_new(out, n_out - 1, with_content(before, content, false));
        else
            json_array_append_new(out, json_pack("{s:s, s:o}", "role", "user", "content",
                                                 share(content)));
    }
    return out;
}

/* For templates that insist on taking turns. */
static json_t *join_user_turns(json_t *messages)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        size_t n = json_array_size(out);
        json_t *before = n ? json_array_get(out, n - 1) : NULL;
        if (before && has_role(before, "user") && has_role(message, "user"))
            json_array_set_new(out, n - 1, with_content(before, json_object_get(message, "content"),
                                                        false));
        else
            json_array_append(out, message);
    }
    return out;
}

/* Takes over `messages`. */
static json_t *arrange(const struct chat_template *t, json_t *messages)
{
    json_t *joined = join_leading(messages);
    json_decref(messages);
    json_t *folded = fold_instructions(t, joined);
    json_decref(joined);
    if (!t->wants_alternation)
        return folded;
    json_t *alternating = join_user_turns(folded);
    json_decref(folded);
    return alternating;
}

enum status chat_messages_repair(const struct chat_template *t, const json_t *messages,
                                 json_t **out, struct error *err)
{
    *out = NULL;
    if (!json_is_array(messages))
        return error_set(err, STATUS_INVALID, "messages: expected a list");
    json_t *repaired = json_array();
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = NULL;
        enum status status = repair_message(t, json_array_get(messages, i), i, &message, err);
        if (message)
            json_array_append_new(repaired, message);
        if (status != STATUS_OK) {
            json_decref(repaired);
            return status;
        }
    }
    *out = arrange(t, repaired);
    return STATUS_OK;
}
