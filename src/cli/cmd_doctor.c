/* ingot doctor: what this machine and install can do, and what to mend.
 *
 *     [ok]   memory: 12.3 of 15.6 GiB usable
 *     [warn] huge pages: transparent huge pages are off
 *            -> echo madvise | sudo tee ...
 *
 * The last line is the verdict; status 1 only when something is [FAIL]. */
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/term.h"

static const char *const level_names[] = { "ok", "warn", "FAIL" };

static char *format_text(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = mem_array(char, (size_t)MAX(n, 0) + 1);
    vsnprintf(text, (size_t)MAX(n, 0) + 1, format, arguments);
    return text;
}

void doctor_add(struct doctor_report *r, enum doctor_level level, const char *name,
                const char *format, ...)
{
    void *items = r->findings;
    mem_reserve(&items, &r->capacity, r->n + 1, sizeof(*r->findings));
    r->findings = items;
    va_list arguments;
    va_start(arguments, format);
    r->findings[r->n++] = (struct doctor_finding){ level, name, format_text(format, arguments),
                                                   NULL };
    va_end(arguments);
}

void doctor_fix(struct doctor_report *r, const char *format, ...)
{
    CHECK(r->n > 0 && r->findings[r->n - 1].fix == NULL);
    va_list arguments;
    va_start(arguments, format);
    r->findings[r->n - 1].fix = format_text(format, arguments);
    va_end(arguments);
}

void doctor_release(struct doctor_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        mem_free(r->findings[i].text);
        mem_free(r->findings[i].fix);
    }
    mem_free(r->findings);
    *r = (struct doctor_report){ 0 };
}

size_t doctor_count(const struct doctor_report *r, enum doctor_level level)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->findings[i].level == level;
    return n;
}

static void print_findings(const struct doctor_report *r)
{
    static const enum term_style styles[] = { TERM_GREEN, TERM_YELLOW, TERM_RED };
    for (size_t i = 0; i < r->n; i++) {
        const struct doctor_finding *f = &r->findings[i];
        printf("%s[%s]%s%*s%s: %s\n", term_style(stdout, styles[f->level]), level_names[f->level],
               term_style(stdout, TERM_PLAIN), (int)(5 - strlen(level_names[f->level])), "",
               f->name, f->text);
        if (f->fix)
            printf("       -> %s\n", f->fix);
    }
    size_t problems = doctor_count(r, DOCTOR_FAIL);
    if (problems == 0)
        puts("this install can serve");
    else
        printf("this install cannot serve: %zu problem%s\n", problems, problems == 1 ? "" : "s");
}

static void print_json(const struct doctor_report *r)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < r->n; i++) {
        const struct doctor_finding *f = &r->findings[i];
        json_array_append_new(findings, json_pack("{s:s, s:s, s:s, s:s?}", "level",
                                                  level_names[f->level], "name", f->name,
                                                  "finding", f->text, "fix", f->fix));
    }
    size_t problems = doctor_count(r, DOCTOR_FAIL);
    cli_print_json(json_pack("{s:b, s:I, s:o}", "can_serve", problems == 0, "problems",
                             (json_int_t)problems, "findings", findings));
}

static int run_doctor(const struct options *o)
{
    struct doctor_report r = { 0 };
    const char *model = options_text(o, "model");
    if (model && options_argument(o, 0))
        return cli_usage("doctor takes one model, found --model %s and '%s'", model,
                         options_argument(o, 0));
    model = model ? model : options_argument(o, 0);
    doctor_install(&r);
    doctor_machine(&r);
    doctor_gpu(&r);
    doctor_port(&r, options_text(o, "host"), (int)options_int(o, "port"));
    if (model)
        doctor_model(&r, model);
    if (options_flag(o, "json"))
        print_json(&r);
    else
        print_findings(&r);
    int state = doctor_count(&r, DOCTOR_FAIL) > 0 ? CLI_FAILED : CLI_OK;
    doctor_release(&r);
    return state;
}

static const struct option rows[] = {
    OPT_TEXT("--host", "ADDRESS", "127.0.0.1", "the address that a server would use"),
    OPT_INT("--port", "N", "8080", 1, 65535, "the port that a server would use"),
    OPT_FLAG("--json", NULL, "one JSON object"),
    OPT_TEXT("--model -m", "MODEL", NULL, "the model, instead of the first argument"),
};
static const struct option_group doctor_options = OPTION_GROUP("doctor", "Doctor", rows);
static const struct option_group *const groups[] = { &doctor_options, NULL };

const struct cli_command cmd_doctor = {
    .name = "doctor",
    .summary = "check this machine and install, and a model, with the fix of each finding",
    .usage = "[MODEL] [--json]",
    .groups = groups,
    .max_arguments = 1,
    .run = run_doctor,
    .example = "ingot doctor model.gguf --port 8080",
};
