#include "engine/engine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/cpu_device.h"
#include "engine/disk_store.h"
#include "engine/engine_internal.h"
#include "engine/load_model.h"
#include "engine/model_sizes.h"
#include "engine/plan_device.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/scheduler_internal.h"
#include "engine/session_table.h"
#include "engine/sessions.h"
#include "text/tokenizer/tokenizer.h"

#define REQUESTS_DEFAULT 64
#define LOAD_SLICE_NS 5000000 /* what a load takes of the device while others wait */
#define CACHE_DIR_LIMIT (8ll << 30)

void engine_wake(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->poked = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

void engine_note_cancel(struct engine *e)
{
    atomic_fetch_add(&e->n_cancels, 1);
    engine_wake(e);
}

/* --- the engine thread ---------------------------------------------------------------------- */

/* With the device lock: whoever holds it finds every request of a model in its scheduler or in
 * `incoming`. */
static struct engine_model *take_incoming(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    struct engine_model *models = e->models;
    struct request *list = e->incoming;
    e->incoming = NULL;
    e->incoming_end = &e->incoming;
    pthread_mutex_unlock(&e->lock);
    while (list) {
        struct request *r = list;
        list = r->next;
        r->next = NULL;
        scheduler_add(r->model->scheduler, r);
    }
    return models;
}

static void publish_counts(struct engine *e, struct engine_model *models)
{
    struct scheduler_counts all = { 0 };
    for (struct engine_model *m = models; m; m = m->next) {
        struct scheduler_counts c = scheduler_count(m->scheduler);
        scheduler_publish(m->scheduler);
        all.n_running += c.n_running;
        all.n_waiting += c.n_waiting;
        all.pages_used += c.pages_used;
        all.pages_all += c.pages_all;
    }
    atomic_store(&e->n_running, all.n_running);
    atomic_store(&e->n_waiting, all.n_waiting);
    atomic_store(&e->pages_used, all.pages_used);
    atomic_store(&e->pages_all, all.pages_all);
}

static bool run_passes(struct engine *e)
{
    bool worked = false;
    turn_lock(&e->device_lock);
    struct engine_model *models = take_incoming(e);
    for (struct engine_model *m = models; m; m = m->next)
        worked |= scheduler_pass(m->scheduler);
    publish_counts(e, models);
    turn_unlock(&e->device_lock);
    return worked;
}

/* With `lock`. */
static void wait_at_most(struct engine *e, uint64_t ns)
{
    uint64_t until = clock_ns() + ns;
    struct timespec time = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
    pthread_cond_timedwait(&e->wake, &e->lock, &time);
}

/* With `lock`: returns when there may be something to do. */
static void wait_for_work(struct engine *e, bool worked)
{
    bool idle = !e->incoming && e->n_running == 0 && e->n_waiting == 0;
    uint64_t left;
    if (idle)
        admission_window_rest(&e->window);
    while (!worked && !e->poked && !e->incoming && !e->stopping)
        pthread_cond_wait(&e->wake, &e->lock);
    while (idle && e->incoming && !e->stopping &&
           (left = admission_window_left(&e->window, clock_ns())) > 0)
        wait_at_most(e, left);
}

static void *engine_main(void *argument)
{
    struct engine *e = argument;
    bool worked = false, stopping = false;
    while (!stopping) {
        pthread_mutex_lock(&e->lock);
        wait_for_work(e, worked);
        e->poked = false;
        stopping = e->stopping;
        pthread_mutex_unlock(&e->lock);
        worked = !stopping && run_passes(e);
    }
    turn_lock(&e->device_lock);
    struct engine_model *models = take_incoming(e);
    for (struct engine_model *m = models; m; m = m->next)
        scheduler_stop(m->scheduler);
    turn_unlock(&e->device_lock);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------ */

static const char *keep_text(struct engine *e, int index, const char *text)
{
    if (!text)
        return NULL;
    e->texts[index] = mem_string(text, strlen(text));
    return e->texts[index];
}

static enum status open_device(const struct engine_options *o, struct device **out,
                               struct error *err)
{
    const char *name = o->device ? o->device : "auto";
    if (strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "device '%s': this version computes on the CPU only (auto, cpu)", name);
    struct cpu_device_options cpu = {
        .n_threads = o->n_threads, .exact = o->exact, .deterministic = o->deterministic,
        .isa = o->isa,
    };
    return cpu_device_new(&cpu, out, err);
}

static void init_wake(struct engine *e)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&e->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static struct engine *engine_alloc(const struct engine_options *o)
{
    struct engine *e = mem_new(struct engine);
    e->options = *o;
    e->options.device = keep_text(e, 0, o->device);
    e->options.isa = keep_text(e, 1, o->isa);
    e->options.tokenizer_path = keep_text(e, 2, o->tokenizer_path);
    e->options.chat_template = keep_text(e, 3, o->chat_template);
    e->options.cache_dir = keep_text(e, 4, o->cache_dir);
    e->options.session_dir = keep_text(e, 5, o->session_dir);
    if (e->options.max_requests <= 0)
        e->options.max_requests = REQUESTS_DEFAULT;
    e->host_cache_bytes = host_cache_budget(&e->options);
    e->incoming_end = &e->incoming;
    engine_metrics_init(&e->metrics);
    pthread_mutex_init(&e->lock, NULL);
    turn_lock_init(&e->device_lock);
    init_wake(e);
    int32_t n_seats = o->max_sequences > 0 ? o->max_sequences : SEQUENCES_DEFAULT;
    admission_window_init(&e->window, o->admission_window_ms, n_seats);
    return e;
}

static void wake_engine(void *engine)
{
    engine_wake(engine);
}

static enum status open_disk(struct engine *e, struct error *err)
{
    const struct engine_options *o = &e->options;
    if (!(o->cache_dir || o->session_dir) || o->no_reuse)
        return STATUS_OK;
    struct disk_store_options disk = {
        .cache = o->cache_dir, .sessions = o->session_dir, .log = o->log, .metrics = &e->metrics,
        .limit = o->cache_dir_limit > 0 ? o->cache_dir_limit : CACHE_DIR_LIMIT,
        .wake = wake_engine, .wake_user = e,
    };
    return disk_store_new(&disk, &e->disk, err);
}

enum status engine_new(const struct engine_options *o, struct engine **out, struct error *err)
{
    struct engine *e = engine_alloc(o);
    enum status status = open_device(o, &e->dev, err);
    if (status == STATUS_OK)
        status = open_disk(e, err);
    if (status == STATUS_OK && thread_start(&e->thread, engine_main, e) != 0)
        status = error_set(err, STATUS_NO_MEMORY, "the engine thread cannot be started");
    else
        e->has_thread = status == STATUS_OK;
    if (status != STATUS_OK) {
        engine_free(e);
        return status;
    }
    *out = e;
    return STATUS_OK;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    if (e->has_thread) {
        atomic_store(&e->stop_now, true);
        pthread_mutex_lock(&e->lock);
        e->stopping = true;
        pthread_cond_signal(&e->wake);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    while (e->models) {
        struct engine_model *m = e->models;
        e->models = m->next;
        load_model_free(m);
    }
    disk_store_free(e->disk);
    if (e->dev)
        e->dev->ops->release(e->dev);
    for (size_t i = 0; i < ARRAY_SIZE(e->texts); i++)
        mem_free(e->texts[i]);
    pthread_mutex_destroy(&e->lock);
    turn_lock_destroy(&e->device_lock);
    pthread_cond_destroy(&e->wake);
    mem_free(e);
}

/* While a model is loaded others run: they get the device between two tensors. */
static void loading(void *user, int64_t done, int64_t all)
{
    struct engine *e = user;
    if (e->options.progress)
        e->options.progress(e->options.progress_user, done, all);
    turn_lock_yield(&e->device_lock, LOAD_SLICE_NS);
}

static void add_model(struct engine *e, struct engine_model *m)
{
    pthread_mutex_lock(&e->lock);
    m->next = e->models;
    e->models = m;
    e->poked = true; /* so that the numbers of pages are published */
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

/* With the device lock. */
static void share_host_cache(struct engine *e)
{
    int64_t n = 0;
    for (const struct engine_model *m = e->models; m; m = m->next)
        n++;
    for (struct engine_model *m = e->models; m; m = m->next)
        scheduler_set_host_cache(m->scheduler, e->host_cache_bytes / n);
}

enum status engine_load(struct engine *e, const char *path, struct engine_model **out,
                        struct error *err)
{
    struct engine_model *m = NULL;
    turn_lock(&e->device_lock);
    struct model_progress progress = { loading, e };
    enum status status = load_model(e, e->dev, path, &progress, &m, err);
    if (status == STATUS_OK)
        add_model(e, m);
    share_host_cache(e);
    turn_unlock(&e->device_lock);
    TRY(status);
    *out = m;
    return STATUS_OK;
}

void engine_unload(struct engine *e, struct engine_model *m)
{
    turn_lock(&e->device_lock);
    take_incoming(e);
    scheduler_stop(m->scheduler); /* requests that were dropped, but not yet seen to be */
    pthread_mutex_lock(&e->lock);
    struct engine_model **link = &e->models;
    while (*link && *link != m)
        link = &(*link)->next;
    CHECK(*link == m);
    *link = m->next;
    e->poked = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    load_model_free(m);
    share_host_cache(e);
    turn_unlock(&e->device_lock);
}

const struct engine_model_info *engine_model_info(const struct engine_model *m)
{
    return &m->info;
}

static void fill_plan(const struct engine *e, const struct engine_model *m,
                      const struct plan_device *dev, struct engine_plan *out)
{
    const struct model_sizes *sizes = &m->sizes;
    *out = (struct engine_plan){
        .n_threads = cpu_device_threads(e->dev),
        .context = sizes->state.context,
        .context_trained = m->info.context_trained,
        .sequences = sizes->state.n_sequences,
        .batch_tokens = sizes->state.batch_tokens,
        .page_tokens = STATE_PAGE_TOKENS,
        .pool_tokens = sizes->state.pool_tokens,
        .n_parameters = m->info.n_parameters,
        .file_bytes = m->info.file_bytes,
        .weight_bytes = dev->weight_bytes,
        .mapped_bytes = dev->mapped_bytes,
        .kv_bytes = sizes->kv_bytes,
        .scratch_bytes = (int64_t)sizes->scratch_bytes,
        .host_cache_bytes = e->host_cache_bytes,
        .k_type = sizes->state.k_type,
        .v_type = sizes->state.v_type,
        .n_tensors = m->model->n_weights,
    };
    snprintf(out->name, sizeof(out->name), "%s", m->info.name);
    snprintf(out->family, sizeof(out->family), "%s", m->info.family);
    snprintf(out->type_name, sizeof(out->type_name), "%s", m->info.type_name);
    snprintf(out->device, sizeof(out->device), "%s", e->dev->name);
    snprintf(out->isa, sizeof(out->isa), "%s", cpu_device_isa(e->dev));
}

enum status engine_plan(const struct engine_options *o, const char *path, struct engine_plan *out,
                        struct error *err)
{
    struct engine *e = engine_alloc(o);
    enum status status = open_device(o, &e->dev, err);
    if (status == STATUS_OK) {
        struct plan_device dev;
        struct engine_model *m = NULL;
        plan_device_init(&dev, e->dev);
        status = load_model(e, &dev.base, path, NULL, &m, err);
        if (status == STATUS_OK)
            fill_plan(e, m, &dev, out);
        load_model_free(m);
    }
    engine_free(e);
    return status;
}

/* --- requests -------------------------------------------------------------------------------- */

static enum status check_request(const struct request_options *o, struct error *err)
{
    const struct engine_model_info *info = engine_model_info(o->model);
    if (o->n_tokens < 1)
        return error_set(err, STATUS_INVALID, "the prompt is empty: expected at least one token");
    int32_t room = o->prompt_only ? info->context : info->context - 1;
    if (o->n_tokens > room)
        return error_set(err, STATUS_INVALID,
                         "prompt is too long: %d tokens > %d maximum (context %d%s)", o->n_tokens,
                         room, info->context, o->prompt_only ? "" : ", one token of answer");
    for (int32_t i = 0; i < o->n_tokens; i++)
        if (o->tokens[i] < 0 || o->tokens[i] >= info->n_vocab)
            return error_set(err, STATUS_INVALID, "token %d of the prompt: expected an id below "
                             "%d, found %d", i, info->n_vocab, o->tokens[i]);
    for (int32_t i = 0; i < o->sampling.n_bias; i++)
        if (o->sampling.bias[i].token < 0 || o->sampling.bias[i].token >= info->n_vocab)
            return error_set(err, STATUS_INVALID, "logit bias: expected a token id below %d, "
                             "found %d", info->n_vocab, o->sampling.bias[i].token);
    if (o->n_stop > 0 && !info->tokenizer)
        return error_set(err, STATUS_INVALID, "stop strings need a model loaded with its text");
    return STATUS_OK;
}

static enum status tokenize_script(struct request *r, const struct str *script, struct error *err)
{
    const struct engine_model_info *info = engine_model_info(r->model);
    if (!info->tokenizer)
        return error_set(err, STATUS_INVALID, "a script needs a model loaded with its text");
    r->replays = true;
    return tokenizer_encode(info->tokenizer, *script, TOKENIZER_PARSE_SPECIAL, &r->forced, err);
}

static enum status session_of(struct engine *e, const struct request_options *o, int32_t n,
                              struct request *r, struct error *err)
{
    const struct scheduler *s = o->model->scheduler;
    if (n != 1)
        return error_set(err, STATUS_INVALID,
                         "session: expected one answer to one prompt, found %d", n);
    if (o->no_reuse || o->positions)
        return error_set(err, STATUS_INVALID,
                         "session: a request without reuse leaves nothing to keep");
    TRY(sessions_available(e, err));
    TRY(session_claim(disk_store_sessions(e->disk), o->session, &s->disk.shape, &r->session, err));
    return o->session_strict ? sessions_check_extended(e, r, err) : STATUS_OK;
}

static void drop_new(struct request **list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        request_unref(list[i]);
        request_unref(list[i]);
    }
}

static bool enter(struct engine *e, int32_t n)
{
    int now = atomic_load(&e->n_admitted);
    do {
        if (now + n > e->options.max_requests)
            return false;
    } while (!atomic_compare_exchange_weak(&e->n_admitted, &now, now + n));
    return true;
}

enum status engine_submit_group(struct engine *e, const struct request_options *options,
                                int32_t n, struct request **out, struct error *err)
{
    CHECK(n > 0);
    TRY(check_request(&options[0], err));
    for (int32_t i = 0; i < n; i++) {
        out[i] = request_new(e, &options[i], options[0].tokens, options[0].n_tokens);
        enum status status = options[i].script
                                 ? tokenize_script(out[i], options[i].script, err)
                                 : STATUS_OK;
        if (status != STATUS_OK) {
            drop_new(out, i + 1);
            return status;
        }
    }
    enum status claimed = options[0].session ? session_of(e, &options[0], n, out[0], err)
                                             : STATUS_OK;
    if (claimed != STATUS_OK) {
        drop_new(out, n);
        return claimed;
    }
    if (!enter(e, n)) {
        drop_new(out, n);
        return error_set(err, STATUS_EXHAUSTED, "%d requests are being served, no more than %d "
                         "are admitted", atomic_load(&e->n_admitted), e->options.max_requests);
    }
    for (int32_t i = n - 1; i > 0; i--) {
        out[i]->next = out[0]->followers;
        out[0]->followers = out[i];
    }
    pthread_mutex_lock(&e->lock);
    *e->incoming_end = out[0];
    e->incoming_end = &out[0]->next;
    admission_window_arrive(&e->window, clock_ns());
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    return STATUS_OK;
}

enum status engine_submit(struct engine *e, const struct request_options *options,
                          struct request **out, struct error *err)
{
    return engine_submit_group(e, options, 1, out, err);
}

int32_t engine_slots(struct engine_model *m, struct engine_slot *out, int32_t max)
{
    return scheduler_slots(m->scheduler, out, max);
}

void engine_status(struct engine *e, struct engine_status *out)
{
    int admitted = atomic_load(&e->n_admitted), running = atomic_load(&e->n_running);
    *out = (struct engine_status){
        .n_running = running,
        .n_waiting = MAX(admitted - running, 0),
        .n_sequences = running,
        .max_requests = e->options.max_requests,
        .pages_used = atomic_load(&e->pages_used),
        .pages_all = atomic_load(&e->pages_all),
        .page_tokens = STATE_PAGE_TOKENS,
        .host_cache_bytes = e->host_cache_bytes,
        .prompt_tokens = metrics_value(&e->metrics, COUNTER_PROMPT_TOKENS),
        .generated_tokens = metrics_value(&e->metrics, COUNTER_GENERATED_TOKENS),
        .requests_done = metrics_value(&e->metrics, COUNTER_DONE),
        .requests_failed = metrics_value(&e->metrics, COUNTER_FAILED),
        .composed_ops = metrics_value(&e->metrics, COUNTER_COMPOSED_OPS),
    };
}

const struct engine_metrics *engine_metrics(const struct engine *e)
{
    return &e->metrics;
}
