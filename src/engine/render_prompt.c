#include "engine/render_prompt.h"

#include "text/template/chat_template.h"

enum status render_prompt(const struct engine_model_info *info, const json_t *request,
                          bool parse_special, struct token_list *out, struct error *err)
{
    struct jinja_output text = { 0 };
    enum status status = chat_template_render(info->chat, request, jinja_now(), &text, err);
    unsigned flags = TOKENIZER_ADD_SPECIAL | (parse_special ? TOKENIZER_PARSE_SPECIAL : 0u);
    if (status == STATUS_OK)
        status = tokenizer_encode_spans(info->tokenizer, (struct str){ text.text, text.len },
                                        text.spans, text.n_spans, flags, out, err);
    jinja_output_release(&text);
    return status;
}
