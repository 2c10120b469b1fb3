#include "cli/engine_setup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "cli/term.h"
#include "quant/kv_codec.h"

#define MAX_TEMPLATE_BYTES (4u << 20)
#define MAX_SCRIPT_BYTES (64u << 20)
#define MAX_BIAS 1000000

static void write_log(void *user, enum log_level level, struct str line)
{
    (void)user;
    if (!file_takes_output(STDERR_FILENO)) /* the engine's thread may not wait for a reader */
        return;
    fprintf(stderr, "%s: %.*s\n", level <= LOG_WARNING ? log_level_name(level) : "note",
            STR_ARG(line));
}

static enum status read_text(struct engine_setup *s, const char *path, size_t max, struct str *out,
                             struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, max);
    enum status status = file_read(path, max, &text, err);
    if (status == STATUS_OK)
        *out = arena_str(&s->arena, strbuf_str(&text));
    strbuf_release(&text);
    return status;
}

static enum status read_script(struct engine_setup *s, const char *path, struct error *err)
{
    json_t *turns;
    TRY(json_parse_file(path, MAX_SCRIPT_BYTES, 0, &turns, err));
    struct str *list = arena_array(&s->arena, struct str, json_array_size(turns) + 1);
    enum status status = json_is_array(turns) ? STATUS_OK : STATUS_INVALID;
    size_t i;
    json_t *turn;
    json_array_foreach(turns, i, turn)
    {
        if (!json_is_string(turn))
            status = STATUS_INVALID;
        list[i] = arena_str(&s->arena, json_str(turn));
    }
    s->script = list;
    s->n_script = json_array_size(turns);
    json_decref(turns);
    return status == STATUS_OK
               ? status
               : error_set(err, status, "%s: expected a JSON array of strings", path);
}

static bool take_type(const struct options *o, const char *name, enum tensor_type *type)
{
    return options_given(o, name) && kv_type_from_name(str_of(options_text(o, name)), type);
}

static void take_cache(const struct options *o, struct engine_options *e)
{
    const char *word = options_word(o, "cache");
    bool off = word && strcmp(word, "off") == 0;
    e->cache_bytes = (int64_t)MIN(options_bytes(o, "cache"), (uint64_t)INT64_MAX);
    if (word)
        e->cache_bytes = off ? -1 : 0;
    else if (e->cache_bytes == 0) /* --cache 0 */
        e->cache_bytes = -1;
    e->no_reuse = !options_flag(o, "cache-prompt");
    e->loop_guard = options_flag(o, "loop-guard");
    e->cache_dir = options_text(o, "cache-dir");
    e->session_dir = options_text(o, "session-dir");
    e->cache_dir_limit = (int64_t)MIN(options_bytes(o, "cache-dir-limit"), (uint64_t)INT64_MAX);
    e->checkpoint_interval = (int32_t)options_int(o, "checkpoint-interval");
}

enum status engine_setup_read(struct engine_setup *s, const struct options *o, struct error *err)
{
    struct engine_options *e = &s->engine;
    bool verbose = options_flag(o, "verbose"), quiet = options_flag(o, "quiet");
    arena_init(&s->arena, 0);
    s->log = (struct log_sink){ .write = write_log,
                                .level = quiet     ? LOG_ERROR
                                         : verbose ? LOG_DEBUG
                                                   : LOG_INFO };
    e->log = &s->log;
    e->device = options_text(o, "device");
    e->n_threads = (int)options_int(o, "threads");
    e->mlock = options_flag(o, "mlock");
    e->no_mmap = !options_flag(o, "mmap");
    e->tokenizer_path = options_text(o, "tokenizer");
    e->chat_template = options_text(o, "chat-template");
    if (options_given(o, "chat-template-file")) {
        struct str text;
        TRY(read_text(s, options_text(o, "chat-template-file"), MAX_TEMPLATE_BYTES, &text, err));
        e->chat_template = text.ptr;
    }
    e->exact = options_flag(o, "exact");
    e->deterministic = options_flag(o, "deterministic");
    e->context = (int32_t)options_int(o, "context");
    e->context_full = options_given(o, "context") && e->context == 0;
    e->batch_tokens = (int32_t)options_int(o, "batch-size");
    e->lookup = (int32_t)options_int(o, "lookup");
    e->k_type_set = take_type(o, "cache-type-k", &e->k_type);
    e->v_type_set = take_type(o, "cache-type-v", &e->v_type);
    take_cache(o, e);
    if (options_given(o, "script"))
        TRY(read_script(s, options_text(o, "script"), err));
    return STATUS_OK;
}

/* ID=B, as in a request; the engine compares the id with the vocabulary. */
static bool parse_bias(struct str text, struct logit_bias *out)
{
    size_t split = str_find(text, STR("="), 0);
    int64_t token;
    double value;
    if (split == STR_NONE || !number_parse_i64(str_slice(text, 0, split), &token) ||
        !number_parse_double(str_slice(text, split + 1, text.len), &value))
        return false;
    *out = (struct logit_bias){ (int32_t)token, (float)value };
    return token >= 0 && token <= INT32_MAX && fabs(value) <= MAX_BIAS;
}

int engine_setup_check(const struct options *o, const char *command)
{
    struct logit_bias bias;
    for (size_t i = 0; i < options_count(o, "logit-bias"); i++)
        if (!parse_bias(str_of(options_item(o, "logit-bias", i)), &bias))
            return cli_usage("%s: --logit-bias: expected ID=B, B from -%d to %d, found \"%s\"",
                             command, MAX_BIAS, MAX_BIAS, options_item(o, "logit-bias", i));
    return CLI_OK;
}

static enum status read_bias(struct engine_setup *s, const struct options *o, struct error *err)
{
    size_t n = options_count(o, "logit-bias");
    struct logit_bias *bias = arena_array(&s->arena, struct logit_bias, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct str text = str_of(options_item(o, "logit-bias", i));
        if (!parse_bias(text, &bias[i]))
            return error_set(err, STATUS_INVALID, "--logit-bias: expected ID=B, found '%.*s'",
                             STR_ARG(text));
    }
    s->sampling.bias = bias;
    s->sampling.n_bias = (int32_t)n;
    return STATUS_OK;
}

/* "top_k" as a flag is "top-k". */
static const char *flag_name(char *buffer, size_t n, const char *field)
{
    snprintf(buffer, n, "%s", field);
    for (char *c = buffer; *c; c++)
        if (*c == '_')
            *c = '-';
    return buffer;
}

void engine_setup_read_sampling(struct engine_setup *s, const struct options *o)
{
    char flag[32];
#define OPTION_double options_real
#define OPTION_int32_t (int32_t)options_int
#define READ(name, type, value, low, high) \
    if (options_given(o, flag_name(flag, sizeof flag, #name))) { \
        s->sampling.name = OPTION_##type(o, flag); \
        s->sampling.given |= 1u << SAMPLING_##name; \
    }
    SAMPLING_FIELDS(READ)
#undef READ
#undef OPTION_double
#undef OPTION_int32_t
    s->sampling.has_seed = options_given(o, "seed") && !options_word(o, "seed");
    s->sampling.seed = s->sampling.has_seed ? options_u64(o, "seed") : 0;
    s->max_tokens = (int32_t)options_int(o, "max-tokens");
}

enum status engine_setup_read_answer(struct engine_setup *s, const struct options *o,
                                     struct error *err)
{
    size_t n = options_count(o, "stop");
    struct str *stop = arena_array(&s->arena, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        stop[i] = str_of(options_item(o, "stop", i));
    s->stop = stop;
    s->n_stop = (int32_t)n;
    s->min_tokens = (int32_t)options_int(o, "min-tokens");
    s->ignore_eos = options_flag(o, "ignore-eos");
    return read_bias(s, o, err);
}

void engine_setup_release(struct engine_setup *s)
{
    arena_release(&s->arena);
}

static void show_progress(void *user, int64_t done, int64_t all)
{
    progress_update(user, (uint64_t)done, (uint64_t)all);
}

enum status engine_setup_open(struct engine_setup *s, const struct options *o,
                              struct engine **engine, struct error *err)
{
    progress_start(&s->progress, "loading", options_flag(o, "quiet"));
    s->engine.progress = show_progress;
    s->engine.progress_user = &s->progress;
    return engine_new(&s->engine, engine, err);
}

enum status engine_setup_load(struct engine_setup *s, const struct options *o, const char *path,
                              struct engine **engine, struct engine_model **model,
                              struct error *err)
{
    TRY(engine_setup_open(s, o, engine, err));
    enum status status = engine_load(*engine, path, model, err);
    progress_end(&s->progress);
    if (status != STATUS_OK) {
        engine_free(*engine);
        *engine = NULL;
    }
    return status;
}
