#include "text/template/jinja.h"

#include <time.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"
#include "text/template/jinja_eval.h"
#include "text/template/jinja_parse.h"

/* --- compiling ------------------------------------------------------------------------------ */

enum status jinja_compile(struct str source, struct jinja_template **out, struct error *err)
{
    struct error local;
    *out = NULL;
    if (source.len > JINJA_MAX_SOURCE_BYTES)
        return error_set(err, STATUS_LIMIT, "a template may have %u bytes, this one has %zu",
                         JINJA_MAX_SOURCE_BYTES, source.len);
    if (!utf8_valid(source))
        return error_set(err, STATUS_INVALID, "the template is not valid UTF-8");
    struct jinja_template *t = mem_new(struct jinja_template);
    arena_init(&t->arena, 0);
    strmap_init(&t->symbol_map, 64);
    t->source = jinja_normalize(&t->arena, source);
    enum status s = jinja_parse(t, err ? err : &local);
    if (s != STATUS_OK) {
        jinja_free(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

void jinja_free(struct jinja_template *t)
{
    if (!t)
        return;
    strmap_release(&t->symbol_map);
    mem_free(t->symbols);
    mem_free(t->blocks);
    arena_release(&t->arena);
    mem_free(t);
}

/* --- rendering ------------------------------------------------------------------------------ */

static bool is_trusted(const struct jinja_options *options, struct str name)
{
    for (const char *const *t = options->trusted; t && *t; t++)
        if (str_is(name, *t))
            return true;
    return false;
}

/* Only the variables that the template names are converted. */
static bool load_globals(struct jinja *r)
{
    const struct jinja_template *t = r->t;
    r->globals = jinja_alloc(r, t->n_symbols, sizeof *r->globals);
    if (!r->globals)
        return false;
    for (size_t i = 0; i < t->n_symbols; i++) {
        struct str name = jstr_str(t->symbols[i]);
        const json_t *j = json_object_getn(r->context, name.ptr, name.len);
        const struct jinja_callable *function = j ? NULL : jinja_function_find(name);
        r->globals[i] = (struct jv){ 0 };
        if (j)
            r->globals[i] = jv_from_json(r, j, is_trusted(r->options, name));
        else if (function)
            r->globals[i] = (struct jv){ .kind = JV_FUNCTION, .function = function };
        else if (i == JINJA_SYMBOL_SELF)
            r->globals[i] = (struct jv){ .kind = JV_SELF };
        if (r->failure)
            return false;
    }
    return true;
}

static void take_output(const struct jbuild *text, struct jinja_output *out)
{
    out->text = mem_string(text->ptr ? text->ptr : "", text->len);
    out->len = text->len;
    out->n_spans = text->n_spans;
    out->spans = mem_array(struct jinja_span, text->n_spans + 1);
    if (text->n_spans)
        memcpy(out->spans, text->spans, text->n_spans * sizeof *out->spans);
}

static enum status report(struct jinja *r, struct jinja_output *out, struct error *err)
{
    out->failure = r->failure;
    out->line = r->line;
    if (err) {
        *err = r->error;
        (void)error_prefix(err, "line %u", r->line);
    }
    return r->error.status;
}

enum status jinja_render(const struct jinja_template *t, const json_t *context,
                         const struct jinja_options *options, struct jinja_output *out,
                         struct error *err)
{
    static const struct jinja_options none = { 0 };
    struct jinja r = { .t = t, .options = options ? options : &none, .context = context };
    struct jscope root;
    struct jbuild text;
    *out = (struct jinja_output){ 0 };
    if (!json_is_object(context)) {
        out->failure = JINJA_FAILURE_VALUE;
        return error_set(err, STATUS_INVALID, "the context of a template must be a JSON object");
    }
    size_t n_messages = json_array_size(json_object_get(context, "messages"));
    r.max_steps = JINJA_MAX_STEPS + JINJA_MAX_STEPS_PER_MESSAGE * n_messages;
    arena_init(&r.arena, JINJA_MAX_MEMORY_BYTES);
    jscope_init(&root, NULL);
    r.scope = r.root = &root;
    jbuild_init(&text, &r, 4096);
    r.out = &text;
    bool ok = load_globals(&r) && jinja_execute(&r, t->body) != JFLOW_FAIL && !text.failed;
    enum status s = STATUS_OK;
    if (ok && r.failure == JINJA_FAILURE_NONE)
        take_output(&text, out);
    else
        s = report(&r, out, err);
    arena_release(&r.arena);
    return s;
}

void jinja_output_release(struct jinja_output *out)
{
    mem_free(out->text);
    mem_free(out->spans);
    *out = (struct jinja_output){ 0 };
}

/* --- the clock ------------------------------------------------------------------------------ */

int64_t jinja_now(void)
{
    time_t now = time(NULL);
    struct tm local;
    return localtime_r(&now, &local) ? (int64_t)now + local.tm_gmtoff : (int64_t)now;
}

static bool take_number(struct str *s, size_t digits, char behind, int *out)
{
    uint64_t value;
    if (s->len < digits || !number_parse_u64(str_slice(*s, 0, digits), &value))
        return false;
    *s = str_slice(*s, digits, s->len);
    *out = (int)value;
    if (!behind)
        return true;
    if (s->len == 0 || (s->ptr[0] != behind && !(behind == 'T' && s->ptr[0] == ' ')))
        return false;
    *s = str_slice(*s, 1, s->len);
    return true;
}

bool jinja_parse_time(struct str text, int64_t *now)
{
    struct tm tm = { 0 };
    struct str s = text;
    bool date_only = text.len == 10;
    if (!take_number(&s, 4, '-', &tm.tm_year) || !take_number(&s, 2, '-', &tm.tm_mon) ||
        !take_number(&s, 2, date_only ? 0 : 'T', &tm.tm_mday))
        return false;
    if (!date_only && (!take_number(&s, 2, ':', &tm.tm_hour) ||
                       !take_number(&s, 2, ':', &tm.tm_min) || !take_number(&s, 2, 0, &tm.tm_sec)))
        return false;
    if (s.len || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 59 || tm.tm_year < 1)
        return false;
    int day = tm.tm_mday;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *now = (int64_t)timegm(&tm);
    return tm.tm_mday == day; /* timegm moves a 31 April into May */
}
