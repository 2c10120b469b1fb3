#include "formats/hf_config.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define MAX_TOKENIZER_BYTES ((size_t)512 << 20)
#define MAX_TEMPLATE_BYTES ((size_t)4 << 20)
#define CONFIG_FLAGS (JSON_STRICT_UTF8 | JSON_PYTHON_NUMBERS)

static char *join(const char *folder, const char *name)
{
    struct strbuf b;
    strbuf_init(&b, 65536);
    strbuf_puts(&b, folder);
    if (b.len && b.ptr[b.len - 1] != '/')
        strbuf_putc(&b, '/');
    strbuf_puts(&b, name);
    return strbuf_detach(&b);
}

char *hf_config_file(const struct hf_config *c, const char *name)
{
    char *path = c->folder ? join(c->folder, name) : NULL;
    if (path && !file_exists(path)) {
        mem_free(path);
        path = NULL;
    }
    return path;
}

static enum status require_object(json_t **value, const char *path, struct error *err)
{
    if (json_is_object(*value))
        return STATUS_OK;
    json_decref(*value);
    *value = NULL;
    return error_set(err, STATUS_INVALID, "%s: expected a JSON object", path);
}

/* *out stays NULL where the file does not exist. */
static enum status load_object(const struct hf_config *c, const char *name, json_t **out,
                               struct error *err)
{
    char *path = hf_config_file(c, name);
    if (!path)
        return STATUS_OK;
    enum status s = json_parse_file(path, MAX_CONFIG_BYTES, CONFIG_FLAGS, out, err);
    if (s == STATUS_OK)
        s = require_object(out, path, err);
    mem_free(path);
    return s;
}

/* Of a folder that holds GGUF files instead: the first by name, which is the first shard of a split
 * one, and how many there are. NULL: none. */
static char *first_gguf(const char *folder, size_t *n)
{
    char *first = NULL;
    DIR *d = opendir(folder);
    *n = 0;
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        struct str name = str_of(e->d_name);
        if (!str_ends(name, STR(".gguf")) || str_starts(name, STR(".")))
            continue;
        ++*n;
        if (first && strcmp(first, e->d_name) < 0)
            continue;
        mem_free(first);
        first = mem_string(name.ptr, name.len);
    }
    if (d)
        closedir(d);
    return first;
}

static enum status no_model(const char *folder, struct error *err)
{
    size_t n;
    char *gguf = first_gguf(folder, &n);
    char *path = gguf ? join(folder, gguf) : NULL;
    struct strbuf hint;
    strbuf_init(&hint, 65536);
    if (path)
        strbuf_printf(&hint, "; did you mean %s?", path);
    if (n > 1)
        strbuf_printf(&hint, " (%zu .gguf files are there)", n);
    enum status s = error_set(err, STATUS_NOT_FOUND,
                              "%s: neither config.json nor tokenizer.json is in this folder%s",
                              folder, hint.ptr ? hint.ptr : "");
    strbuf_release(&hint);
    mem_free(path);
    mem_free(gguf);
    return s;
}

static enum status load_all(struct hf_config *c, struct error *err)
{
    TRY(load_object(c, "config.json", &c->config, err));
    TRY(load_object(c, "generation_config.json", &c->generation_config, err));
    TRY(load_object(c, "tokenizer_config.json", &c->tokenizer_config, err));
    TRY(load_object(c, "special_tokens_map.json", &c->special_tokens_map, err));
    char *tokenizer = hf_config_file(c, "tokenizer.json");
    bool has_tokenizer = tokenizer != NULL;
    mem_free(tokenizer);
    if (!c->config && !has_tokenizer)
        return no_model(c->folder, err);
    return STATUS_OK;
}

enum status hf_config_open(struct hf_config *c, const char *folder, struct error *err)
{
    *c = (struct hf_config){ .folder = mem_string(folder, strlen(folder)) };
    enum status s = load_all(c, err);
    if (s != STATUS_OK)
        hf_config_close(c);
    return s;
}

static enum status parse_object(struct str text, const char *name, json_t **out,
                                struct error *err)
{
    if (text.len == 0)
        return STATUS_OK;
    TRY(json_parse(text, CONFIG_FLAGS, out, err));
    return require_object(out, name, err);
}

enum status hf_config_from_text(struct hf_config *c, struct str config,
                                struct str tokenizer_config, struct error *err)
{
    *c = (struct hf_config){ 0 };
    enum status s = parse_object(config, "config.json", &c->config, err);
    if (s == STATUS_OK)
        s = parse_object(tokenizer_config, "tokenizer_config.json", &c->tokenizer_config, err);
    if (s != STATUS_OK)
        hf_config_close(c);
    return s;
}

void hf_config_close(struct hf_config *c)
{
    json_decref(c->config);
    json_decref(c->generation_config);
    json_decref(c->tokenizer_config);
    json_decref(c->special_tokens_map);
    mem_free(c->folder);
    *c = (struct hf_config){ 0 };
}

enum status hf_config_load_tokenizer(const struct hf_config *c, json_t **out, struct error *err)
{
    *out = NULL;
    char *path = hf_config_file(c, "tokenizer.json");
    if (!path)
        return error_set(err, STATUS_NOT_FOUND, "%s: no tokenizer.json",
                         c->folder ? c->folder : "model");
    enum status s = json_parse_file(path, MAX_TOKENIZER_BYTES, JSON_STRICT_UTF8, out, err);
    if (s == STATUS_OK)
        s = require_object(out, path, err);
    mem_free(path);
    return s;
}

/* `value` is a template or a list of {"name", "template"}; {NULL, 0} if it does not hold `name`. */
static struct str template_named(const json_t *value, const char *name)
{
    if (json_is_string(value))
        return strcmp(name, "default") == 0 ? json_str(value) : (struct str){ NULL, 0 };
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        if (str_is(json_str(json_object_get(entry, "name")), name))
            return json_str(json_object_get(entry, "template"));
    }
    return (struct str){ NULL, 0 };
}

static bool is_plain_name(struct str name)
{
    if (name.len == 0 || name.len > 100 || name.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (!isalnum((unsigned char)name.ptr[i]) && !strchr("._-", name.ptr[i]))
            return false;
    }
    return true;
}

/* NOT_FOUND without a message where the folder has no such file. */
static enum status template_file(const struct hf_config *c, const char *name, struct strbuf *out,
                                 struct error *err)
{
    struct strbuf file;
    strbuf_init(&file, 4096);
    if (strcmp(name, "default") == 0)
        strbuf_puts(&file, "chat_template.jinja");
    else if (is_plain_name(str_of(name)))
        strbuf_printf(&file, "additional_chat_templates/%s.jinja", name);
    char *path = file.len ? hf_config_file(c, file.ptr) : NULL;
    strbuf_release(&file);
    if (!path)
        return STATUS_NOT_FOUND;
    size_t before = out->len;
    enum status s = file_read(path, MAX_TEMPLATE_BYTES, out, err);
    if (s == STATUS_OK && !utf8_valid(str_slice(strbuf_str(out), before, out->len)))
        s = error_set(err, STATUS_INVALID, "%s: not valid UTF-8", path);
    if (s == STATUS_NOT_FOUND) /* removed in between */
        s = STATUS_IO;
    mem_free(path);
    return s;
}

enum status hf_config_chat_template(const struct hf_config *c, const char *name,
                                    struct strbuf *out, struct error *err)
{
    if (!name)
        name = "default";
    enum status s = template_file(c, name, out, err);
    if (s != STATUS_NOT_FOUND)
        return s;
    json_t *file = NULL;
    TRY(load_object(c, "chat_template.json", &file, err));
    struct str text = template_named(json_object_get(file, "chat_template"), name);
    if (!text.ptr)
        text = template_named(json_object_get(c->tokenizer_config, "chat_template"), name);
    if (text.ptr)
        strbuf_add(out, text);
    json_decref(file);
    if (out->overflow)
        return error_set(err, STATUS_LIMIT, "chat template \"%s\": longer than %zu bytes", name,
                         out->max);
    if (!text.ptr)
        return error_set(err, STATUS_NOT_FOUND, "%s: no chat template \"%s\"",
                         c->folder ? c->folder : "model", name);
    return STATUS_OK;
}

bool hf_config_special_token(const struct hf_config *c, const char *name, struct str *out)
{
    const json_t *files[] = { c->tokenizer_config, c->special_tokens_map };
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        const json_t *value = json_object_get(files[i], name);
        if (json_is_object(value))
            value = json_object_get(value, "content");
        *out = json_str(value);
        if (out->ptr)
            return true;
    }
    return false;
}
