/* The template interpreter against recorded renderings of Jinja2: small cases, whole templates,
 * and what Jinja2 does not have: the origin of every byte, limits, many threads. */
#include "unit/cmocka_setup.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/template/jinja.h"

#define FOLDER "tests/data/jinja/"
#define CLOCK "2025-03-09T14:05:07"

static const char *const trusted[] = { "bos_token", "eos_token", NULL };
static const char *const failure_names[] = { "",       "syntax", "undefined", "security",
                                             "raised", "value",  "limit" };

static json_t *load(const char *name)
{
    struct error err = { 0 };
    json_t *j = NULL;
    char path[200];
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (json_parse_file(path, 1 << 24, 0, &j, &err) != STATUS_OK)
        fail_msg("%s: %s", path, err.message);
    return j;
}

/* A failed compilation counts as a syntax failure of the output. */
static enum status render(struct str source, const json_t *context, struct jinja_output *out,
                          struct error *err)
{
    struct jinja_template *t;
    struct jinja_options options = { .trusted = trusted };
    *out = (struct jinja_output){ .failure = JINJA_FAILURE_SYNTAX };
    assert_true(jinja_parse_time(STR(CLOCK), &options.now));
    enum status status = jinja_compile(source, &t, err);
    if (status != STATUS_OK)
        return status;
    status = jinja_render(t, context, &options, out, err);
    jinja_free(t);
    return status;
}

/* Returns whether the outcome is the recorded one, and says so if not. */
static bool check_case(const char *name, struct str source, const json_t *context,
                       const json_t *recorded)
{
    struct jinja_output out;
    struct error err = { 0 };
    const json_t *lenient = json_object_get(recorded, "expect_lenient");
    const json_t *expect = lenient ? lenient : json_object_get(recorded, "expect");
    bool ok = render(source, context, &out, &err) == STATUS_OK;
    struct str found = ok ? (struct str){ out.text, out.len } : str_of(err.message);
    bool right = ok == (expect != NULL);
    if (right && ok)
        right = str_eq(found, json_str(expect));
    const char *kind = json_string_value(json_object_get(recorded, "error"));
    if (right && !ok && strcmp(kind, "raised") == 0)
        right = out.failure == JINJA_FAILURE_RAISED &&
                str_ends(found, json_str(json_object_get(recorded, "message")));
    if (!right)
        print_message("%s: expected '%s', found '%.*s'\n", name,
                      expect ? json_string_value(expect) : kind, STR_ARG(found));
    jinja_output_release(&out);
    return right;
}

/* A list of cases, or {context, cases} with one context for all (tools/gen_jinja_cases.py). */
static void check_file(const char *file, size_t at_least)
{
    json_t *all = load(file), *one;
    const json_t *context = json_object_get(all, "context");
    const json_t *cases = context ? json_object_get(all, "cases") : all;
    size_t i, n_wrong = 0;
    json_array_foreach(cases, i, one)
        n_wrong += !check_case(json_string_value(json_object_get(one, "name")),
                               json_str(json_object_get(one, "template")),
                               context ? context : json_object_get(one, "context"), one);
    assert_true(json_array_size(cases) >= at_least);
    json_decref(all);
    assert_int_equal(n_wrong, 0);
}

static void small_cases(void **state)
{
    (void)state;
    check_file("cases.json", 311);
    check_file("extra.json", 400);
}

static void whole_templates(void **state)
{
    (void)state;
    json_t *own = load("own.json"), *conversations = load("conversations.json"), *outcomes;
    const char *name, *conversation;
    size_t n_wrong = 0, n = 0;
    json_object_foreach(own, name, outcomes)
    {
        char path[200], label[200];
        struct strbuf source;
        struct error err;
        json_t *recorded;
        snprintf(path, sizeof path, FOLDER "templates/%s.jinja", name);
        strbuf_init(&source, 1 << 20);
        assert_int_equal(file_read(path, 1 << 20, &source, &err), STATUS_OK);
        json_object_foreach(outcomes, conversation, recorded)
        {
            snprintf(label, sizeof label, "%s: %s", name, conversation);
            n_wrong += !check_case(label, strbuf_str(&source),
                                   json_object_get(conversations, conversation), recorded);
            n++;
        }
        strbuf_release(&source);
    }
    json_decref(own);
    json_decref(conversations);
    assert_true(n >= 70);
    assert_int_equal(n_wrong, 0);
}

/* --- where bytes come from ------------------------------------------------------------------ */

/* The output with the bytes of values in braces. */
static void marked(const char *source, const char *context, const char *expected)
{
    struct jinja_output out;
    struct error err = { 0 };
    struct strbuf text;
    json_t *j = json_loads(context, 0, NULL);
    assert_non_null(j);
    if (render(str_of(source), j, &out, &err) != STATUS_OK)
        fail_msg("%s: %s", source, err.message);
    strbuf_init(&text, 1 << 16);
    size_t at = 0;
    for (size_t i = 0; i < out.n_spans; i++) {
        assert_true(out.spans[i].from < out.spans[i].to && out.spans[i].to <= out.len);
        assert_true(i == 0 || out.spans[i - 1].to < out.spans[i].from);
        strbuf_append(&text, out.text + at, out.spans[i].from - at);
        strbuf_putc(&text, '{');
        strbuf_append(&text, out.text + out.spans[i].from, out.spans[i].to - out.spans[i].from);
        strbuf_putc(&text, '}');
        at = out.spans[i].to;
    }
    strbuf_append(&text, out.text + at, out.len - at);
    assert_string_equal(text.ptr ? text.ptr : "", expected);
    strbuf_release(&text);
    jinja_output_release(&out);
    json_decref(j);
}

static void origins(void **state)
{
    (void)state;
    static const char context[] = "{\"u\":\"<a>\",\"bos_token\":\"<s>\","
                                  "\"d\":{\"k\":\"v\",\"n\":1},"
                                  "\"l\":[\"x\",\"y\"],\"messages\":[{\"role\":\"user\","
                                  "\"content\":\" hi \"},{\"role\":\"zz\",\"content\":\"b\"}]}";
    static const struct {
        const char *source, *expected;
    } cases[] = {
        { "[{{ u }}]", "[{<a>}]" },
        { "{{ bos_token }}{{ '<b>' ~ u ~ '<c>' }}", "<s><b>{<a>}<c>" },
        { "{{ ('<b>' + u + '<c>')[1:5] }}", "b>{<a}" },
        { "{{ ('.' ~ u ~ '.') | upper }}", ".{<A>}." },
        { "{{ ('  ' ~ u ~ '  ') | trim }}", "{<a>}" },
        { "{{ 'a-b' | replace('-', u) }}", "a{<a>}b" },
        { "{{ u | replace('a', '|') }}", "{<}|{>}" },
        { "{{ l | join('-') }}", "{x}-{y}" },
        { "{% for c in '<' ~ u %}{{ c }}{% endfor %}", "<{<a>}" },
        { "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{k}={v};{n}=1;" },
        { "{{ d | tojson }} {{ {'a': u} | tojson }} {{ ['a'] | tojson }}",
          "{{\"k\": \"v\", \"n\": 1}} {\"a\": {\"<a>\"}} [\"a\"]" },
        { "{{ d }} {{ [u] }}", "{{'k': 'v', 'n': 1}} [{'<a>'}]" },
        { "{% macro f(x) %}<m>{{ x }}</m>{% endmacro %}{{ f(u) }}", "<m>{<a>}</m>" },
        { "{% set s %}<s>{{ u }}</s>{% endset %}{{ s }}{{ s }}", "<s>{<a>}</s><s>{<a>}</s>" },
        { "{% set n = namespace(s='') %}{% for x in l %}{% set n.s = n.s ~ '<' ~ x ~ '>' %}"
          "{% endfor %}{{ n.s }}",
          "<{x}><{y}>" },
        { "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
          "<|user|>{ hi }<|{zz}|>{b}" },
        { "{{ '%s|%s' % (u, 'b') }}{{ '{}|{}'.format(u, 'b') }}", "{<a>}|b{<a>}|b" },
        { "{{ ('p' ~ u ~ 'q').split('a') | join('!') }}", "p{<}!{>}q" },
        { "{{ ('é' ~ u ~ 'é')[::-1] }}", "é{>a<}é" },
        { "{% filter upper %}a{{ u }}{% endfilter %}", "A{<A>}" },
        { "{{ u * 2 }}{{ 'x' * 2 }}", "{<a><a>}xx" },
        { "{{ u | e }}", "{&lt;a&gt;}" },
        { "{{ '[\"a\", 1]' | from_json }}{{ ('[\"' ~ u ~ '\"]') | from_json | first }}",
          "['a', 1]{<a>}" },
        { "{{ strftime_now('%Y') }}{{ 5 }}{{ none }}", "20255None" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        marked(cases[i].source, context, cases[i].expected);
}

/* --- limits --------------------------------------------------------------------------------- */

static void fails(struct str source, enum jinja_failure failure, const char *part)
{
    struct jinja_output out;
    struct error err = { 0 };
    json_t *context = json_object();
    enum status status = render(source, context, &out, &err);
    if (status == STATUS_OK || out.failure != failure || !strstr(err.message, part))
        fail_msg("%.60s: expected %s '%s', found %s '%s'", source.ptr, failure_names[failure],
                 part, status == STATUS_OK ? "success" : failure_names[out.failure], err.message);
    assert_null(out.text);
    jinja_output_release(&out);
    json_decref(context);
}

static void repeated(const char *head, const char *piece, size_t n, const char *tail,
                     enum jinja_failure failure, const char *part)
{
    struct strbuf source;
    strbuf_init(&source, 8 << 20);
    strbuf_puts(&source, head);
    for (size_t i = 0; i < n; i++)
        strbuf_puts(&source, piece);
    strbuf_puts(&source, tail);
    fails(strbuf_str(&source), failure, part);
    strbuf_release(&source);
}

static void limits(void **state)
{
    (void)state;
    fails(STR("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
          JINJA_FAILURE_LIMIT, "steps");
    fails(STR("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), JINJA_FAILURE_LIMIT, "deeper");
    fails(STR("{% for a in [[[]]] recursive %}{{ loop([[a]]) }}{% endfor %}"), JINJA_FAILURE_LIMIT,
          "deep");
    fails(STR("{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}"
              "{% endfor %}{{ n.l }}"),
          JINJA_FAILURE_LIMIT, "deep");
    fails(STR("{% set n = namespace(s='x') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}"
              "{% endfor %}"),
          JINJA_FAILURE_LIMIT, "longer");
    fails(STR("{% set s = 'x' * 500 %}{% for i in range(99999) %}{{ s }}{% endfor %}"),
          JINJA_FAILURE_LIMIT, "longer");
    fails(STR("{{ 'x' * 999999999 }}"), JINJA_FAILURE_LIMIT, "large");
    fails(STR("{{ 'x'.ljust(999999999) }}"), JINJA_FAILURE_LIMIT, "padded");
    fails(STR("{% set n = namespace(l=[1]) %}{% for i in range(64) %}{% set n.l = n.l + n.l %}"
              "{% endfor %}"),
          JINJA_FAILURE_LIMIT, "");
    repeated("{{ ", "(", 5000, "1", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("{{ ", "not ", 5000, "1 }}", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("{{ 1", " if 1 else 1", 5000, " }}", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("", "{% if 1 %}", 5000, "", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("{% if 1 %}", "{% elif 1 %}", 5000, "{% endif %}", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("{{ x", "|upper", 5000, " }}", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("{{ 1", ".a", 5000, " }}", JINJA_FAILURE_SYNTAX, "deeper");
    repeated("", "a", JINJA_MAX_SOURCE_BYTES + 1, "", JINJA_FAILURE_SYNTAX, "bytes");
}

static void lines(void **state)
{
    (void)state;
    fails(STR("a\nb {{ x y }}"), JINJA_FAILURE_SYNTAX, "line 2: ");
    fails(STR("a\n\n{{ x.y }}"), JINJA_FAILURE_UNDEFINED, "line 3: 'x' is undefined");
    fails(STR("{#\n\n#}\n{{ raise_exception('no\nway') }}"), JINJA_FAILURE_RAISED, "line 4: no");
    fails(STR("{% for i in 5 %}{% endfor %}"), JINJA_FAILURE_VALUE, "line 1: 'int' object");
    fails(STR("\xff"), JINJA_FAILURE_SYNTAX, "UTF-8");
}

/* --- threads -------------------------------------------------------------------------------- */

static void *render_often(void *argument)
{
    const struct jinja_template *t = argument;
    json_t *context = json_pack("{s:[s, s, s]}", "l", "é", "b", "c");
    size_t n_wrong = 0;
    for (int i = 0; i < 200; i++) {
        struct jinja_output out;
        struct error err;
        if (jinja_render(t, context, NULL, &out, &err) != STATUS_OK ||
            strcmp(out.text, "éa-É!b-B!c-C!3") != 0)
            n_wrong++;
        jinja_output_release(&out);
    }
    json_decref(context);
    return n_wrong ? argument : NULL;
}

static void threads(void **state)
{
    (void)state;
    struct jinja_template *t;
    struct error err;
    pthread_t thread[4];
    assert_int_equal(jinja_compile(STR("{% macro f(x) %}{{ x }}{{ 'éa'[1:] if x == 'é' }}"
                                       "{% endmacro %}{% for x in l %}{{ f(x) }}-{{ x | upper }}!"
                                       "{% endfor %}{{ 'éab' | length }}"),
                                   &t, &err),
                     STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, render_often, t), 0);
    for (size_t i = 0; i < ARRAY_SIZE(thread); i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
    jinja_free(t);
}

static void times(void **state)
{
    (void)state;
    int64_t now;
    assert_true(jinja_parse_time(STR("1970-01-02"), &now));
    assert_int_equal(now, 86400);
    assert_true(jinja_parse_time(STR("2025-03-09 14:05:07"), &now));
    assert_int_equal(now, 1741529107);
    assert_false(jinja_parse_time(STR("2025-04-31"), &now));
    assert_false(jinja_parse_time(STR("2025-03-09T14:05"), &now));
    assert_false(jinja_parse_time(STR("2025-03-09T14:05:07Z"), &now));
    assert_false(jinja_parse_time(STR(""), &now));
    assert_true(jinja_now() > 1700000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_cases), cmocka_unit_test(whole_templates),
        cmocka_unit_test(origins),     cmocka_unit_test(limits),
        cmocka_unit_test(lines),       cmocka_unit_test(threads),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
