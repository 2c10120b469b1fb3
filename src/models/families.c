/* families: the one list of model families. */
#include <string.h>

#include "base/strbuf.h"
#include "formats/model_source.h"
#include "models/family.h"

extern const struct model_family family_llama, family_qwen2, family_qwen3, family_gemma3;

static const struct model_family *const families[] = {
    &family_llama, &family_qwen2, &family_qwen3, &family_gemma3, NULL,
};

const struct model_family *const *model_families(void)
{
    return families;
}

static bool lists(const char *const *names, struct str name)
{
    for (; *names; names++)
        if (str_is(name, *names))
            return true;
    return false;
}

static void list_known(struct strbuf *out, bool gguf)
{
    for (size_t i = 0; families[i]; i++) {
        const char *const *n = gguf ? families[i]->architectures : families[i]->model_types;
        for (; *n; n++)
            strbuf_printf(out, "%s%s", out->len ? ", " : "", *n);
    }
}

enum status model_family_find(const struct model_source *source, const struct model_family **out,
                              struct error *err)
{
    bool gguf = source->kind == MODEL_SOURCE_GGUF;
    struct str name = config_architecture(&source->config);
    for (size_t i = 0; families[i] && name.len; i++)
        if (lists(gguf ? families[i]->architectures : families[i]->model_types, name)) {
            *out = families[i];
            return STATUS_OK;
        }
    struct strbuf known;
    strbuf_init(&known, 512);
    list_known(&known, gguf);
    enum status s;
    if (!name.len)
        s = error_set(err, STATUS_UNSUPPORTED, "%s: no %s, expected one of %s", source->path,
                      gguf ? "general.architecture" : "model_type", known.ptr);
    else
        s = error_set(err, STATUS_UNSUPPORTED,
                      "%s: architecture %.*s is not supported, expected one of %s", source->path,
                      STR_ARG(name), known.ptr);
    strbuf_release(&known);
    return s;
}
