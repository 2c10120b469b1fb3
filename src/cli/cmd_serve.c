/* ingot serve: the HTTP server. Ends at SIGTERM or SIGINT after running requests had their time;
 * a second signal ends it at once. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/cli.h"
#include "cli/engine_setup.h"
#include "cli/prompt_input.h"
#include "cli/serve_models.h"
#include "cli/term.h"
#include "engine/admission_window.h"
#include "server/api_keys.h"
#include "server/server.h"

struct serve {
    struct engine_setup setup;
    struct server_options server;
    json_t *template_defaults;
    FILE *log_file; /* NULL: stderr */
    pthread_mutex_t lock;   /* guards the next */
    struct server *running; /* it takes what the engine has to say; NULL: not yet, or no more */
};

static const char **list_of(struct serve *s, const struct options *o, const char *name, size_t *n)
{
    *n = options_count(o, name);
    const char **items = arena_array(&s->setup.arena, const char *, *n + 1);
    for (size_t i = 0; i < *n; i++)
        items[i] = options_item(o, name, i);
    return items;
}

/* Keys: --api-key and INGOT_API_KEY (the same option), then the lines of --api-keys. */
static enum status read_keys(struct serve *s, const struct options *o, struct error *err)
{
    const char *path = options_text(o, "api-keys");
    struct api_keys keys;
    api_keys_init(&keys, &s->setup.arena);
    for (size_t i = 0; i < options_count(o, "api-key"); i++) {
        char where[32];
        snprintf(where, sizeof where, "--api-key %zu", i + 1);
        TRY(api_keys_add(&keys, str_of(options_item(o, "api-key", i)), where, err));
    }
    if (path)
        TRY(api_keys_read(&keys, path, err));
    s->server.api_keys = keys.key;
    s->server.n_api_keys = keys.n;
    return STATUS_OK;
}

static enum status open_log(struct serve *s, const struct options *o, struct error *err)
{
    const char *path = options_text(o, "log-file");
    s->server.log = stderr;
    if (path) {
        s->log_file = fopen(path, "ae");
        if (!s->log_file)
            return error_set(err, STATUS_IO, "--log-file %s: cannot be opened for writing: %s",
                             path, strerror(errno));
        s->server.log = s->log_file;
    }
    s->server.colour = term_has_colour(s->server.log);
    return STATUS_OK;
}

/* While requests are served the engine's messages are notices in the log. */
static void write_log(void *user, enum log_level level, struct str line)
{
    struct serve *s = user;
    pthread_mutex_lock(&s->lock);
    if (s->running)
        server_log(s->running, line);
    else
        fprintf(stderr, "%s: %.*s\n", level <= LOG_WARNING ? log_level_name(level) : "note",
                STR_ARG(line));
    pthread_mutex_unlock(&s->lock);
}

static void log_through(struct serve *s, struct server *server)
{
    pthread_mutex_lock(&s->lock);
    s->running = server;
    pthread_mutex_unlock(&s->lock);
}

static enum status read_options(struct serve *s, const struct options *o, struct error *err)
{
    struct server_options *v = &s->server;
    TRY(engine_setup_read(&s->setup, o, err));
    s->setup.log.write = write_log;
    s->setup.log.user = s;
    engine_setup_read_sampling(&s->setup, o);
    TRY(read_keys(s, o, err));
    TRY(open_log(s, o, err));
    v->template_defaults = s->template_defaults = json_object();
    TRY(prompt_take_kwargs(o, s->template_defaults, err));
    v->host = options_text(o, "host");
    v->port = (int)options_int(o, "port");
    v->cors_origins = list_of(s, o, "cors-origin", &v->n_cors_origins);
    v->concurrency = (int)options_int(o, "concurrency");
    v->max_connections = (int)options_int(o, "max-connections");
    v->n_workers = 2;
    v->body_timeout = options_real(o, "body-timeout");
    v->request_timeout = options_real(o, "request-timeout");
    v->write_timeout = options_real(o, "write-timeout");
    v->idle_timeout = options_real(o, "idle-timeout");
    v->drain_timeout = options_real(o, "drain-timeout");
    v->keep_alive_interval = options_real(o, "sse-ping-interval");
    v->strict_model = options_flag(o, "strict-model");
    v->models_max = (int)options_int(o, "models-max");
    v->model_idle_unload = options_real(o, "model-idle-unload");
    v->models_autoload = options_flag(o, "models-autoload");
    v->metrics_public = options_flag(o, "metrics-public");
    v->parse_special = options_flag(o, "parse-special");
    v->max_tokens = s->setup.max_tokens;
    v->max_output_tokens = (int32_t)options_int(o, "max-output-tokens");
    v->sampling = s->setup.sampling;
    v->script = s->setup.script;
    v->n_script = s->setup.n_script;
    v->quiet = options_flag(o, "quiet");
    v->verbose = options_flag(o, "verbose");
    v->log_json = options_flag(o, "log-json");
    v->live_row = term_is_terminal(v->log) && !v->quiet && !v->log_json;
    s->setup.engine.max_requests = v->concurrency * 32; /* the server counts requests, each of n */
    s->setup.engine.max_sequences = (int32_t)options_int(o, "parallel");
    s->setup.engine.admission_window_ms = options_word(o, "admission-window")
                                              ? ADMISSION_WINDOW_MOST_MS
                                              : (int32_t)options_int(o, "admission-window");
    return STATUS_OK;
}

static void print_banner(const struct serve *s, const struct server *server,
                         const struct engine_model *model)
{
    const struct engine_model_info *info = engine_model_info(model);
    if (s->server.quiet)
        return;
    fprintf(stderr, "ingot " INGOT_VERSION ": %s (%s, %s, %.1f M parameters), context %d tokens\n",
            info->name, info->family, info->type_name, (double)info->n_parameters / 1e6,
            info->context);
    if (info->chat_is_fallback)
        fprintf(stderr, "note: the model has no chat template: ChatML is used\n");
    if (!server_host_is_loopback(s->server.host) && s->server.n_api_keys == 0)
        fprintf(stderr, "warning: reachable from other machines without an API key (--api-key)\n");
    if (strncmp(s->server.host, "unix:", 5) == 0)
        fprintf(stderr, "listening on %s\n", s->server.host);
    else
        fprintf(stderr,
                strchr(s->server.host, ':') ? "listening on http://[%s]:%d\n"
                                            : "listening on http://%s:%d\n",
                s->server.host, server_port(server));
}

static void print_others(const struct serve *s, const struct server_model *models, size_t n)
{
    for (size_t i = 1; i < n && !s->server.quiet; i++)
        fprintf(stderr, "%s%s%s", i == 1 ? "loaded on demand: " : ", ", models[i].id,
                i + 1 == n ? "\n" : "");
}

/* Only the waiting thread takes the signals: threads started after this inherit the mask. */
static void block_signals(sigset_t *ends)
{
    sigemptyset(ends);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write */
}

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* One pass before anybody waits for it: touches the weights and fails now if it must. */
static enum status warm_up(struct engine *engine, struct engine_model *model, struct error *err)
{
    int32_t token = 0;
    struct request *request;
    struct event e;
    struct request_options o = { .model = model, .tokens = &token, .n_tokens = 1, .max_tokens = 1,
                                 .sampling = engine_model_info(model)->defaults,
                                 .n_logprobs = -1, .ignore_eos = true };
    TRY(engine_submit(engine, &o, &request, err));
    enum status status = STATUS_OK;
    while (request_wait(request, &e))
        if (e.kind == EVENT_DONE && e.finish == FINISH_ERROR)
            status = error_set(err, e.error.status, "warm-up: %s", e.error.message);
    request_drop(request);
    return status;
}

/* The port is bound first, so that who waits for the model can ask for its state. */
static enum status start(struct serve *s, const struct options *o, struct engine *engine,
                         const struct server_model *models, size_t n_models,
                         struct server **server, struct engine_model **model, struct error *err)
{
    TRY(server_start(&s->server, engine, models, n_models, server, err));
    enum status status = server_load(*server, model, err);
    progress_end(&s->setup.progress);
    if (status == STATUS_OK && options_flag(o, "warmup"))
        status = warm_up(engine, *model, err);
    if (status == STATUS_OK)
        server_ready(*server);
    return status;
}

static int serve(struct serve *s, const struct options *o, struct error *err)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct server_model *models;
    struct server *server = NULL;
    size_t n_models;
    sigset_t ends;
    int which;
    block_signals(&ends);
    raise_file_limit();
    if (serve_models_read(&s->setup.arena, o, &s->setup.engine, &models, &n_models, err) !=
            STATUS_OK ||
        engine_setup_open(&s->setup, o, &engine, err) != STATUS_OK)
        return cli_fail(err);
    if (start(s, o, engine, models, n_models, &server, &model, err) != STATUS_OK) {
        server_stop(server);
        engine_free(engine);
        return cli_fail(err);
    }
    print_banner(s, server, model);
    print_others(s, models, n_models);
    log_through(s, server);
    sigwait(&ends, &which);
    log_through(s, NULL);
    pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
    server_stop(server);
    engine_free(engine);
    return CLI_OK;
}

static int run(const struct options *o)
{
    struct serve s = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct error err = { 0 };
    int state = CLI_FAILED;
    if (read_options(&s, o, &err) == STATUS_OK)
        state = serve(&s, o, &err);
    else
        state = err.status == STATUS_INVALID ? cli_usage("%s", err.message) : cli_fail(&err);
    if (s.log_file)
        fclose(s.log_file);
    json_decref(s.template_defaults);
    engine_setup_release(&s.setup);
    return state;
}

static bool needs_model(const struct options *o)
{
    return !options_given(o, "models-dir") || o->n_arguments > 0;
}

static const struct option request_rows[] = {
    OPT_REFUSED("--stop -r --reverse-prompt --logit-bias -l --min-tokens --ignore-eos",
                "it belongs to a request"),
};
static const struct option_group request_options = {
    "request", "Fields of a request", request_rows, ARRAY_SIZE(request_rows), true,
};

static const struct option_group *const groups[] = {
    &model_options,    &server_options,   &engine_options,  &device_options,
    &template_options, &sampling_options, &request_options, &foreign_options, NULL,
};

const struct cli_command cmd_serve = {
    .name = "serve",
    .summary = "HTTP server with OpenAI's API",
    .usage = "MODEL... [--host ADDRESS] [--port N] [--api-key KEY]",
    .groups = groups,
    .read_variables = true,
    .max_arguments = 1000,
    .run = run,
    .example = "ingot serve model.gguf --port 8080",
    .model_argument = true,
    .needs_model = needs_model,
};
