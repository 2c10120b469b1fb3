#include "engine/load_text.h"

#include "base/log.h"
#include "base/strbuf.h"
#include "engine/load_tokenizer.h"
#include "formats/model_source.h"
#include "text/template/chat_template.h"

#define NOTICE_MAX_BYTES 65536u
#define TEMPLATE_MAX_BYTES (4u << 20)

static void say_lines(const struct log_sink *log, struct str lines)
{
    while (lines.len > 0) {
        size_t end = str_find(lines, STR("\n"), 0);
        struct str line = end == STR_NONE ? lines : str_slice(lines, 0, end);
        if (line.len > 0)
            log_write(log, LOG_INFO, "%.*s", STR_ARG(line));
        lines = end == STR_NONE ? str_slice(lines, lines.len, lines.len)
                                : str_slice(lines, end + 1, lines.len);
    }
}

static enum status read_tokenizer(const struct engine_options *options,
                                  const struct model_source *source, struct tokenizer **out,
                                  struct error *err)
{
    struct strbuf notice;
    strbuf_init(&notice, NOTICE_MAX_BYTES);
    enum status status;
    if (options->tokenizer_path)
        status = load_tokenizer_path(options->tokenizer_path, out, &notice, err);
    else if (source->gguf)
        status = load_tokenizer_gguf(source->gguf, out, &notice, err);
    else
        status = load_tokenizer_path(source->path, out, &notice, err);
    say_lines(options->log, strbuf_str(&notice));
    strbuf_release(&notice);
    return status;
}

static enum status template_source(const struct engine_options *options,
                                   const struct model_source *source, struct strbuf *text,
                                   struct error *err)
{
    struct str s;
    if (options->chat_template) {
        strbuf_puts(text, options->chat_template);
        return STATUS_OK;
    }
    if (source->gguf) {
        if (gguf_get_str(source->gguf, "tokenizer.chat_template", &s, NULL) == STATUS_OK)
            strbuf_add(text, s);
        return STATUS_OK;
    }
    if (!source->hf)
        return STATUS_OK;
    enum status status = hf_config_chat_template(source->hf, NULL, text, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static struct str role_text(const struct tokenizer *t, enum token_role role)
{
    int32_t id = tokenizer_role(t, role);
    return id == TOKEN_NONE ? (struct str){ "", 0 } : tokenizer_text(t, id);
}

enum status load_text(const struct engine_options *options, const struct model_source *source,
                      struct tokenizer **tokenizer, struct chat_template **chat,
                      struct error *err)
{
    TRY(read_tokenizer(options, source, tokenizer, err));
    struct chat_template_tokens tokens = {
        .bos = role_text(*tokenizer, TOKEN_ROLE_BOS),
        .eos = role_text(*tokenizer, TOKEN_ROLE_EOS),
        .pad = role_text(*tokenizer, TOKEN_ROLE_PAD),
        .unk = role_text(*tokenizer, TOKEN_ROLE_UNKNOWN),
    };
    struct strbuf text;
    strbuf_init(&text, TEMPLATE_MAX_BYTES);
    enum status status = template_source(options, source, &text, err);
    if (status == STATUS_OK)
        status = chat_template_new(strbuf_str(&text), &tokens, chat, err);
    if (status != STATUS_OK && err && err->status != STATUS_OK)
        error_prefix(err, "chat template");
    if (status == STATUS_OK && chat_template_is_fallback(*chat))
        log_write(options->log, LOG_INFO,
                  "%s has no chat template; conversations are written as ChatML", source->path);
    strbuf_release(&text);
    return status;
}
