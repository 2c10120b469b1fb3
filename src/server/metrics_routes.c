#include "server/metrics_routes.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "engine/metrics.h"
#include "server/model_choice.h"
#include "server/server_state.h"

#define MAX_PAGE_BYTES (1u << 20)

/* --- Prometheus text ------------------------------------------------------------------------- */

/* The two comment lines of a family, once: its series stand together. */
static void put_family(struct strbuf *out, const struct metric_name *m,
                       const struct metric_name *before, const char *type)
{
    if (before && strcmp(before->name, m->name) == 0)
        return;
    strbuf_printf(out, "# HELP ingot_%s %s\n# TYPE ingot_%s %s\n", m->name, m->help, m->name, type);
}

static void put_value(struct strbuf *out, const struct metric_name *m, double value)
{
    const char *open = m->labels[0] ? "{" : "", *close = m->labels[0] ? "}" : "";
    strbuf_printf(out, "ingot_%s%s%s%s %.17g\n", m->name, open, m->labels, close, value);
}

static void put_gauge(struct strbuf *out, struct metric_name m, double value)
{
    if (m.help)
        put_family(out, &m, NULL, "gauge");
    put_value(out, &m, value);
}

static void put_histogram(struct strbuf *out, const struct metric_name *m,
                          const struct histogram *h)
{
    uint64_t total = 0;
    const char *comma = m->labels[0] ? "," : "";
    for (int i = 0; i <= h->n_bounds; i++) {
        total += atomic_load_explicit(&h->count[i], memory_order_relaxed);
        strbuf_printf(out, "ingot_%s_bucket{%s%sle=\"", m->name, m->labels, comma);
        if (i < h->n_bounds)
            strbuf_printf(out, "%.6g\"} %" PRIu64 "\n", h->bound[i], total);
        else
            strbuf_printf(out, "+Inf\"} %" PRIu64 "\n", total);
    }
    const char *open = m->labels[0] ? "{" : "", *close = m->labels[0] ? "}" : "";
    strbuf_printf(out, "ingot_%s_sum%s%s%s %.17g\n", m->name, open, m->labels, close,
                  histogram_sum(h));
    strbuf_printf(out, "ingot_%s_count%s%s%s %" PRIu64 "\n", m->name, open, m->labels, close,
                  total);
}

static void put_engine_series(struct strbuf *out, const struct engine_metrics *m)
{
    for (int i = 0; i < ENGINE_N_COUNTERS; i++) {
        const struct metric_name *name = &engine_counter_names[i];
        put_family(out, name, i > 0 ? name - 1 : NULL, "counter");
        put_value(out, name, (double)metrics_value(m, (enum engine_counter)i));
    }
    for (int i = 0; i < ENGINE_N_HISTOGRAMS; i++) {
        const struct metric_name *name = &engine_histogram_names[i];
        put_family(out, name, i > 0 ? name - 1 : NULL, "histogram");
        put_histogram(out, name, &m->histogram[i]);
    }
}

static void put_server_series(struct strbuf *out, struct server_metrics *m)
{
    struct metric_name name = { "request_lifecycle_total", NULL, "requests that generate, ended" };
    put_family(out, &name, NULL, "counter");
    for (int i = 0; i < N_OUTCOMES; i++)
        strbuf_printf(out, "ingot_request_lifecycle_total{outcome=\"%s\"} %" PRIu64 "\n",
                      server_outcome_names[i], atomic_load(&m->outcome[i]));
    name = (struct metric_name){ "request_duration_seconds", "", "from headers to the last byte" };
    put_family(out, &name, NULL, "histogram");
    put_histogram(out, &name, &m->duration);
}

static double share(int64_t part, int64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

static void put_gauges(struct strbuf *out, const struct server *s)
{
    struct engine_status now;
    engine_status(s->engine, &now);
    put_gauge(out,
              (struct metric_name){ "build_info", "version=\"" INGOT_VERSION "\"",
                                    "always 1; the version is a label" },
              1);
    put_gauge(out, (struct metric_name){ "uptime_seconds", "", "since the server started" },
              clock_seconds() - s->started);
    put_gauge(out, (struct metric_name){ "queue_depth", "", "requests that wait for a seat" },
              now.n_waiting);
    put_gauge(out, (struct metric_name){ "requests_running", "", "requests with a seat" },
              now.n_running);
    put_gauge(out, (struct metric_name){ "pages", "kind=\"used\"", "pages of the state pool" },
              (double)now.pages_used);
    put_gauge(out, (struct metric_name){ "pages", "kind=\"capacity\"", NULL },
              (double)now.pages_all);
    put_gauge(
        out,
        (struct metric_name){ "kv_tokens", "kind=\"used\"", "the same in tokens, by whole pages" },
        (double)(now.pages_used * now.page_tokens));
    put_gauge(out, (struct metric_name){ "kv_tokens", "kind=\"capacity\"", NULL },
              (double)(now.pages_all * now.page_tokens));
    put_gauge(out, (struct metric_name){ "kv_utilization_ratio", "", "used share of the pool" },
              share(now.pages_used, now.pages_all));
}

static void reply_text(struct exchange *x)
{
    struct server *s = x->server;
    struct strbuf page;
    strbuf_init(&page, MAX_PAGE_BYTES);
    put_gauges(&page, s);
    put_server_series(&page, &s->metrics);
    put_engine_series(&page, engine_metrics(s->engine));
    exchange_reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", strbuf_str(&page));
    strbuf_release(&page);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static double mean(const struct histogram *h)
{
    uint64_t n = histogram_total(h);
    return n ? histogram_sum(h) / (double)n : 0;
}

static json_int_t count(const struct engine_metrics *m, enum engine_counter which)
{
    return (json_int_t)metrics_value(m, which);
}

static json_t *cache_json(const struct engine_metrics *m)
{
    return json_pack("{s:I,s:{s:I,s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I},s:I}", "lookups",
                     count(m, COUNTER_LOOKUPS), "hits", "live", count(m, COUNTER_HITS_LIVE),
                     "pages", count(m, COUNTER_HITS_PAGES), "host", count(m, COUNTER_HITS_HOST),
                     "disk", count(m, COUNTER_HITS_DISK), "session", count(m, COUNTER_HITS_SESSION),
                     "evictions", "pages", count(m, COUNTER_EVICTIONS_PAGES), "host",
                     count(m, COUNTER_EVICTIONS_HOST), "disk", count(m, COUNTER_EVICTIONS_DISK),
                     "reused_tokens", count(m, COUNTER_CACHED_TOKENS));
}

static json_t *speculation_json(const struct engine_metrics *m)
{
    json_int_t proposed = count(m, COUNTER_PROPOSED_LOOKUP);
    json_int_t accepted = count(m, COUNTER_ACCEPTED_LOOKUP);
    return json_pack("{s:I,s:I,s:f}", "proposed", proposed, "accepted", accepted, "accept_rate",
                     share(accepted, proposed));
}

static json_t *requests_json(struct server *s, const struct engine_metrics *m)
{
    json_t *value = json_object();
    json_int_t all = 0;
    for (int i = 0; i < N_OUTCOMES; i++) {
        json_int_t n = (json_int_t)atomic_load(&s->metrics.outcome[i]);
        json_object_set_new(value, server_outcome_names[i], json_integer(n));
        all += n;
    }
    json_object_set_new(value, "total", json_integer(all));
    json_object_set_new(value, "average_latency_s", json_real(mean(&s->metrics.duration)));
    json_object_set_new(value, "average_ttft_s",
                        json_real(mean(&m->histogram[HISTOGRAM_FIRST_TOKEN])));
    json_object_set_new(value, "average_itl_s",
                        json_real(mean(&m->histogram[HISTOGRAM_TOKEN_GAP])));
    return value;
}

void metrics_json(struct exchange *x)
{
    struct server *s = x->server;
    const struct engine_metrics *m = engine_metrics(s->engine);
    if (!model_look(x))
        return;
    const struct engine_model_info *info = x->served ? exchange_model(x) : NULL;
    struct engine_status now;
    engine_status(s->engine, &now);
    json_t *value = json_pack("{s:i,s:f,s:{s:I,s:I},s:I,s:I,s:o,s:o,s:o,s:{s:i,s:i,s:i}}",
                              "context", info ? info->context : 0, "kv_cache_mb",
                              info ? (double)info->kv_bytes / (1024.0 * 1024.0) : 0.0, "pages",
                              "used", (json_int_t)now.pages_used, "all", (json_int_t)now.pages_all,
                              "prompt_tokens", count(m, COUNTER_PROMPT_TOKENS), "generated_tokens",
                              count(m, COUNTER_GENERATED_TOKENS), "prefix_cache", cache_json(m),
                              "speculation", speculation_json(m), "requests_detail",
                              requests_json(s, m), "saturation", "in_flight", now.n_running,
                              "waiting", now.n_waiting, "max", s->options.concurrency);
    exchange_reply_json(x, 200, value);
    json_decref(value);
}

void metrics_text(struct exchange *x)
{
    bool json = str_is(exchange_query(x, "format"), "json") ||
                str_starts(str_trim(exchange_header(x, "Accept")), STR("application/json"));
    if (json)
        metrics_json(x);
    else
        reply_text(x);
}
