/* metrics: what an engine counts and measures, for /metrics, /health and log rows.
 *
 * One row a series; series of one family (same name, other labels) stand together. Names lack
 * their prefix. Everything counts from the start of the engine and over all of its models.
 * Threads: written by the engine thread and by those that submit, read by any. */
#ifndef ENGINE_METRICS_H
#define ENGINE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/histogram.h"

/* X(identifier, name, labels, help) */
#define ENGINE_COUNTERS(X) \
    X(PROMPT_TOKENS, "prompt_tokens_total", "", "prompt tokens computed") \
    X(CACHED_TOKENS, "cached_tokens_total", "", "prompt tokens taken over instead of computed") \
    X(GENERATED_TOKENS, "generated_tokens_total", "", "tokens drawn") \
    X(REASONING_TOKENS, "reasoning_tokens_total", "", "tokens drawn inside reasoning") \
    X(LOOKUPS, "cache_lookups_total", "", "prompts looked up in the prefix cache") \
    X(HITS_LIVE, "cache_hits_total", "source=\"live\"", "prompts found, by where") \
    X(HITS_PAGES, "cache_hits_total", "source=\"pages\"", "") \
    X(HITS_HOST, "cache_hits_total", "source=\"host\"", "") \
    X(HITS_DISK, "cache_hits_total", "source=\"disk\"", "") \
    X(HITS_SESSION, "cache_hits_total", "source=\"session\"", "") \
    X(EVICTIONS_PAGES, "cache_evictions_total", "source=\"pages\"", \
      "parts of cached state that left a layer") \
    X(EVICTIONS_HOST, "cache_evictions_total", "source=\"host\"", "") \
    X(EVICTIONS_DISK, "cache_evictions_total", "source=\"disk\"", "") \
    X(DISK_SAVES, "disk_cache_saves_total", "", "turns written to the disk cache") \
    X(DISK_WRITTEN_BYTES, "disk_cache_written_bytes_total", "", "bytes of their files") \
    X(DISK_READ_BYTES, "disk_cache_read_bytes_total", "", "bytes of state read back") \
    X(DISK_ERRORS, "disk_cache_errors_total", "", "turns not written and files not readable") \
    X(PROPOSED_LOOKUP, "speculation_proposed_total", "drafter=\"lookup\"", "tokens drafted") \
    X(ACCEPTED_LOOKUP, "speculation_accepted_total", "drafter=\"lookup\"", "drafts confirmed") \
    X(PASSES, "forward_passes_total", "", "forward passes") \
    X(CANCELLATIONS, "cancellations_total", "", "requests cancelled by their owner") \
    X(PREEMPTIONS, "preemptions_total", "", "running requests that gave their pages back") \
    X(DONE, "requests_finished_total", "outcome=\"success\"", "requests the engine ended") \
    X(FAILED, "requests_finished_total", "outcome=\"error\"", "") \
    X(COMPOSED_OPS, "fallbacks_total", "what=\"composed_op\"", \
      "ops put together from smaller ones because the device lacks them")

enum engine_counter {
#define ROW(id, name, labels, help) COUNTER_##id,
    ENGINE_COUNTERS(ROW)
#undef ROW
        ENGINE_N_COUNTERS
};

/* X(identifier, name, labels, help, bounds) */
#define ENGINE_HISTOGRAMS(X) \
    X(QUEUE_WAIT, "queue_wait_seconds", "", "from submission to a seat", histogram_durations) \
    X(FIRST_TOKEN, "ttft_seconds", "", "from submission to the first token", histogram_durations) \
    X(TOKEN_GAP, "itl_seconds", "", "between two tokens of an answer", histogram_gaps) \
    X(PHASE_QUEUE, "phase_duration_seconds", "phase=\"queue\"", "by phase of a request", \
      histogram_durations) \
    X(PHASE_PROMPT, "phase_duration_seconds", "phase=\"prefill\"", "", histogram_durations) \
    X(PHASE_DECODE, "phase_duration_seconds", "phase=\"decode\"", "", histogram_durations) \
    X(BATCH, "batch_size", "", "sequences in one forward pass", histogram_batches)

enum engine_histogram {
#define ROW(id, name, labels, help, bounds) HISTOGRAM_##id,
    ENGINE_HISTOGRAMS(ROW)
#undef ROW
        ENGINE_N_HISTOGRAMS
};

struct engine_metrics {
    _Atomic uint64_t counter[ENGINE_N_COUNTERS];
    struct histogram histogram[ENGINE_N_HISTOGRAMS];
};

struct metric_name {
    const char *name, *labels, *help;
};
extern const struct metric_name engine_counter_names[ENGINE_N_COUNTERS];
extern const struct metric_name engine_histogram_names[ENGINE_N_HISTOGRAMS];

void engine_metrics_init(struct engine_metrics *m);

static inline void metrics_count(struct engine_metrics *m, enum engine_counter which, uint64_t n)
{
    atomic_fetch_add_explicit(&m->counter[which], n, memory_order_relaxed);
}

static inline uint64_t metrics_value(const struct engine_metrics *m, enum engine_counter which)
{
    return atomic_load_explicit(&m->counter[which], memory_order_relaxed);
}

static inline void metrics_measure(struct engine_metrics *m, enum engine_histogram which,
                                   double value)
{
    histogram_add(&m->histogram[which], value);
}

#endif
