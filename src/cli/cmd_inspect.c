/* ingot inspect: what a model's files hold; nothing is loaded or packed. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/inspect_report.h"
#include "cli/term.h"
#include "quant/dequant.h"

#define CHECK_VALUES 16384 /* decoded at a time; a multiple of every block */
#define SHOWN_BYTES 72     /* of a metadata value */

static const struct option rows[] = {
    OPT_FLAG("--json", NULL, "one JSON object: everything, arrays of metadata cut short"),
    OPT_FLAG("--tensors", NULL, "list every tensor"),
    OPT_FLAG("--metadata", NULL, "list every key with its value"),
    OPT_FLAG("--template", NULL, "print the chat template, exactly"),
    OPT_FLAG("--check", NULL, "read every weight; an infinite one or a NaN is a failure"),
};
static const struct option_group inspect_options = OPTION_GROUP("inspect", "Inspect", rows);
static const struct option inspect_model_rows[] = {
    OPT_TEXT("--model -m", "MODEL", NULL, "the model, instead of the first argument"),
};
static const struct option_group inspect_model =
    OPTION_GROUP("inspect", "Model", inspect_model_rows);

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static double mib(long long bytes)
{
    return (double)bytes / 1048576.0;
}

/* Names and texts of a file reach the terminal without control characters. */
static void print_clean(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool c1 = c == 0xC2 && i + 1 < text.len && (unsigned char)text.ptr[i + 1] < 0xA0;
        i += c1;
        putchar((c < 0x20 && c != '\n') || c == 0x7F || c1 ? '?' : c);
    }
}

/* A value on one line, cut at a character. */
static void put_value(struct strbuf *out, const json_t *value)
{
    struct strbuf line;
    strbuf_init(&line, SIZE_MAX / 2);
    json_write(&line, value);
    size_t n = line.len;
    if (n > SHOWN_BYTES) {
        n = SHOWN_BYTES;
        while (n > 0 && ((unsigned char)line.ptr[n] & 0xC0) == 0x80)
            n--;
    }
    strbuf_printf(out, "%.*s%s\n", (int)n, line.ptr, n < line.len ? "..." : "");
    strbuf_release(&line);
}

static void put_geometry(struct strbuf *out, const json_t *report)
{
    const json_t *g = json_object_get(report, "geometry");
    if (json_is_null(g)) {
        const char *problem = text_of(report, "problem", NULL);
        if (problem)
            strbuf_printf(out, "geometry       unknown: %s\n", problem);
        return;
    }
    strbuf_printf(out,
                  "geometry       %lld layers of width %lld, %lld heads of %lld (%lld for keys "
                  "and values)\n",
                  number_of(g, "layers"), number_of(g, "embedding"), number_of(g, "heads"),
                  number_of(g, "head_dim"), number_of(g, "kv_heads"));
    strbuf_printf(out, "               vocabulary %lld, context %lld",
                  number_of(g, "vocabulary"), number_of(g, "context"));
    if (number_of(g, "sliding_window") > 0)
        strbuf_printf(out, ", a window of %lld in %lld layers", number_of(g, "sliding_window"),
                      number_of(g, "sliding_layers"));
    strbuf_putc(out, '\n');
}

static void put_weights(struct strbuf *out, const json_t *report)
{
    const json_t *types = json_object_get(report, "types");
    strbuf_printf(out, "parameters     %.1f M, %.1f M of them token embeddings\n",
           (double)number_of(report, "parameters") / 1e6,
           (double)number_of(report, "embedding_parameters") / 1e6);
    strbuf_printf(out, "tensors        %lld\n", number_of(report, "n_tensors"));
    const char *name;
    json_t *row;
    json_object_foreach((json_t *)types, name, row) {
        strbuf_printf(out, "               %-8s %5lld tensors %10.1f MiB\n", name,
                      number_of(row, "tensors"), mib(number_of(row, "bytes")));
    }
}

static void put_summary(struct strbuf *out, const json_t *report)
{
    const json_t *tokenizer = json_object_get(report, "tokenizer");
    strbuf_printf(out, "%s: %s", text_of(report, "path", ""), text_of(report, "format", ""));
    if (number_of(report, "version") > 0)
        strbuf_printf(out, " version %lld", number_of(report, "version"));
    strbuf_printf(out, ", %lld file%s, %.1f MiB\n", number_of(report, "parts"),
                  number_of(report, "parts") == 1 ? "" : "s", mib(number_of(report, "file_bytes")));
    strbuf_printf(out, "name           %s\n", text_of(report, "name", "none"));
    strbuf_printf(out, "architecture   %s\n", text_of(report, "architecture", "none"));
    strbuf_printf(out, "family         %s\n",
                  text_of(report, "family", "none that this version knows"));
    put_geometry(out, report);
    put_weights(out, report);
    if (json_is_object(tokenizer)) {
        const char *pre = text_of(tokenizer, "pre", NULL);
        strbuf_printf(out, "tokenizer      %s%s%s, %lld tokens\n",
                      text_of(tokenizer, "kind", "unnamed"), pre ? ", split as " : "",
                      pre ? pre : "", number_of(tokenizer, "tokens"));
    } else {
        strbuf_printf(out, "tokenizer      none\n");
    }
    bool has_template = json_is_true(json_object_get(report, "chat_template"));
    strbuf_printf(out, "chat template  %s\n",
                  has_template ? "yes (--template prints it)" : "none");
    strbuf_printf(out, "metadata       %zu keys\n",
                  json_object_size(json_object_get(report, "metadata")));
}

static void put_tensors(struct strbuf *out, const json_t *report)
{
    size_t i;
    json_t *t, *dim;
    json_array_foreach(json_object_get(report, "tensors"), i, t) {
        strbuf_printf(out, "%-8s %12lld  %s [", text_of(t, "type", ""), number_of(t, "bytes"),
               text_of(t, "name", ""));
        size_t d;
        json_array_foreach(json_object_get(t, "shape"), d, dim)
            strbuf_printf(out, d ? ", %lld" : "%lld", (long long)json_integer_value(dim));
        strbuf_puts(out, "]\n");
    }
}

static void put_metadata(struct strbuf *out, const json_t *report)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(report, "metadata"), key, value) {
        strbuf_printf(out, "%s = ", key);
        put_value(out, value);
    }
}

static bool all_finite(const float *values, int64_t n, int64_t *bad)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            *bad = i;
            return false;
        }
    }
    return true;
}

static enum status check_tensor(const struct weight_tensor *t, float *values, struct error *err)
{
    const struct tensor_type_info *info = tensor_type_info(t->type);
    int64_t n = weight_tensor_elements(t), bad;
    if (info->flags & TENSOR_TYPE_INTEGER)
        return STATUS_OK;
    for (int64_t done = 0; done < n; done += CHECK_VALUES) {
        int64_t count = MIN(n - done, CHECK_VALUES);
        size_t at = (size_t)(done / info->block_elements) * (size_t)info->block_bytes;
        dequant_row(t->type, t->bytes + at, values, count);
        if (!all_finite(values, count, &bad))
            return error_set(err, STATUS_INVALID,
                             "tensor %.*s: expected finite values, found %s at element %lld",
                             STR_ARG(t->name), isnan(values[bad]) ? "NaN" : "infinity",
                             (long long)(done + bad));
    }
    return STATUS_OK;
}

static enum status check_values(const struct options *o, const struct weight_file *f,
                                struct error *err)
{
    struct progress progress;
    progress_start(&progress, "checking", options_flag(o, "quiet"));
    float *values = mem_array(float, CHECK_VALUES);
    enum status status = STATUS_OK;
    for (size_t i = 0; f && i < f->n_tensors && status == STATUS_OK; i++) {
        progress_update(&progress, i, f->n_tensors);
        status = check_tensor(&f->tensors[i], values, err);
        weight_file_forget(f, &f->tensors[i], 0, f->tensors[i].n_bytes);
    }
    mem_free(values);
    progress_end(&progress);
    if (status == STATUS_OK && f && weight_file_damaged(f))
        return error_set(err, STATUS_IO, "%s: the file was cut short while it was read",
                         f->parts[0].path);
    return status;
}

static enum status print_template(const struct model_source *source, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, SIZE_MAX / 2);
    enum status status = inspect_template(source, &text, err);
    if (status == STATUS_OK)
        cli_print(strbuf_str(&text));
    strbuf_release(&text);
    return status;
}

static enum status inspect(const struct options *o, const struct model_source *source,
                           struct error *err)
{
    if (options_flag(o, "check"))
        TRY(check_values(o, source->weights, err));
    if (options_flag(o, "template"))
        return print_template(source, err);
    json_t *report = inspect_report(source);
    if (options_flag(o, "check"))
        json_object_set_new(report, "all_finite", json_true());
    if (options_flag(o, "json")) {
        cli_print_json(report);
        return STATUS_OK;
    }
    bool tensors = options_flag(o, "tensors"), metadata = options_flag(o, "metadata");
    struct strbuf out;
    strbuf_init(&out, SIZE_MAX / 2);
    if (!tensors && !metadata)
        put_summary(&out, report);
    if (tensors)
        put_tensors(&out, report);
    if (metadata)
        put_metadata(&out, report);
    if (options_flag(o, "check") && !tensors && !metadata)
        strbuf_puts(&out, "values         all finite\n");
    print_clean(strbuf_str(&out));
    strbuf_release(&out);
    json_decref(report);
    return STATUS_OK;
}

static int run_inspect(const struct options *o)
{
    struct error err = { 0 };
    struct model_source *source = NULL;
    const char *path;
    size_t n_used;
    enum status status = cli_model(o, &path, &n_used, &err);
    if (status == STATUS_OK)
        status = model_source_open(&source, path, &err);
    if (status == STATUS_OK)
        status = inspect(o, source, &err);
    model_source_free(source);
    return status == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static const struct option_group *const groups[] = { &inspect_options, &inspect_model, NULL };

const struct cli_command cmd_inspect = {
    .name = "inspect",
    .summary = "what a model's files hold: geometry, types, metadata, tensors",
    .usage = "MODEL [--json] [--tensors] [--metadata] [--template] [--check]",
    .groups = groups,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_inspect,
    .example = "ingot inspect model.gguf",
};
