/* ingot bench: tokens a second of a model, or of a geometry with random weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/number.h"
#include "cli/bench_compare.h"
#include "cli/bench_run.h"
#include "cli/bench_url.h"
#include "cli/cli.h"
#include "cli/term.h"
#include "cpu/cpu_features.h"
#include "cpu/peak.h"
#include "engine/shape_model.h"
#include "quant/kv_codec.h"

#define MAX_LIST 32
#define LARGEST_PASS 512
#define SMALLEST_PASS 128

static const struct option rows[] = {
    OPT_TEXT("--shape", "NAME:QUANT", NULL,
             "random weights of a known geometry instead of a model, like qwen3-8b:Q4_K_M; "
             "qwen3-8b-L4:Q4_K_M is its first 4 layers"),
    OPT_TEXT("--write", "FILE", NULL, "keep the weights of --shape in this GGUF file"),
    OPT_TEXT("--n-prompt -p", "N,...", "512", "prompt lengths (0: none)"),
    OPT_TEXT("--n-gen -n", "N,...", "128", "tokens written (0: none)"),
    OPT_TEXT("--n-depth -d", "N,...", "0",
             "tokens that lie before what is measured; with --url, the prompt before what is "
             "written (0: 16 tokens)"),
    OPT_TEXT("--streams -s", "N,...", "1", "answers written side by side"),
    OPT_TEXT("--threads -t --cpu-threads", "N,...", "auto", "compute threads (auto: the cores)"),
    OPT_INT("--repetitions -r", "N", "5", 1, 1000, "measured runs of each test"),
    OPT_TEXT("--url", "URL", NULL,
             "drive the OpenAI-compatible server at http://HOST:PORT instead of a model"),
    OPT_TEXT("--api-key", "KEY", NULL, "the key of that server"),
    OPT_FLAG("--peak", NULL, "what this machine can do at most: reading memory, f32, bf16, int8"),
    OPT_FLAG("--json", NULL, "one JSON array of results"),
};
static const struct option_group bench_options = OPTION_GROUP("bench", "Bench", rows);

static const struct option model_rows[] = {
    OPT_TEXT("--model -m", "MODEL", NULL, "the model, instead of the first argument"),
    OPT_TEXT("--device -dev --backend", "DEVICE", "auto", "where to compute: auto or cpu"),
    OPT_INT_OR("--batch-size -b -ub --ubatch-size", "N", "auto", "auto", 1, 1e6,
               "token budget of one pass"),
    OPT_CHOICE("--cache-type-k -ctk", CACHE_TYPES, "f16", "format of cached keys"),
    OPT_CHOICE("--cache-type-v -ctv", CACHE_TYPES, "f16", "format of cached values"),
    OPT_FLAG("--exact --quality", "off", "f32 activations and cache, exact functions"),
};
static const struct option_group bench_model_options =
    OPTION_GROUP("bench", "Model and engine", model_rows);

struct number_list {
    int n, item[MAX_LIST];
};

struct bench {
    const struct options *o;
    struct number_list prompt, gen, depth, streams, threads; /* threads: 0 is auto */
    char *path;      /* the model */
    char *temporary; /* the folder of a file that goes away at the end */
    json_t *results;
    bool printed_head;
};

static enum status read_list(const struct options *o, const char *name, int low, int high,
                             struct number_list *out, struct error *err)
{
    struct str rest = str_of(options_text(o, name));
    out->n = 0;
    for (;;) {
        size_t comma = str_find(rest, STR(","), 0);
        struct str word = comma == STR_NONE ? rest : str_slice(rest, 0, comma);
        int64_t value;
        if (strcmp(name, "threads") == 0 && str_is(word, "auto"))
            value = 0;
        else if (!number_parse_i64(word, &value) || value < low || value > high)
            return error_set(err, STATUS_INVALID, "--%s: expected numbers from %d to %d with "
                             "commas between, found '%.*s'", name, low, high, STR_ARG(word));
        if (out->n == MAX_LIST)
            return error_set(err, STATUS_INVALID, "--%s: more than %d numbers", name, MAX_LIST);
        out->item[out->n++] = (int)value;
        if (comma == STR_NONE)
            return STATUS_OK;
        rest = str_slice(rest, comma + 1, rest.len);
    }
}

static enum status read_lists(struct bench *b, struct error *err)
{
    TRY(read_list(b->o, "n-prompt", 0, 1000000, &b->prompt, err));
    TRY(read_list(b->o, "n-gen", 0, 1000000, &b->gen, err));
    TRY(read_list(b->o, "n-depth", 0, 1000000, &b->depth, err));
    TRY(read_list(b->o, "streams", 1, 1024, &b->streams, err));
    TRY(read_list(b->o, "threads", 1, 512, &b->threads, err));
    int cores = 0;
    for (int i = 0; i < b->threads.n; i++) {
        struct cpu_features features;
        if (b->threads.item[i] != 0)
            continue;
        if (cores == 0) {
            cpu_features_read(&features);
            cores = features.physical_cores;
        }
        b->threads.item[i] = cores;
    }
    return STATUS_OK;
}

/* Every test at one depth, in the order of the table. */
static size_t list_tests(const struct bench *b, int depth, struct bench_test **out)
{
    size_t n = 0, all = (size_t)b->prompt.n + (size_t)b->gen.n * (size_t)b->streams.n;
    struct bench_test *tests = mem_array(struct bench_test, all);
    for (int p = 0; p < b->prompt.n; p++)
        if (b->prompt.item[p] > 0)
            tests[n++] = (struct bench_test){ b->prompt.item[p], 0, depth, 1 };
    for (int g = 0; g < b->gen.n; g++)
        for (int s = 0; s < b->streams.n; s++)
            if (b->gen.item[g] > 0)
                tests[n++] = (struct bench_test){ 0, b->gen.item[g], depth, b->streams.item[s] };
    *out = tests;
    return n;
}

static bool show_writing(void *user, size_t done, size_t all)
{
    progress_update(user, done, all);
    return cli_interrupted();
}

/* The file of --shape: --write FILE, or one in a folder of its own that goes away at the end. */
static enum status make_shape(struct bench *b, struct error *err)
{
    const char *spec = options_text(b->o, "shape"), *kept = options_text(b->o, "write");
    const char *folder = getenv("TMPDIR");
    struct strbuf path;
    TRY(shape_model_check(str_of(spec), err));
    strbuf_init(&path, 4096);
    if (kept) {
        strbuf_puts(&path, kept);
    } else {
        strbuf_printf(&path, "%s/ingot-bench-XXXXXX", folder && *folder ? folder : "/tmp");
        if (path.overflow || !mkdtemp(path.ptr)) {
            enum status s = error_set(err, STATUS_IO, "%s: cannot make a folder for the weights",
                                      path.ptr);
            strbuf_release(&path);
            return s;
        }
        b->temporary = mem_string(path.ptr, path.len);
        strbuf_puts(&path, "/shape.gguf");
    }
    b->path = strbuf_detach(&path);
    struct progress progress;
    progress_start(&progress, "writing weights", options_flag(b->o, "quiet"));
    enum status s = shape_model_write(str_of(spec), b->path, show_writing, &progress, err);
    progress_end(&progress);
    return s;
}

static void print_head(struct bench *b, const struct engine_model_info *info)
{
    if (b->printed_head)
        return;
    b->printed_head = true;
    printf("%s: %s, %s, %.1f MiB, %.1f M parameters\n", info->name, info->family, info->type_name,
           (double)info->file_bytes / 1048576.0, (double)info->n_parameters / 1e6);
    printf("%-24s %7s %12s %12s %9s\n", "test", "threads", "tokens/s", "best", "+-");
    fflush(stdout);
}

static void report(struct bench *b, const struct bench_test *t, int n_threads, const char *device,
                   const struct bench_result *r)
{
    char name[64];
    bench_test_name(t, name, sizeof name);
    if (!options_flag(b->o, "json")) {
        printf("%-24s %7d %12.2f %12.2f %9.2f\n", name, n_threads, r->average, r->best,
               r->deviation);
        fflush(stdout);
    }
    json_array_append_new(
        b->results,
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f}", "test", name, "n_prompt",
                  t->n_prompt, "n_gen", t->n_gen, "n_depth", t->n_depth, "n_streams", t->n_streams,
                  "threads", n_threads, "device", device, "avg_ts", r->average, "best_ts", r->best,
                  "stddev_ts", r->deviation));
}

static void take_cache_type(const struct options *o, const char *name, enum tensor_type *type,
                            bool *set)
{
    *set = options_given(o, name) && kv_type_from_name(str_of(options_text(o, name)), type);
}

/* Passes that end where the measured part of a prompt begins: the largest divisor of the depth
 * that a pass holds; 0: whatever the engine takes. */
static int32_t pass_for_depth(int depth)
{
    for (int32_t n = LARGEST_PASS; n >= SMALLEST_PASS; n--)
        if (depth > 0 && depth % n == 0)
            return n;
    return 0;
}

static struct engine_options engine_of(const struct bench *b, const struct bench_test *tests,
                                       size_t n, int n_threads)
{
    const struct options *o = b->o;
    struct engine_options e = {
        .device = options_text(o, "device"), .n_threads = n_threads,
        .exact = options_flag(o, "exact"), .batch_tokens = (int32_t)options_int(o, "batch-size"),
        .no_text = true,
        .no_reuse = true,
    };
    take_cache_type(o, "cache-type-k", &e.k_type, &e.k_type_set);
    take_cache_type(o, "cache-type-v", &e.v_type, &e.v_type_set);
    e.max_sequences = 1;
    if (e.batch_tokens == 0)
        e.batch_tokens = pass_for_depth(tests[0].n_depth);
    for (size_t i = 0; i < n; i++) {
        e.context = MAX(e.context, bench_test_context(&tests[i]));
        e.max_sequences = MAX(e.max_sequences, tests[i].n_streams);
    }
    e.max_requests = MAX(64, e.max_sequences);
    return e;
}

static enum status run_tests(struct bench *b, const struct bench_test *tests, size_t n,
                             int n_threads, struct error *err)
{
    struct engine *engine;
    struct engine_model *model;
    struct engine_plan plan;
    struct engine_options options = engine_of(b, tests, n, n_threads);
    TRY(engine_plan(&options, b->path, &plan, err));
    TRY(engine_new(&options, &engine, err));
    enum status s = engine_load(engine, b->path, &model, err);
    if (s == STATUS_OK && !options_flag(b->o, "json"))
        print_head(b, engine_model_info(model));
    for (size_t i = 0; i < n && s == STATUS_OK; i++) {
        struct bench_result result;
        s = bench_run(engine, model, &tests[i], (int)options_int(b->o, "repetitions"), &result,
                      err);
        if (s == STATUS_OK)
            report(b, &tests[i], n_threads, plan.device, &result);
    }
    engine_free(engine);
    return s;
}

static json_t *rate_json(double rate)
{
    return rate > 0 ? json_real(rate) : json_null();
}

static void print_peak(const struct cpu_peak *p)
{
    char bf16[48] = "none";
    if (p->bf16_gflop_s > 0)
        snprintf(bf16, sizeof bf16, "%.1f GFLOP/s", p->bf16_gflop_s);
    printf("%-24s %7d  reads %.1f GB/s, f32 %.1f GFLOP/s, bf16 %s, int8 %.1f GOP/s (%s)\n", "peak",
           p->n_threads, p->read_gb_s, p->f32_gflop_s, bf16, p->int8_gop_s, p->isa);
}

static enum status measure_peak(struct bench *b, int n_threads, struct error *err)
{
    struct cpu_peak p;
    TRY(cpu_peak_measure(n_threads, &p, err));
    if (!options_flag(b->o, "json"))
        print_peak(&p);
    json_array_append_new(
        b->results, json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:o, s:o}", "test", "peak", "threads",
                              n_threads, "device", "cpu", "isa", p.isa, "read_gb_s",
                              rate_json(p.read_gb_s), "f32_gflop_s", rate_json(p.f32_gflop_s),
                              "bf16_gflop_s", rate_json(p.bf16_gflop_s), "int8_gop_s",
                              rate_json(p.int8_gop_s)));
    return STATUS_OK;
}

static enum status bench_model(struct bench *b, struct error *err)
{
    enum status s = STATUS_OK;
    for (int i = 0; i < b->threads.n * b->depth.n && s == STATUS_OK; i++) {
        struct bench_test *tests;
        size_t n = list_tests(b, b->depth.item[i % b->depth.n], &tests);
        if (n > 0)
            s = run_tests(b, tests, n, b->threads.item[i / b->depth.n], err);
        mem_free(tests);
    }
    return s;
}

static json_t *waits_json(const struct bench_waits *w)
{
    return json_pack("{s:f, s:f, s:f}", "p50", w->p50, "p95", w->p95, "p99", w->p99);
}

/* The tests of one depth against a running server: rows as of a model, and the waits. A client
 * cannot tell a depth from a prompt, so what is read has no depth and is measured once. */
static enum status drive_server(struct bench *b, const struct bench_server *server, int depth,
                                bool reading, struct error *err)
{
    struct bench_test *tests;
    size_t n = list_tests(b, depth, &tests);
    enum status s = STATUS_OK;
    for (size_t i = 0; i < n && s == STATUS_OK; i++) {
        struct bench_result result;
        struct bench_waits first, gap;
        if (tests[i].n_gen == 0 && !reading)
            continue;
        if (tests[i].n_gen == 0)
            tests[i].n_depth = 0;
        s = bench_url_run(server, &tests[i], (int)options_int(b->o, "repetitions"), &result, &first,
                          &gap, err);
        if (s != STATUS_OK)
            break;
        report(b, &tests[i], 0, "url", &result);
        if (!options_flag(b->o, "json"))
            printf("    ms, p50 / p95 / p99: first token %.1f / %.1f / %.1f, gap %.1f / %.1f / "
                   "%.1f\n", first.p50, first.p95, first.p99, gap.p50, gap.p95, gap.p99);
        json_t *row = json_array_get(b->results, json_array_size(b->results) - 1);
        json_object_set_new(row, "ttft_ms", waits_json(&first));
        json_object_set_new(row, "gap_ms", waits_json(&gap));
    }
    mem_free(tests);
    return s;
}

static enum status bench_running_server(struct bench *b, struct error *err)
{
    struct bench_server server;
    TRY(bench_server_open(&server, options_text(b->o, "url"), options_text(b->o, "api-key"), err));
    if (!options_flag(b->o, "json"))
        printf("%s at %s\n%-24s %7s %12s %12s %9s\n", server.model, options_text(b->o, "url"),
               "test", "threads", "tokens/s", "best", "+-");
    for (int i = 0; i < b->depth.n; i++)
        TRY(drive_server(b, &server, b->depth.item[i], i == 0, err));
    return STATUS_OK;
}

static enum status bench(struct bench *b, struct error *err)
{
    const char *path;
    size_t n_used;
    bool named = options_given(b->o, "model") || options_argument(b->o, 0);
    bool peak = options_flag(b->o, "peak");
    if (options_given(b->o, "url"))
        return bench_running_server(b, err);
    cli_interrupt_catch();
    if (options_given(b->o, "shape")) {
        TRY(make_shape(b, err));
    } else if (named || !peak) {
        TRY(cli_model(b->o, &path, &n_used, err));
        b->path = mem_string(path, strlen(path));
    }
    for (int i = 0; i < b->threads.n && peak; i++)
        TRY(measure_peak(b, b->threads.item[i], err));
    return b->path ? bench_model(b, err) : STATUS_OK;
}

static int compare(const struct options *o)
{
    struct error err = { 0 };
    if (o->n_arguments != 3)
        return cli_usage("bench compare takes two files of bench --json");
    enum status s = bench_compare(o, options_argument(o, 1), options_argument(o, 2), &err);
    return s == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static bool is_compare(const struct options *o)
{
    return o->n_arguments > 0 && str_is(str_of(options_argument(o, 0)), "compare");
}

static bool needs_model(const struct options *o)
{
    return !is_compare(o) && !options_given(o, "url") && !options_given(o, "shape") &&
           !options_flag(o, "peak");
}

/* What only a model of our own, or only a server, has: the usage error of the first such flag. */
static int check_url_flags(const struct options *o)
{
    static const char *const ours[] = {
        "threads", "device", "batch-size", "cache-type-k", "cache-type-v", "exact", "peak",
        "write",   "shape",
    };
    bool url = options_given(o, "url");
    for (size_t i = 0; i < ARRAY_SIZE(ours) && url; i++)
        if (options_given(o, ours[i]))
            return cli_usage("bench: --%s has no meaning with --url: the server decides it",
                             ours[i]);
    if (url && (options_given(o, "model") || o->n_arguments > 0))
        return cli_usage("bench: --url drives the model of a server, found another one");
    if (!url && options_given(o, "api-key"))
        return cli_usage("bench: --api-key is the key of --url, which is not given");
    return CLI_OK;
}

static int run_bench(const struct options *o)
{
    struct error err = { 0 };
    if (is_compare(o))
        return compare(o);
    int state = check_url_flags(o);
    if (state != CLI_OK)
        return state;
    if (o->n_arguments > 1)
        return cli_usage("bench takes one model, found '%s' behind it", options_argument(o, 1));
    struct bench b = { .o = o, .results = json_array() };
    enum status s = read_lists(&b, &err);
    if (s != STATUS_OK)
        state = cli_usage("bench: %s", err.message);
    else if (options_given(o, "write") && !options_given(o, "shape"))
        state = cli_usage("bench: --write keeps the weights of --shape, which is not given");
    else if (options_given(o, "shape") && (options_given(o, "model") || o->n_arguments > 0))
        state = cli_usage("bench: expected a model or --shape, found both");
    else if ((s = bench(&b, &err)) != STATUS_OK)
        state = cli_fail(&err);
    else if (options_flag(o, "json"))
        cli_print_json(json_incref(b.results));
    if (b.temporary) {
        (void)unlink(b.path);
        (void)rmdir(b.temporary);
    }
    json_decref(b.results);
    mem_free(b.path);
    mem_free(b.temporary);
    return state;
}

static const struct option_group *const groups[] = { &bench_options, &bench_model_options, NULL };

const struct cli_command cmd_bench = {
    .name = "bench",
    .summary = "tokens a second, and what the machine can do at most",
    .usage = "(MODEL | --shape NAME[-Lk]:QUANT | --url URL | compare A.json B.json) "
             "[-p N,...] [-n N,...] [-d N,...] [-s N,...]",
    .groups = groups,
    .max_arguments = 3,
    .model_argument = true,
    .needs_model = needs_model,
    .run = run_bench,
    .example = "ingot bench model.gguf -p 512 -n 128 -t 1,2",
};
