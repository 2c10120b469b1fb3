/* ingot quantize: a GGUF again with its matrices in another type; --type F32 is the dequantizer. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "engine/quantize_model.h"

static const struct option quantize_rows[] = {
    OPT_TEXT("--type", "T", NULL,
             "type of the matrices: F32, F16, BF16, Q8_0, Q4_K, ... or a mixture like Q4_K_M"),
    OPT_INT_OR("--threads -t", "N", "auto", "auto", 1, 256, "threads"),
};
static const struct option_group quantize_options =
    OPTION_GROUP("quantize", "Quantizing", quantize_rows);
static const struct option_group *const quantize_groups[] = { &quantize_options, NULL };

static void print_note(void *context, const char *text)
{
    cli_note(context, "%s", text);
}

static bool check_interrupt(void *context, struct str name, size_t n_done, size_t n_tensors)
{
    const struct options *o = context;
    if (options_flag(o, "verbose"))
        fprintf(stderr, "[%zu/%zu] %.*s\n", n_done, n_tensors, STR_ARG(name));
    return cli_interrupted();
}

static int n_threads(const struct options *o)
{
    if (!options_word(o, "threads"))
        return (int)options_int(o, "threads");
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)MIN(MAX(n, 1), 256);
}

static int run(const struct options *o)
{
    struct error err = { 0 };
    struct quantize_model_result result;
    if (!options_given(o, "type"))
        return cli_usage("quantize needs --type, for example --type Q4_K_M");
    union {
        const struct options *given;
        void *context;
    } borrowed = { .given = o };
    struct quantize_model_options options = {
        .type = str_of(options_text(o, "type")),
        .n_threads = n_threads(o),
        .note = print_note,
        .progress = check_interrupt,
        .context = borrowed.context,
    };
    cli_interrupt_catch();
    enum status s = quantize_model(options_argument(o, 0), options_argument(o, 1), &options,
                                   &result, &err);
    if (s != STATUS_OK)
        return cli_fail(&err);
    cli_note(o, "%zu of %zu tensors converted, %.1f to %.1f MiB", result.n_changed,
             result.n_tensors, (double)result.bytes_before / 1048576.0,
             (double)result.bytes_after / 1048576.0);
    return CLI_OK;
}

const struct cli_command cmd_quantize = {
    .name = "quantize",
    .summary = "write a GGUF with its matrices in another type",
    .usage = "IN OUT --type T",
    .groups = quantize_groups,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
    .example = "ingot quantize model-f16.gguf model.gguf --type Q4_K_M",
};
