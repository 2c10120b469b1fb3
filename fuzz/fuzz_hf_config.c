/* Seeds: fuzz/corpus/hf_config. Input: config.json, a line with "---", tokenizer_config.json. */
#include <stddef.h>
#include <stdint.h>

#include "formats/config_source.h"
#include "formats/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_config(const struct hf_config *hf)
{
    struct config_source c = { .json = hf->config };
    struct error e;
    int32_t n, each[4];
    float f;
    bool b;
    struct str s;
    static const char *const keys[] = { "hidden_size", "rope_parameters.rope_theta|rope_theta",
                                        "layer_types", "eos_token_id", "n" };
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        (void)!config_get_i32_or(&c, NULL, keys[i], 0, 1 << 20, 1, &n, &e);
        (void)!config_get_f32_or(&c, NULL, keys[i], 1, &f, &e);
        (void)!config_get_bool_or(&c, NULL, keys[i], true, &b, &e);
        (void)!config_get_str_or(&c, NULL, keys[i], STR(""), &s, &e);
        (void)!config_get_i32_each(&c, NULL, keys[i], each, 4, &e);
        (void)config_kind(&c, NULL, keys[i]);
    }
    (void)config_architecture(&c);
    (void)config_text_model_type(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    size_t cut = str_find(text, STR("\n---\n"), 0);
    struct str first = str_slice(text, 0, cut == STR_NONE ? size : cut);
    struct str second = cut == STR_NONE ? STR("") : str_slice(text, cut + 5, size);
    struct hf_config hf;
    struct error e;
    struct strbuf out;
    struct str token;
    if (hf_config_from_text(&hf, first, second, &e) != STATUS_OK)
        return 0;
    read_config(&hf);
    strbuf_init(&out, 1 << 20);
    (void)!hf_config_chat_template(&hf, NULL, &out, &e);
    (void)!hf_config_chat_template(&hf, "tool_use", &out, &e);
    (void)hf_config_special_token(&hf, "bos_token", &token);
    strbuf_release(&out);
    hf_config_close(&hf);
    return 0;
}
