/* What the chat-template layer finds out about templates, and how it repairs conversations. */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "text/template/chat_template.h"

static const struct chat_template_tokens tokens = {
    .bos = { "<s>", 3 }, .eos = { "</s>", 4 }
};

static struct chat_template *load(const char *source)
{
    struct chat_template *t;
    struct error err = { 0 };
    if (chat_template_new(str_of(source), &tokens, &t, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return t;
}

static struct chat_template *load_file(const char *name)
{
    struct strbuf source;
    struct error err;
    char path[200];
    strbuf_init(&source, 1 << 20);
    snprintf(path, sizeof path, "tests/data/jinja/templates/%s.jinja", name);
    assert_int_equal(file_read(path, 1 << 20, &source, &err), STATUS_OK);
    struct chat_template *t = load(source.ptr);
    strbuf_release(&source);
    return t;
}

static void renders(const struct chat_template *t, const char *request, const char *expected)
{
    struct jinja_output out;
    struct error err = { 0 };
    json_t *j = json_loads(request, 0, NULL);
    assert_non_null(j);
    char *before = json_dumps(j, 0);
    if (chat_template_render(t, j, 0, &out, &err) != STATUS_OK)
        fail_msg("%s: %s", request, err.message);
    assert_string_equal(out.text, expected);
    char *after = json_dumps(j, 0);
    assert_string_equal(before, after); /* the request is not changed */
    free(before);
    free(after);
    jinja_output_release(&out);
    json_decref(j);
}

static void refuses(const struct chat_template *t, const char *request,
                    enum jinja_failure failure, const char *part)
{
    struct jinja_output out;
    struct error err = { 0 };
    json_t *j = json_loads(request, 0, NULL);
    assert_non_null(j);
    assert_int_not_equal(chat_template_render(t, j, 0, &out, &err), STATUS_OK);
    assert_int_equal(out.failure, failure);
    if (!strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
    jinja_output_release(&out);
    json_decref(j);
}

/* Turns only, with an optional refusal of system messages that are not first. */
#define TURNS(checks)                                                                        \
    "{{ bos_token }}{% for m in messages %}" checks "[{{ m.role }}]{{ m.content }}{% endfor %}" \
    "{% if add_generation_prompt %}[go]{% endif %}"
#define FIRST_ONLY                                              \
    "{% if m.role == 'system' and not loop.first %}"             \
    "{{ raise_exception('System message must be at the beginning') }}{% endif %}"
#define NO_SYSTEM \
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
#define ALTERNATE                                                      \
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"             \
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"

static void system_messages(void **state)
{
    (void)state;
    struct chat_template *t = load(TURNS(FIRST_ONLY));
    assert_true(chat_template_caps(t)->supports_system_role);
    assert_false(chat_template_caps(t)->supports_late_system);
    assert_false(chat_template_caps(t)->supports_developer_role);
    renders(t, "{\"messages\":[{\"role\":\"system\",\"content\":\"A\"},{\"role\":\"developer\","
               "\"content\":\"B\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
            "<s>[system]A\n\nB[user]hi[go]");
    renders(t, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"system\","
               "\"content\":\"note\"},{\"role\":\"user\",\"content\":\"x\"}]}",
            "<s>[user]hi[user]note\n\nx[go]");
    renders(t, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"system\","
               "\"content\":\"1\"},{\"role\":\"developer\",\"content\":\"2\"},{\"role\":\"user\","
               "\"content\":\"x\"}]}",
            "<s>[user]hi[user]1\n\n2\n\nx[go]");
    renders(t, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"system\","
               "\"content\":\"note\"}]}",
            "<s>[user]hi\n\nnote[go]");
    renders(t, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"system\","
               "\"content\":\"note\"},{\"role\":\"assistant\",\"content\":\"b\"}]}",
            "<s>[assistant]a[user]note[assistant]b[go]");
    chat_template_free(t);

    t = load(TURNS(""));
    renders(t, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"system\","
               "\"content\":\"note\"}],\"add_generation_prompt\":false}",
            "<s>[user]hi[system]note");
    chat_template_free(t);

    t = load(TURNS(NO_SYSTEM ALTERNATE));
    assert_false(chat_template_caps(t)->supports_system_role);
    renders(t, "{\"messages\":[{\"role\":\"system\",\"content\":\"A\"},{\"role\":\"user\","
               "\"content\":\"hi\"},{\"role\":\"system\",\"content\":\"B\"},{\"role\":\"user\","
               "\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}]}",
            "<s>[user]A\n\nhi\n\nB\n\nx[assistant]y[go]");
    chat_template_free(t);
}

static void contents(void **state)
{
    (void)state;
    static const char parts[] = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                                "\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]},"
                                "{\"role\":\"assistant\",\"content\":null}]}";
    static const char image[] = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                                "\"text\":\"a\"},{\"type\":\"image_url\"}]}]}";
    struct chat_template *t = load("{% for m in messages %}[{{ m.role }}]{{ m.content + '' }}"
                                   "{% endfor %}");
    assert_false(chat_template_caps(t)->handles_parts);
    assert_true(chat_template_caps(t)->wants_empty_content);
    renders(t, parts, "[user]a\nb[assistant]");
    refuses(t, image, JINJA_FAILURE_NONE, "messages[0].content[1]");
    refuses(t, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", JINJA_FAILURE_NONE,
            "messages[0].content");
    refuses(t, "{\"messages\":[{\"content\":\"x\"}]}", JINJA_FAILURE_NONE, "messages[0]");
    refuses(t, "{\"messages\":{}}", JINJA_FAILURE_NONE, "messages");
    refuses(t, "{}", JINJA_FAILURE_NONE, "messages");
    chat_template_free(t);

    t = load("{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}"
             "{% elif m.content is not none %}{% for p in m.content %}{{ p.text if p.type == "
             "'text' else '<' ~ p.type ~ '>' }}{% endfor %}{% endif %}{% endfor %}");
    assert_true(chat_template_caps(t)->handles_parts);
    assert_false(chat_template_caps(t)->wants_empty_content);
    renders(t, parts, "[user]ab[assistant]");
    renders(t, image, "[user]a<image_url>");
    chat_template_free(t);

    t = load("{% for m in messages %}{% for p in m.content %}{{ p['text'] }}{% endfor %}"
             "{% endfor %}");
    renders(t, "{\"messages\":[{\"role\":\"user\",\"content\":\"plain\"}]}", "plain");
    chat_template_free(t);
}

#define CALL(arguments)                                                              \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","     \
    "\"content\":null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\","           \
    "\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]},{\"role\":\"tool\","     \
    "\"tool_call_id\":\"call_1\",\"content\":\"ok\"}]}"
#define EACH_CALL(body)                                                              \
    "{% for m in messages %}{% for c in m.tool_calls or [] %}" body "{% endfor %}"     \
    "{% if m.role == 'tool' %}={{ m.content }}{% endif %}{% if m.role == 'user' %}"    \
    "{{ m.content }}{% endif %}{% endfor %}"

static void tool_calls(void **state)
{
    (void)state;
    static const char as_text[] = CALL("\"{\\\"city\\\": \\\"Paris\\\"}\"");
    static const char as_object[] = CALL("{\"city\":\"Paris\"}");
    static const char broken[] = CALL("\"{\\\"city\\\": \\\"Par\"");
    struct chat_template *t = load(EACH_CALL("{% for k, v in c.function.arguments | items %}"
                                             "{{ k }}:{{ v }}{% endfor %}"));
    assert_true(chat_template_caps(t)->wants_object_arguments);
    assert_true(chat_template_caps(t)->supports_tool_calls);
    assert_true(chat_template_caps(t)->supports_tool_role);
    assert_true(chat_template_caps(t)->supports_parallel_calls);
    assert_false(chat_template_caps(t)->supports_tools);
    renders(t, as_text, "hicity:Paris=ok");
    renders(t, as_object, "hicity:Paris=ok");
    renders(t, broken, "hiarguments:{\"city\": \"Par=ok");
    chat_template_free(t);

    t = load(EACH_CALL("{{ c.function.arguments | tojson }}"));
    renders(t, as_text, "hi{\"city\": \"Paris\"}=ok");
    renders(t, broken, "hi\"{\\\"city\\\": \\\"Par\"=ok");
    chat_template_free(t);

    t = load(EACH_CALL("{{ c.function.arguments }}"));
    assert_false(chat_template_caps(t)->wants_object_arguments);
    renders(t, as_text, "hi{\"city\": \"Paris\"}=ok");
    renders(t, as_object, "hi{\"city\":\"Paris\"}=ok");
    renders(t, broken, "hi{\"city\": \"Par=ok");
    chat_template_free(t);

    t = load(EACH_CALL("{% if c.id | length != 9 %}{{ raise_exception('short ids') }}{% endif %}"
                       "{{ c.id | length }}{{ c.function.arguments | tojson }}"));
    renders(t, as_text, "hi9{\"city\": \"Paris\"}=ok");
    chat_template_free(t);
}

static void abilities(void **state)
{
    (void)state;
    struct chat_template *t = load_file("style_qwen35");
    const struct chat_template_caps *c = chat_template_caps(t);
    assert_true(c->handles_parts && c->wants_object_arguments && c->supports_tools);
    assert_true(c->supports_thinking_switch && c->renders_reasoning && c->strips_content);
    assert_false(c->keeps_reasoning || c->supports_late_system || c->prints_bos);
    assert_false(chat_template_is_fallback(t));
    chat_template_free(t);
    t = load_file("style_laguna");
    c = chat_template_caps(t);
    assert_true(c->renders_reasoning && c->keeps_reasoning && c->supports_tools);
    assert_false(c->handles_parts || c->supports_effort);
    chat_template_free(t);
    t = load_file("style_gemma4");
    c = chat_template_caps(t);
    assert_true(c->prints_bos && c->supports_developer_role);
    chat_template_free(t);
    t = load("{{ 'low' if reasoning_effort == 'low' else 'other' }}{{ messages[0].content }}");
    assert_true(chat_template_caps(t)->supports_effort);
    chat_template_free(t);
    t = load("{% for m in messages %}{{ m.thinking }}|{{ m.reasoning }}|{{ m.reasoning_content }}"
             "{% endfor %}");
    renders(t, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"why\"}]}",
            "why|why|why");
    chat_template_free(t);
}

static void fallback(void **state)
{
    (void)state;
    struct chat_template *t = load("");
    assert_true(chat_template_is_fallback(t));
    renders(t, "{\"messages\":[{\"role\":\"system\",\"content\":\"A\"},{\"role\":\"user\","
               "\"content\":\"hi\"}]}",
            "<|im_start|>system\nA<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\n");
    renders(t, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"enable_thinking\":false}",
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    chat_template_free(t);
}

/* Nothing that a request holds counts as the template's own text. */
static void forged_tokens(void **state)
{
    (void)state;
    struct jinja_output out;
    struct error err;
    struct chat_template *t = load("{{ bos_token }}{{ unk_token }}{{ messages[0].content }}");
    json_t *request = json_pack("{s:[{s:s, s:s}], s:s, s:s}", "messages", "role", "user", "content",
                                "<s>", "bos_token", "<evil>", "unk_token", "<evil>");
    assert_int_equal(chat_template_render(t, request, 0, &out, &err), STATUS_OK);
    assert_string_equal(out.text, "<s><s>");
    assert_int_equal(out.n_spans, 1);
    assert_int_equal(out.spans[0].from, 3);
    assert_int_equal(out.spans[0].to, 6);
    jinja_output_release(&out);
    json_decref(request);
    chat_template_free(t);
}

static void failures(void **state)
{
    (void)state;
    struct chat_template *t;
    struct error err = { 0 };
    assert_int_equal(chat_template_new(STR("a\n{% if %}"), &tokens, &t, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "line 2"));
    assert_null(t);
    t = load("{{ raise_exception('never') }}");
    refuses(t, "{\"messages\":[]}", JINJA_FAILURE_RAISED, "line 1: never");
    chat_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_messages), cmocka_unit_test(contents),
        cmocka_unit_test(tool_calls),      cmocka_unit_test(abilities),
        cmocka_unit_test(fallback),        cmocka_unit_test(forged_tokens),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
