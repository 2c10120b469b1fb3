/* A hostile template with a harmless context. */
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "text/template/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char context_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":"
    "\"h\xC3\xA9 <b>\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\","
    "\"function\":{\"name\":\"f\",\"arguments\":{\"k\":[1,2.5,true,null,\"v\"]}}}]}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}],"
    "\"s\":\"Hello, World\",\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":[1]},\"i\":7,\"bos_token\":\"<s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const trusted[] = { "bos_token", NULL };
    const struct jinja_options options = { .trusted = trusted, .now = 1741529107 };
    struct jinja_template *t;
    struct jinja_output out;
    struct error err;
    if (size > 4096 || jinja_compile((struct str){ (const char *)data, size }, &t, &err))
        return 0;
    json_t *context = json_loads(context_text, 0, NULL);
    CHECK(context);
    if (jinja_render(t, context, &options, &out, &err) == STATUS_OK)
        for (size_t i = 0; i < out.n_spans; i++)
            CHECK(out.spans[i].from < out.spans[i].to && out.spans[i].to <= out.len &&
                  (i == 0 || out.spans[i - 1].to < out.spans[i].from));
    jinja_output_release(&out);
    json_decref(context);
    jinja_free(t);
    return 0;
}
