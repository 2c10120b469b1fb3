/* What a template can do, found by rendering small conversations and looking for marks. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "text/template/chat_template_internal.h"

#define PROBE_NOW 1741529107 /* any fixed time: probes must not depend on the clock */

/* Renders the variables (taken over); an empty text when the template fails. */
static char *probe(const struct chat_template *t, json_t *variables)
{
    struct jinja_output out;
    struct error err;
    CHECK(variables);
    enum status status = chat_render_raw(t, variables, PROBE_NOW, &out, &err);
    char *text = status == STATUS_OK ? mem_string(out.text, out.len) : mem_string("", 0);
    jinja_output_release(&out);
    json_decref(variables);
    return text;
}

static bool has(const char *text, const char *mark)
{
    return strstr(text, mark) != NULL;
}

/* Whether the rendering holds the mark and not the other text (NULL: none). */
static bool shows(const struct chat_template *t, json_t *variables, const char *mark,
                  const char *unwanted)
{
    char *text = probe(t, variables);
    bool found = has(text, mark) && !(unwanted && has(text, unwanted));
    mem_free(text);
    return found;
}

/* Takes over the messages. */
static json_t *conversation(json_t *messages)
{
    return json_pack("{s:o, s:b}", "messages", messages, "add_generation_prompt", 1);
}

static json_t *user(const char *text)
{
    return json_pack("{s:s, s:s}", "role", "user", "content", text);
}

static json_t *message(const char *role, const char *text)
{
    return json_pack("{s:s, s:s}", "role", role, "content", text);
}

static void probe_content(struct chat_template *t)
{
    static const char mark[] = "zqUser";
    char *plain = probe(t, conversation(json_pack("[o]", user("  zqUser  "))));
    bool text = has(plain, mark);
    t->caps.strips_content = text && !has(plain, "  zqUser  ");
    const char *bos = t->tokens[CHAT_BOS];
    t->caps.prints_bos = bos && strncmp(plain, bos, strlen(bos)) == 0;
    mem_free(plain);
    json_t *parts = json_pack("[{s:s, s:[{s:s, s:s}]}]", "role", "user", "content", "type", "text",
                              "text", mark);
    char *shown = probe(t, conversation(parts));
    /* A list that is printed as a value is not handled. */
    t->caps.handles_parts = has(shown, mark) && !has(shown, "'type'") && !has(shown, "\"type\"");
    mem_free(shown);
    t->wants_parts = !text && t->caps.handles_parts;
    char *twice = probe(t, conversation(json_pack("[o, o]", user("zqOne"), user("zqTwo"))));
    t->wants_alternation = !has(twice, "zqTwo");
    mem_free(twice);
}

static void probe_roles(struct chat_template *t)
{
    t->caps.supports_system_role =
        shows(t, conversation(json_pack("[o, o]", message("system", "zqRule"), user("hi"))),
              "zqRule", NULL);
    json_t *late = json_pack("[o, o, o, o]", user("hi"), message("assistant", "ho"),
                             message("system", "zqRule"), user("zqEnd"));
    json_t *between = json_pack("[o, o, o]", user("hi"), message("system", "zqRule"),
                                user("zqEnd"));
    t->caps.supports_late_system = shows(t, conversation(late), "zqRule", NULL);
    t->caps.supports_late_system = shows(t, conversation(between), "zqRule", NULL) &&
                                   t->caps.supports_late_system;
    /* Many templates print any role; only those that name this one were trained with it. */
    t->caps.supports_developer_role =
        str_find(t->source, STR("developer"), 0) != STR_NONE &&
        shows(t, conversation(json_pack("[o, o]", message("developer", "zqRule"), user("hi"))),
              "zqRule", NULL);
}

/* --- tools ---------------------------------------------------------------------------------- */

static json_t *tool_list(void)
{
    return json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}}, s:[s]}}}]", "type", "function",
                     "function", "name", "zqTool", "description", "zqText", "parameters", "type",
                     "object", "properties", "zqKey", "type", "string", "description", "zqHint",
                     "required", "zqKey");
}

/* Takes over the arguments. */
static json_t *call(const char *id, const char *name, json_t *arguments)
{
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", arguments);
}

static json_t *object_arguments(const char *value)
{
    return json_pack("{s:s}", "zqName", value);
}

static json_t *text_arguments(const char *value)
{
    json_t *object = object_arguments(value);
    struct strbuf text;
    strbuf_init(&text, 1024);
    json_write(&text, object);
    json_t *arguments = json_stringn(text.ptr, text.len);
    json_decref(object);
    strbuf_release(&text);
    return arguments;
}

/* A user's turn, the calls (taken over), and the result of the first. */
static json_t *calling(json_t *calls, json_t *content)
{
    const char *id = json_string_value(json_object_get(json_array_get(calls, 0), "id"));
    json_t *result = json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "content", "zqResult",
                               "name", "zqTool", "tool_call_id", id);
    json_t *turn = json_pack("{s:s, s:o, s:o}", "role", "assistant", "content", content,
                             "tool_calls", calls);
    json_t *variables = conversation(json_pack("[o, o, o]", user("hi"), turn, result));
    json_object_set_new(variables, "tools", tool_list());
    return variables;
}

static const char *probe_id(const struct chat_template *t)
{
    return t->wants_short_ids ? "callzq001" : "call_00001";
}

static json_t *one_call(const struct chat_template *t, json_t *arguments, json_t *content)
{
    json_t *calls = json_pack("[o]", call(probe_id(t), "zqTool", arguments));
    return calling(calls, content);
}

static void probe_arguments(struct chat_template *t)
{
    char *object = probe(t, one_call(t, object_arguments("zqValue"), json_string("")));
    if (!has(object, "zqValue")) {
        t->wants_short_ids = true;
        mem_free(object);
        object = probe(t, one_call(t, object_arguments("zqValue"), json_string("")));
        t->wants_short_ids = has(object, "zqValue");
    }
    char *text = probe(t, one_call(t, text_arguments("zqValue"), json_string("")));
    /* Printed as Python prints a dict: the template expected text. */
    bool object_works = has(object, "zqValue") && !has(object, "'zqName'");
    bool text_works = has(text, "\"zqName\"") && !has(text, "\\\"zqName");
    t->caps.supports_tool_calls = object_works || text_works;
    t->caps.wants_object_arguments = object_works;
    t->wants_text_arguments = text_works && !object_works;
    t->fails_on_text_arguments = text[0] == 0;
    t->caps.supports_tool_role = has(object_works ? object : text, "zqResult");
    mem_free(object);
    mem_free(text);
}

static json_t *some_arguments(const struct chat_template *t, const char *value)
{
    return t->wants_text_arguments ? text_arguments(value) : object_arguments(value);
}

static void probe_tools(struct chat_template *t)
{
    json_t *with_tools = conversation(json_pack("[o]", user("hi")));
    json_object_set_new(with_tools, "tools", tool_list());
    t->caps.supports_tools = shows(t, with_tools, "zqTool", NULL);
    probe_arguments(t);
    json_t *calls = json_pack("[o, o]", call(probe_id(t), "zqTool", some_arguments(t, "zqValue")),
                              call("callzq002", "zqTool", some_arguments(t, "zqSecond")));
    t->caps.supports_parallel_calls = shows(t, calling(calls, json_string("")), "zqSecond", NULL);
    json_t *null_content = t->caps.supports_tool_calls
                               ? one_call(t, some_arguments(t, "zqValue"), json_null())
                               : conversation(json_pack("[o, {s:s, s:n}, o]", user("hi"), "role",
                                                        "assistant", "content", user("zqEnd")));
    const char *mark = t->caps.supports_tool_calls ? "zqValue" : "zqEnd";
    t->caps.wants_empty_content = !shows(t, null_content, mark, "None");
}

/* --- reasoning ------------------------------------------------------------------------------ */

static json_t *reasoned(const char *content)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "role", "assistant", "content", content,
                     "reasoning_content", "zqWhy", "thinking", "zqWhy", "reasoning", "zqWhy");
}

static bool differs(const struct chat_template *t, const char *key, json_t *a, json_t *b)
{
    json_t *first = conversation(json_pack("[o]", user("hi"))), *second = json_deep_copy(first);
    json_object_set_new(first, key, a);
    json_object_set_new(second, key, b);
    char *one = probe(t, first), *two = probe(t, second);
    bool different = strcmp(one, two) != 0;
    mem_free(one);
    mem_free(two);
    return different;
}

static void probe_reasoning(struct chat_template *t)
{
    json_t *turn = reasoned("");
    json_object_set_new(turn, "tool_calls",
                        json_pack("[o]", call(probe_id(t), "zqTool",
                                              some_arguments(t, "zqValue"))));
    json_t *result = json_pack("{s:s, s:s, s:s}", "role", "tool", "content", "zqResult",
                               "tool_call_id", probe_id(t));
    json_t *last = conversation(json_pack("[o, o, o]", user("hi"), turn, result));
    bool after_call = shows(t, last, "zqWhy", NULL);
    json_t *end = conversation(json_pack("[o, o]", user("hi"), reasoned("zqSaid")));
    json_object_set_new(end, "add_generation_prompt", json_false());
    t->caps.renders_reasoning = shows(t, end, "zqWhy", NULL) || after_call;
    json_t *earlier = json_pack("[o, o, o]", user("hi"), reasoned("zqSaid"), user("and?"));
    t->caps.keeps_reasoning = shows(t, conversation(earlier), "zqWhy", NULL);
    t->caps.supports_thinking_switch = differs(t, "enable_thinking", json_true(), json_false());
    t->caps.supports_effort = differs(t, "reasoning_effort", json_string("low"),
                                      json_string("high"));
}

void chat_probe(struct chat_template *t)
{
    probe_content(t);
    probe_roles(t);
    probe_tools(t);
    probe_reasoning(t);
}
