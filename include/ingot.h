/* ingot: run language models from C.
 *
 *     engine  owns the processors and one thread that computes
 *     model   one loaded file, belongs to an engine
 *     request one answer: ids go in, events come out
 *
 * Everything may be called from any thread; a request is read by one thread at a time. Texts are
 * UTF-8. Structs of options begin zeroed: zero means the default. Functions that can fail return
 * INGOT_OK or another status and fill `error` (which may be NULL) with one line. The library
 * never prints, never exits and reads no environment variable. */
#ifndef INGOT_H
#define INGOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INGOT_API __attribute__((visibility("default")))

enum ingot_status {
    INGOT_OK,
    INGOT_INVALID,     /* the input is wrong */
    INGOT_UNSUPPORTED, /* valid, but not supported */
    INGOT_NOT_FOUND,
    INGOT_NO_MEMORY,
    INGOT_IO,
    INGOT_LIMIT,
    INGOT_BUSY,        /* too many requests at once */
    INGOT_FAILED,
};
struct ingot_error {
    char message[1024];
};

struct ingot_engine;
struct ingot_model;
struct ingot_request;

struct ingot_engine_options {
    const char *device;        /* "cpu", "auto" */
    int threads;               /* 0: the physical cores that the process may use */
    int32_t context;           /* tokens of prompt and answer; 0: the model's, at most 32768 */
    int32_t max_requests;      /* waiting and running; 0: 64 */
    bool exact;                /* f32 arithmetic without approximations */
    bool deterministic;
    const char *tokenizer;     /* path, instead of the model's own */
    const char *chat_template; /* Jinja text, instead of the model's own */
    /* What a person should know, one line each; may come from any thread. */
    void (*log)(void *user, const char *line, size_t n);
    void (*progress)(void *user, int64_t done, int64_t all); /* while loading */
    void *user;
};
INGOT_API enum ingot_status ingot_engine_new(const struct ingot_engine_options *options,
                                             struct ingot_engine **engine,
                                             struct ingot_error *error);
/* Ends what runs; models are gone, requests can still be read and must be freed. */
INGOT_API void ingot_engine_free(struct ingot_engine *engine);

/* A .gguf file (of a split: its first part) or a Hugging Face folder. */
INGOT_API enum ingot_status ingot_load(struct ingot_engine *engine, const char *path,
                                       struct ingot_model **model, struct ingot_error *error);
INGOT_API const char *ingot_model_name(const struct ingot_model *model);
INGOT_API int32_t ingot_model_context(const struct ingot_model *model);
INGOT_API int32_t ingot_model_vocabulary(const struct ingot_model *model);

/* Ids and texts; the results are freed with ingot_free. */
INGOT_API enum ingot_status ingot_tokenize(const struct ingot_model *model, const char *text,
                                           size_t n, bool add_special, bool parse_special,
                                           int32_t **ids, size_t *n_ids,
                                           struct ingot_error *error);
INGOT_API enum ingot_status ingot_detokenize(const struct ingot_model *model, const int32_t *ids,
                                             size_t n_ids, char **text, size_t *n,
                                             struct ingot_error *error);
/* The prompt of a conversation: a JSON array of messages, or an object with `messages`, `tools`
 * and template variables. Text of messages never becomes a control token. */
INGOT_API enum ingot_status ingot_chat_prompt(const struct ingot_model *model, const char *json,
                                              int32_t **ids, size_t *n_ids,
                                              struct ingot_error *error);
INGOT_API void ingot_free(void *block);

/* Begin with ingot_defaults(): the model's own settings. */
struct ingot_request_options {
    double temperature, top_p, min_p, typical_p;
    double repetition_penalty, presence_penalty, frequency_penalty;
    int32_t top_k, penalty_window;
    int64_t seed;              /* negative: random */
    int32_t max_tokens;        /* 0: until the model stops or the context is full */
    int32_t min_tokens;
    bool ignore_eos;
    const char *const *stop;   /* [n_stop]; copied */
    int32_t n_stop;
    /* Called from the engine's thread when an event waits; it must only wake somebody. */
    void (*notify)(void *user);
    void *user;
};
INGOT_API void ingot_defaults(const struct ingot_model *model,
                              struct ingot_request_options *options);

enum ingot_finish { INGOT_FINISH_STOP, INGOT_FINISH_LENGTH, INGOT_FINISH_CANCELLED,
                    INGOT_FINISH_ERROR };
enum ingot_event_kind {
    INGOT_PROGRESS, /* prompt_tokens have been read */
    INGOT_TOKEN,
    INGOT_DONE,     /* the last one */
};
struct ingot_event {
    enum ingot_event_kind kind;
    int32_t token;             /* INGOT_TOKEN */
    const char *text;          /* what the token adds, whole characters, may be empty; valid until
                                  the next call */
    size_t n;
    enum ingot_finish finish;  /* INGOT_DONE */
    const char *error;         /* INGOT_FINISH_ERROR; valid until the request is freed */
    int32_t prompt_tokens, answer_tokens;
    double prompt_ms, answer_ms;
};
INGOT_API enum ingot_status ingot_submit(struct ingot_model *model, const int32_t *ids, size_t n,
                                         const struct ingot_request_options *options,
                                         struct ingot_request **request,
                                         struct ingot_error *error);
/* Waits for the next event; false after INGOT_DONE. */
INGOT_API bool ingot_wait(struct ingot_request *request, struct ingot_event *event);
/* Never waits; false when there is nothing yet. */
INGOT_API bool ingot_next(struct ingot_request *request, struct ingot_event *event);
INGOT_API void ingot_cancel(struct ingot_request *request); /* INGOT_DONE still comes */
INGOT_API void ingot_request_free(struct ingot_request *request); /* cancels if it runs */

#ifdef __cplusplus
}
#endif
#endif
