#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/engine_setup.h"
#include "cli/prompt_input.h"
#include "cli/term.h"
#include "engine/candidates.h"

static const struct option rows[] = {
    OPT_TEXT("--tokens", "FILE", NULL, "token ids to read, used as they are"),
    OPT_TEXT("--logits", "OUT", NULL, "write the logits of all positions, raw f32"),
    OPT_TEXT("--positions", "FILE", NULL,
             "three rows of positions (t, h, w) for multi-section "
             "rotary"),
    OPT_TEXT("--perplexity", "FILE", NULL, "perplexity of this text"),
    OPT_INT("--window", "N", "512", 2, 1e6, "tokens of a window; its second half is scored"),
    OPT_TEXT("--kl", "FILE", NULL, "compare with logits that another run has written"),
    OPT_INT("--from", "N", "0", 0, 1e9, "first position that --kl compares"),
    OPT_FLAG("--json", NULL, "accepted: the result is JSON in any case"),
};
static const struct option_group eval_options = OPTION_GROUP("eval", "Eval", rows);

/* Runs a prompt without an answer; `sink` sees the logits of positions from `first` on. */
struct reading {
    struct engine *engine;
    struct engine_model *model;
    const int32_t *positions;
    int32_t first;
    void (*sink)(void *user, int32_t position, const float *logits, int32_t n_vocab);
    void *user;
};

static enum status read_tokens(const struct reading *reading, const int32_t *tokens, size_t n,
                               struct error *err)
{
    struct request_options o = {
        .model = reading->model,
        .tokens = tokens,
        .n_tokens = (int32_t)n,
        .sampling = sampling_builtin,
        .n_logprobs = -1,
        .prompt_only = true,
        .positions = reading->positions,
        .prompt_logits = reading->sink,
        .prompt_logits_from = reading->first,
        .prompt_logits_user = reading->user,
    };
    struct request *r;
    struct event e;
    TRY(engine_submit(reading->engine, &o, &r, err));
    do {
        if (cli_interrupted())
            request_cancel(r);
        if (!request_wait_for(r, &e, 100))
            e.kind = EVENT_PROGRESS;
    } while (e.kind != EVENT_DONE);
    request_drop(r);
    if (e.finish == FINISH_CANCELLED)
        return error_set(err, STATUS_CANCELLED, "interrupted");
    if (e.finish == FINISH_ERROR) {
        *err = e.error;
        return err->status;
    }
    return STATUS_OK;
}

/* --- logits ----------------------------------------------------------------------------------- */

struct dump {
    struct file_writer file;
    enum status status; /* of the first write that failed, with its message */
    struct error error;
};

static void dump_row(void *user, int32_t position, const float *logits, int32_t n_vocab)
{
    struct dump *d = user;
    (void)position;
    if (d->status == STATUS_OK)
        d->status =
            file_writer_write(&d->file, logits, (size_t)n_vocab * sizeof(*logits), &d->error);
}

static enum status dump_logits(struct reading *reading, const struct token_list *tokens,
                               const char *path, struct error *err)
{
    struct dump d = { .status = STATUS_OK };
    TRY(file_writer_open(&d.file, path, err));
    reading->sink = dump_row;
    reading->user = &d;
    enum status status = read_tokens(reading, tokens->ids, tokens->n, err);
    if (status == STATUS_OK && d.status != STATUS_OK) {
        *err = d.error;
        status = d.status;
    }
    if (status == STATUS_OK)
        return file_writer_commit(&d.file, err);
    file_writer_abort(&d.file);
    return status;
}

static enum status read_positions(const char *path, size_t n, struct token_list *out,
                                  struct error *err)
{
    TRY(prompt_read_ids(path, out, err));
    if (out->n == 3 * n)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: expected three rows of %zu positions, found %zu "
                     "numbers",
                     path, n, out->n);
}

/* --- perplexity ------------------------------------------------------------------------------ */

struct score {
    const int32_t *window;
    int32_t n;
    double sum, squares;
    int64_t n_scored;
};

static void score_row(void *user, int32_t position, const float *logits, int32_t n_vocab)
{
    struct score *s = user;
    if (position + 1 >= s->n)
        return;
    bool has_nan;
    float best = logits_maximum(logits, n_vocab, &has_nan);
    double log_sum = (double)best + log(logits_exp_sum(logits, n_vocab, best));
    double loss = log_sum - (double)logits[s->window[position + 1]];
    s->sum += has_nan ? NAN : loss;
    s->squares += loss * loss;
    s->n_scored++;
}

static enum status score_windows(struct reading *reading, const struct options *o,
                                 struct token_list *tokens, int32_t bos, struct score *score,
                                 struct error *err)
{
    size_t window = (size_t)options_int(o, "window"), n_windows = tokens->n / window;
    if (n_windows == 0)
        return error_set(err, STATUS_INVALID, "the text has %zu tokens, a window needs %zu",
                         tokens->n, window);
    struct progress progress;
    progress_start(&progress, "perplexity", options_flag(o, "quiet"));
    enum status status = STATUS_OK;
    reading->sink = score_row;
    reading->user = score;
    reading->first = (int32_t)(window / 2);
    for (size_t i = 0; i < n_windows && status == STATUS_OK; i++) {
        int32_t *first = tokens->ids + i * window;
        if (bos >= 0)
            *first = bos;
        score->window = first;
        score->n = (int32_t)window;
        status = read_tokens(reading, first, window, err);
        progress_update(&progress, i + 1, n_windows);
    }
    progress_end(&progress);
    return status;
}

static enum status perplexity(struct reading *reading, const struct options *o,
                              const struct engine_model_info *info, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, 256u << 20);
    struct token_list tokens = { 0 };
    struct score score = { 0 };
    enum status status = prompt_read_text(options_text(o, "perplexity"), &text, err);
    if (status == STATUS_OK)
        status = tokenizer_encode(info->tokenizer, strbuf_str(&text), TOKENIZER_ADD_SPECIAL,
                                  &tokens, err);
    int32_t bos =
        tokenizer_adds_bos(info->tokenizer) ? tokenizer_role(info->tokenizer, TOKEN_ROLE_BOS) : -1;
    if (status == STATUS_OK)
        status = score_windows(reading, o, &tokens, bos, &score, err);
    if (status == STATUS_OK) {
        double n = (double)score.n_scored, mean = score.sum / n;
        double variance = score.squares / n - mean * mean;
        double value = exp(mean), error = value * sqrt(fmax(variance, 0.0) / fmax(n - 1, 1));
        cli_print_json(json_pack("{s:f, s:f, s:I, s:I, s:I, s:I}", "perplexity", value,
                                 "standard_error", error, "tokens", (json_int_t)tokens.n, "scored",
                                 (json_int_t)score.n_scored, "window",
                                 (json_int_t)options_int(o, "window"), "windows",
                                 (json_int_t)(tokens.n / (size_t)options_int(o, "window"))));
    }
    token_list_release(&tokens);
    strbuf_release(&text);
    return status;
}

/* --- KL --------------------------------------------------------------------------------------- */

struct comparison {
    const float *other; /* [n][n_vocab] */
    double *kl;
    int32_t n_done, n_agree;
};

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* KL(other || ours) of one position. */
static void compare_row(void *user, int32_t position, const float *ours, int32_t n_vocab)
{
    struct comparison *c = user;
    const float *other = c->other + (size_t)position * (size_t)n_vocab;
    bool has_nan;
    float best_p = logits_maximum(other, n_vocab, &has_nan);
    float best_q = logits_maximum(ours, n_vocab, &has_nan);
    double log_p = (double)best_p + log(logits_exp_sum(other, n_vocab, best_p));
    double log_q = (double)best_q + log(logits_exp_sum(ours, n_vocab, best_q));
    double kl = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) {
        double p = (double)other[i] - log_p;
        if (p > -60.0)
            kl += exp(p) * (p - ((double)ours[i] - log_q));
    }
    c->kl[c->n_done++] = kl;
    c->n_agree += argmax(other, n_vocab) == argmax(ours, n_vocab);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_comparison(struct comparison *c)
{
    size_t n = (size_t)c->n_done;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += c->kl[i];
    qsort(c->kl, n, sizeof(*c->kl), compare_doubles);
    size_t p99 = (size_t)ceil(0.99 * (double)n);
    cli_print_json(json_pack("{s:f, s:f, s:f, s:f, s:I}", "mean_kl", sum / (double)n, "p99_kl",
                             c->kl[p99 > 0 ? p99 - 1 : 0], "max_kl", c->kl[n - 1], "top1_agreement",
                             (double)c->n_agree / (double)n, "positions", (json_int_t)n));
}

static enum status compare(struct reading *reading, const struct token_list *tokens,
                           const char *path, int32_t n_vocab, struct error *err)
{
    struct mapped_file file;
    TRY(mapped_file_open(&file, path, err));
    size_t expected = tokens->n * (size_t)n_vocab * sizeof(float);
    enum status status = STATUS_OK;
    if (file.size != expected)
        status = error_set(err, STATUS_INVALID,
                           "%s: expected %zu bytes (%zu positions of %d "
                           "logits), found %zu",
                           path, expected, tokens->n, n_vocab, file.size);
    struct comparison c = { .other = (const float *)(const void *)file.bytes };
    c.kl = mem_array(double, tokens->n);
    reading->sink = compare_row;
    reading->user = &c;
    if (status == STATUS_OK && (size_t)reading->first >= tokens->n)
        status = error_set(err, STATUS_INVALID, "--from %d: there are %zu positions",
                           reading->first, tokens->n);
    if (status == STATUS_OK)
        status = read_tokens(reading, tokens->ids, tokens->n, err);
    if (status == STATUS_OK && mapped_file_damaged(&file))
        status = error_set(err, STATUS_IO, "%s was cut short while it was read", path);
    if (status == STATUS_OK)
        print_comparison(&c);
    mem_free(c.kl);
    mapped_file_close(&file);
    return status;
}

/* --- the command --------------------------------------------------------------------------- */

static enum status eval_tokens(struct reading *reading, const struct options *o, struct error *err)
{
    const struct engine_model_info *info = engine_model_info(reading->model);
    struct token_list tokens = { 0 }, positions = { 0 };
    enum status status = prompt_read_ids(options_text(o, "tokens"), &tokens, err);
    if (status == STATUS_OK && options_given(o, "positions"))
        status = read_positions(options_text(o, "positions"), tokens.n, &positions, err);
    reading->positions = positions.ids;
    if (status == STATUS_OK && options_given(o, "logits"))
        status = dump_logits(reading, &tokens, options_text(o, "logits"), err);
    else if (status == STATUS_OK) {
        reading->first = (int32_t)options_int(o, "from");
        status = compare(reading, &tokens, options_text(o, "kl"), info->n_vocab, err);
    }
    token_list_release(&tokens);
    token_list_release(&positions);
    return status;
}

static enum status eval(const struct options *o, struct engine_setup *s, struct error *err)
{
    const char *path;
    size_t n_used;
    TRY(cli_model(o, &path, &n_used, err));
    TRY(engine_setup_read(s, o, err));
    s->engine.max_sequences = 1;
    s->engine.no_text = !options_given(o, "perplexity");
    struct reading reading = { 0 };
    TRY(engine_setup_load(s, o, path, &reading.engine, &reading.model, err));
    cli_interrupt_catch();
    enum status status = options_given(o, "perplexity")
                             ? perplexity(&reading, o, engine_model_info(reading.model), err)
                             : eval_tokens(&reading, o, err);
    engine_free(reading.engine);
    return status;
}

static int run_eval(const struct options *o)
{
    int n = options_given(o, "logits") + options_given(o, "kl") + options_given(o, "perplexity");
    if (n != 1)
        return cli_usage("eval: expected one of --logits, --kl, --perplexity");
    if (!options_given(o, "perplexity") && !options_given(o, "tokens"))
        return cli_usage("eval: --logits and --kl need --tokens FILE");
    struct error err = { 0 };
    struct engine_setup setup = { 0 };
    enum status status = eval(o, &setup, &err);
    engine_setup_release(&setup);
    return status == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static const struct option_group *const groups[] = {
    &eval_options,    &model_options, &template_options, &engine_options, &device_options,
    &foreign_options, NULL,
};

const struct cli_command cmd_eval = {
    .name = "eval",
    .summary = "perplexity of a text, logits of token ids, distance to another run",
    .usage = "MODEL (--perplexity FILE | --tokens FILE (--logits OUT | --kl OTHER))",
    .groups = groups,
    .max_arguments = 1,
    .model_argument = true,
    .run = run_eval,
    .example = "ingot eval model.gguf --perplexity text.txt",
};
