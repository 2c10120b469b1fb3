/* one_answer: one answer to one question.
 *     cc one_answer.c -o one_answer $(pkg-config --cflags --libs ingot)
 *     ./one_answer model.gguf "The capital of France is" */
#include <ingot.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct ingot_error error;
    struct ingot_engine *engine;
    struct ingot_model *model;
    struct ingot_request *request;
    struct ingot_event event;
    int32_t *ids;
    size_t n;

    if (argc != 3) {
        fprintf(stderr, "usage: one_answer MODEL TEXT\n");
        return 2;
    }
    if (ingot_engine_new(&(struct ingot_engine_options){ 0 }, &engine, &error) ||
        ingot_load(engine, argv[1], &model, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    size_t length = 0;
    while (argv[2][length])
        length++;
    struct ingot_request_options options;
    ingot_defaults(model, &options);
    options.temperature = 0;
    options.max_tokens = 32;
    if (ingot_tokenize(model, argv[2], length, true, false, &ids, &n, &error) ||
        ingot_submit(model, ids, n, &options, &request, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    while (ingot_wait(request, &event))
        if (event.kind == INGOT_TOKEN)
            fwrite(event.text, 1, event.n, stdout);
    putchar('\n');
    ingot_free(ids);
    ingot_request_free(request);
    ingot_engine_free(engine);
    return 0;
}
