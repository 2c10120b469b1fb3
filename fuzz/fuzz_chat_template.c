/* A hostile conversation with a template that looks at everything. */
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "text/template/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char source[] =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('late') }}{% endif %}<|{{ m.role }}|>"
    "{% if m.content is string %}{{ m.content | trim }}{% elif m.content %}"
    "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}"
    "{% for k, v in c.function.arguments | items %}{{ k }}={{ v | tojson }}{% endfor %}"
    "{% endfor %}{% endfor %}{{ tools | tojson if tools }}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chat_template *t;
    struct jinja_output out;
    struct error err;
    json_t *request;
    if (json_parse((struct str){ (const char *)data, size }, 0, &request, &err) != STATUS_OK)
        return 0;
    const struct chat_template_tokens tokens = { .bos = STR("<s>") };
    if (chat_template_new(str_of(source), &tokens, &t, &err) == STATUS_OK) {
        if (chat_template_render(t, request, 0, &out, &err) == STATUS_OK)
            for (size_t i = 0; i < out.n_spans; i++)
                CHECK(out.spans[i].from < out.spans[i].to && out.spans[i].to <= out.len);
        jinja_output_release(&out);
        chat_template_free(t);
    }
    json_decref(request);
    return 0;
}
