#include <stdio.h>

#include "cli/cli.h"
#include "cli/engine_setup.h"
#include "quant/kv_codec.h"

static const struct option rows[] = {
    OPT_INT_OR("--parallel -np --n-slots", "N", "auto", "auto", 1, 4096,
               "sequences computed together"),
    OPT_FLAG("--json", NULL, "one JSON object"),
};
static const struct option_group plan_options = OPTION_GROUP("plan", "Plan", rows);

static void print_json(const struct engine_plan *p)
{
    cli_print_json(json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:s, s:s,"
        " s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}}",
        "name", p->name, "family", p->family, "type", p->type_name, "parameters",
        (json_int_t)p->n_parameters, "device", p->device, "isa", p->isa, "threads", p->n_threads,
        "context", p->context, "context_trained", p->context_trained, "sequences", p->sequences,
        "batch_tokens", p->batch_tokens, "page_tokens", p->page_tokens, "pool_tokens",
        (json_int_t)p->pool_tokens, "cache_type_k", kv_type_name(p->k_type), "cache_type_v",
        kv_type_name(p->v_type), "bytes", "file", (json_int_t)p->file_bytes, "weights",
        (json_int_t)p->weight_bytes, "weights_mapped", (json_int_t)p->mapped_bytes, "kv",
        (json_int_t)p->kv_bytes, "scratch", (json_int_t)p->scratch_bytes, "host_cache",
        (json_int_t)p->host_cache_bytes, "resident",
        (json_int_t)(p->weight_bytes + p->kv_bytes + p->scratch_bytes)));
}

static void print_line(const char *what, int64_t bytes, const char *why)
{
    printf("  %-18s %10.1f MiB  %s\n", what, (double)bytes / 1048576.0, why);
}

static void print_text(const struct engine_plan *p)
{
    printf("%s: %s, %s, %.1f M parameters\n", p->name, p->family, p->type_name,
           (double)p->n_parameters / 1e6);
    printf("device %s (%s, %d threads), context %d of %d, %d sequences over one pool of %lld "
           "tokens, passes of up to %d rows\n",
           p->device, p->isa, p->n_threads, p->context, p->context_trained, p->sequences,
           (long long)p->pool_tokens, p->batch_tokens);
    print_line("weights", p->weight_bytes, "rearranged for this processor, in memory");
    print_line("weights, mapped", p->mapped_bytes, "used where they lie in the file");
    char why[96];
    snprintf(why, sizeof why, "keys %s, values %s, pages of %d tokens, taken when used",
             kv_type_name(p->k_type), kv_type_name(p->v_type), p->page_tokens);
    print_line("state", p->kv_bytes, why);
    print_line("scratch", p->scratch_bytes, "of the largest pass, measured");
    print_line("host cache", p->host_cache_bytes,
               "at most, beside all this: displaced conversations of all models");
    print_line("in all", p->weight_bytes + p->kv_bytes + p->scratch_bytes, "beside the mapping");
}

static enum status plan(const struct options *o, struct engine_setup *s, struct error *err)
{
    const char *path;
    size_t n_used;
    struct engine_plan p;
    TRY(cli_model(o, &path, &n_used, err));
    TRY(engine_setup_read(s, o, err));
    s->engine.max_sequences = (int32_t)options_int(o, "parallel");
    TRY(engine_plan(&s->engine, path, &p, err));
    if (options_flag(o, "json"))
        print_json(&p);
    else
        print_text(&p);
    return STATUS_OK;
}

static int run_plan(const struct options *o)
{
    struct error err = { 0 };
    struct engine_setup setup = { 0 };
    enum status status = plan(o, &setup, &err);
    engine_setup_release(&setup);
    return status == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static const struct option_group *const groups[] = {
    &plan_options,    &model_options, &template_options, &engine_options, &device_options,
    &foreign_options, NULL,
};

const struct cli_command cmd_plan = {
    .name = "plan",
    .summary = "what a model would take and where it would go, from headers alone",
    .usage = "MODEL [--json]",
    .groups = groups,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_plan,
    .example = "ingot plan model.gguf --context 8192",
};
