/* ingot quantize: a GGUF again with its matrices in another type; --type F32 is the dequantizer. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "engine/quantize_model.h"
#include "engine/quantize_recipe.h"
#include "formats/gguf.h"
#include "formats/imatrix.h"

static const struct option quantize_rows[] = {
    OPT_TEXT("--type", "T", NULL,
             "type of the matrices: F32, F16, BF16, Q8_0, Q4_K, ... or a mixture like Q4_K_M"),
    OPT_TEXT("--imatrix", "FILE", NULL,
             "importances of the columns, measured over a text (llama.cpp's imatrix file, GGUF or "
             "older): errors in what weighs most are made smaller"),
    OPT_INT_OR("--threads -t", "N", "auto", "auto", 1, 256, "threads"),
};
static const struct option_group quantize_options =
    OPTION_GROUP("quantize", "Quantizing", quantize_rows);
static const struct option_group *const quantize_groups[] = { &quantize_options, NULL };

struct job {
    const struct options *o;
    struct imatrix imatrix; /* zeroed: none */
    size_t n_notes;
};

static void print_note(void *context, const char *text)
{
    struct job *j = context;
    j->n_notes++;
    if (options_flag(j->o, "verbose"))
        cli_note(j->o, "%s", text);
}

static bool check_interrupt(void *context, struct str name, size_t n_done, size_t n_tensors)
{
    const struct job *j = context;
    if (options_flag(j->o, "verbose"))
        fprintf(stderr, "[%zu/%zu] %.*s\n", n_done, n_tensors, STR_ARG(name));
    return cli_interrupted();
}

static const float *importance(void *context, struct str name, size_t *n_values)
{
    const struct job *j = context;
    const struct imatrix_entry *e = imatrix_find(&j->imatrix, name);
    if (!e)
        return NULL;
    *n_values = e->n_values;
    return e->values;
}

static int n_threads(const struct options *o)
{
    if (!options_word(o, "threads"))
        return (int)options_int(o, "threads");
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)MIN(MAX(n, 1), 256);
}

/* Before anything is written: importances of another model are told by their names or sizes. */
static enum status compare_names(const struct job *j, const struct weight_file *weights,
                                 const char *path, const char *model, struct error *err)
{
    size_t n_found = 0;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct weight_tensor *t = &weights->tensors[i];
        const struct imatrix_entry *e = imatrix_find(&j->imatrix, t->name);
        if (!e || t->n_dims < 2)
            continue;
        n_found++;
        int64_t columns = t->dim[t->n_dims - 1];
        if (columns <= 0 || e->n_values % (size_t)columns != 0)
            return error_set(err, STATUS_INVALID,
                             "%s: importances of %.*s: expected %lld columns as in %s, found %zu "
                             "values", path, STR_ARG(t->name), (long long)columns, model,
                             e->n_values);
    }
    if (n_found > 0)
        return STATUS_OK;
    struct str first = j->imatrix.n_entries ? j->imatrix.entries[0].name : STR("nothing");
    return error_set(err, STATUS_INVALID, "%s: expected importances of tensors of %s, found none "
                     "of its names (%zu entries, the first is %.*s)", path, model,
                     j->imatrix.n_entries, STR_ARG(first));
}

static enum status read_imatrix(struct job *j, const char *model, struct error *err)
{
    struct gguf g;
    const char *path = options_text(j->o, "imatrix");
    TRY(imatrix_open(&j->imatrix, path, err));
    TRY(gguf_open(&g, model, err));
    enum status s = compare_names(j, &g.weights, path, model, err);
    gguf_close(&g);
    return s;
}

static enum status quantize(struct job *j, struct error *err)
{
    const struct options *o = j->o;
    const char *in = options_argument(o, 0);
    struct quantize_model_result result;
    bool has_imatrix = options_given(o, "imatrix");
    struct quantize_model_options options = {
        .type = str_of(options_text(o, "type")),
        .n_threads = n_threads(o),
        .importance = has_imatrix ? importance : NULL,
        .note = print_note,
        .progress = check_interrupt,
        .context = j,
    };
    if (has_imatrix)
        TRY(read_imatrix(j, in, err));
    TRY(quantize_model(in, options_argument(o, 1), &options, &result, err));
    if (result.n_without_importance > 0)
        cli_note(o, "%zu tensors are not in %s and were quantized without importances",
                 result.n_without_importance, options_text(o, "imatrix"));
    if (j->n_notes > 0)
        cli_note(o, "%zu tensors are kept as they are or get another type than asked%s", j->n_notes,
                 options_flag(o, "verbose") ? "" : " (--verbose names them)");
    cli_note(o, "%zu of %zu tensors converted, %.1f to %.1f MiB", result.n_changed,
             result.n_tensors, (double)result.bytes_before / 1048576.0,
             (double)result.bytes_after / 1048576.0);
    return STATUS_OK;
}

static int run(const struct options *o)
{
    struct error err = { 0 };
    struct job job = { .o = o };
    if (!options_given(o, "type"))
        return cli_usage("quantize needs --type, for example --type Q4_K_M");
    struct quantize_recipe recipe;
    if (quantize_recipe_named(&recipe, str_of(options_text(o, "type")), &err) != STATUS_OK)
        return cli_usage("quantize: %s", err.message);
    mapped_file_install_guard();
    cli_interrupt_catch();
    enum status s = quantize(&job, &err);
    imatrix_release(&job.imatrix);
    return s == STATUS_OK ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_quantize = {
    .name = "quantize",
    .summary = "write a GGUF with its matrices in another type",
    .usage = "IN OUT --type T [--imatrix FILE]",
    .groups = quantize_groups,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
    .example = "ingot quantize model-f16.gguf model.gguf --type Q4_K_M",
};
