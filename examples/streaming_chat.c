/* streaming_chat: a conversation on the terminal; lines from standard input are turns.
 *     cc streaming_chat.c -o streaming_chat $(pkg-config --cflags --libs ingot jansson) */
#include <ingot.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(json_t *messages, const char *role, const char *text)
{
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", text));
}

static int answer(struct ingot_model *model, json_t *messages, struct ingot_error *error)
{
    struct ingot_request_options options;
    struct ingot_request *request;
    struct ingot_event event;
    int32_t *ids;
    size_t n, length = 0;
    char text[65536];
    char *json = json_dumps(messages, 0);
    int failed = ingot_chat_prompt(model, json, &ids, &n, error) != INGOT_OK;
    free(json);
    if (failed)
        return 1;
    ingot_defaults(model, &options);
    options.max_tokens = 1024; /* a small model may never stop by itself */
    failed = ingot_submit(model, ids, n, &options, &request, error) != INGOT_OK;
    ingot_free(ids);
    if (failed)
        return 1;
    while (ingot_wait(request, &event)) {
        fwrite(event.text, 1, event.n, stdout);
        fflush(stdout);
        if (length + event.n < sizeof text) {
            memcpy(text + length, event.text, event.n);
            length += event.n;
        }
    }
    text[length] = '\0';
    putchar('\n');
    add(messages, "assistant", text);
    ingot_request_free(request);
    return 0;
}

int main(int argc, char **argv)
{
    struct ingot_error error = { "usage: streaming_chat MODEL" };
    struct ingot_engine *engine = NULL;
    struct ingot_model *model;
    char line[4096];
    json_t *messages = json_array();
    int failed = argc != 2 || ingot_engine_new(NULL, &engine, &error) ||
                 ingot_load(engine, argv[1], &model, &error);
    while (!failed && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        add(messages, "user", line);
        failed = answer(model, messages, &error);
    }
    if (failed)
        fprintf(stderr, "%s\n", error.message);
    json_decref(messages);
    ingot_engine_free(engine);
    return failed;
}
