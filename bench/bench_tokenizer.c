/* bench_tokenizer TEXT TOKENIZER...: encoding speed of one thread, best of five, in seconds of this
 * thread's processor time, and how long loading takes. One JSON object per tokenizer. */
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "engine/load_tokenizer.h"

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_encode(const struct tokenizer *t, struct str text, int repeats, size_t *n)
{
    double best = 1e9;
    for (int i = 0; i < repeats; i++) {
        struct error err;
        struct token_list ids = { 0 };
        double start = thread_seconds();
        if (tokenizer_encode(t, text, 0, &ids, &err) != STATUS_OK)
            fprintf(stderr, "%s\n", err.message);
        best = MIN(best, thread_seconds() - start);
        *n = ids.n;
        token_list_release(&ids);
    }
    return best;
}

/* A million bytes of one unit, in milliseconds. */
static double monotonous_ms(const struct tokenizer *t, const char *unit)
{
    struct strbuf text;
    size_t n;
    strbuf_init(&text, 2000000);
    while (text.len < 1000000)
        strbuf_puts(&text, unit);
    double seconds = best_encode(t, strbuf_str(&text), 3, &n);
    strbuf_release(&text);
    return seconds * 1e3;
}

static int measure(const char *path, struct str text)
{
    struct error err;
    struct tokenizer *t = NULL;
    double load = 1e9;
    for (int i = 0; i < 3; i++) {
        tokenizer_free(t);
        double start = thread_seconds();
        if (load_tokenizer_path(path, &t, NULL, &err) != STATUS_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        load = MIN(load, thread_seconds() - start);
    }
    size_t n;
    double seconds = best_encode(t, text, 5, &n);
    printf("{\"tokenizer\": \"%s\", \"load_ms\": %.1f, \"mb_per_s\": %.2f, \"tokens\": %zu, "
           "\"letters_ms\": %.1f, \"spaces_ms\": %.1f, \"marks_ms\": %.1f}\n",
           path, load * 1e3, (double)text.len / 1e6 / seconds, n, monotonous_ms(t, "a"),
           monotonous_ms(t, " "), monotonous_ms(t, "\xCC\x81"));
    tokenizer_free(t);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err;
    struct strbuf text;
    strbuf_init(&text, (size_t)1 << 30);
    if (argc < 3 || file_read(argv[1], (size_t)1 << 30, &text, &err) != STATUS_OK) {
        fprintf(stderr, "usage: bench_tokenizer TEXT TOKENIZER...\n");
        return 2;
    }
    int failed = 0;
    for (int i = 2; i < argc; i++)
        failed |= measure(argv[i], strbuf_str(&text));
    strbuf_release(&text);
    return failed;
}
