#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/term.h"

/* A signal handler has no other way to reach its program. */
static volatile sig_atomic_t interrupts;

int cli_fail(const struct error *err)
{
    term_clear_line(stderr);
    fprintf(stderr, "ingot: %s\n", err->message);
    return err->status == STATUS_CANCELLED ? CLI_INTERRUPTED : CLI_FAILED;
}

int cli_usage(const char *format, ...)
{
    fputs("ingot: ", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return CLI_USAGE;
}

void cli_note(const struct options *o, const char *format, ...)
{
    if (options_flag(o, "quiet"))
        return;
    term_clear_line(stderr);
    fputs("note: ", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

enum status cli_model(const struct options *o, const char **path, size_t *n_used,
                      struct error *err)
{
    static const char *const usual[] = { "model.gguf", "gguf/model.gguf" };
    *n_used = 0;
    *path = options_text(o, "model");
    if (*path)
        return STATUS_OK;
    *path = options_argument(o, 0);
    if (*path) {
        *n_used = 1;
        return STATUS_OK;
    }
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
        *path = usual[i];
        if (file_exists(usual[i]))
            return STATUS_OK;
    }
    return error_set(err, STATUS_NOT_FOUND,
                     "no model given, and neither ./%s nor ./%s exists: name a .gguf file or a "
                     "Hugging Face folder",
                     usual[0], usual[1]);
}

void cli_print_json(json_t *value)
{
    struct strbuf out;
    strbuf_init(&out, SIZE_MAX / 2);
    json_write(&out, value);
    strbuf_putc(&out, '\n');
    cli_print(strbuf_str(&out));
    strbuf_release(&out);
    json_decref(value);
}

void cli_print(struct str text)
{
    fwrite(text.ptr, 1, text.len, stdout);
}

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    if (interrupts++ > 0)
        _exit(CLI_INTERRUPTED);
}

void cli_interrupt_catch(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupts > 0;
}

void cli_interrupt_clear(void)
{
    interrupts = 0;
}
