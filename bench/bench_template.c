/* bench_template TEMPLATE...: 10,000 messages rendered by each chat template, best of five, in
 * milliseconds of this thread's processor time. A GGUF stands for the template that it carries.
 * One JSON object per template; one that refuses the conversation says why. */
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "formats/gguf.h"
#include "text/template/chat_template.h"

#define N_MESSAGES 10000

static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static json_t *conversation(void)
{
    json_t *messages = json_array();
    for (int i = 0; i < N_MESSAGES; i++)
        json_array_append_new(messages,
                              json_pack("{s:s, s:s}", "role", i % 2 ? "assistant" : "user",
                                        "content", i % 2 ? "It is 330 metres high, with antennas."
                                                         : "How high is the Eiffel tower?"));
    return json_pack("{s:o}", "messages", messages);
}

static enum status read_source(const char *path, struct strbuf *out, struct error *err)
{
    if (!str_ends(str_of(path), STR(".gguf")))
        return file_read(path, JINJA_MAX_SOURCE_BYTES, out, err);
    struct gguf g;
    struct str text;
    TRY(gguf_open(&g, path, err));
    enum status s = gguf_get_str(&g, "tokenizer.chat_template", &text, err);
    if (s == STATUS_OK)
        strbuf_add(out, text);
    gguf_close(&g);
    return s;
}

static enum status render(const struct chat_template *t, const json_t *request, double *best,
                          size_t *n_bytes, struct error *err)
{
    *best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct jinja_output out = { 0 };
        double start = thread_ms();
        TRY(chat_template_render(t, request, 0, &out, err));
        *best = MIN(*best, thread_ms() - start);
        *n_bytes = out.len;
        jinja_output_release(&out);
    }
    return STATUS_OK;
}

static int measure(const char *path, const json_t *request)
{
    const struct chat_template_tokens tokens = { .bos = STR("<s>"), .eos = STR("</s>") };
    struct error err = { 0 };
    struct strbuf source;
    struct chat_template *t = NULL;
    double best = 0;
    size_t n_bytes = 0;
    strbuf_init(&source, JINJA_MAX_SOURCE_BYTES);
    enum status s = read_source(path, &source, &err);
    if (s == STATUS_OK)
        s = chat_template_new(strbuf_str(&source), &tokens, &t, &err);
    if (s == STATUS_OK)
        s = render(t, request, &best, &n_bytes, &err);
    json_t *row = json_pack("{s:s, s:f, s:I}", "template", path, "ms", best, "bytes",
                            (json_int_t)n_bytes);
    if (s != STATUS_OK)
        json_object_set_new(row, "failed", json_string(err.message));
    json_dumpf(row, stdout, JSON_REAL_PRECISION(4));
    putchar('\n');
    json_decref(row);
    chat_template_free(t);
    strbuf_release(&source);
    return s != STATUS_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_template TEMPLATE...\n");
        return 2;
    }
    int failed = 0;
    json_t *request = conversation();
    for (int i = 1; i < argc; i++)
        failed |= measure(argv[i], request);
    json_decref(request);
    return failed;
}
