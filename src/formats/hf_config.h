/* hf_config: the JSON files of a Hugging Face model folder.
 *
 * Small files are parsed at opening; tokenizer.json, which is large, only when asked for. All are
 * optional here: a folder with a tokenizer alone is one, too. Metadata that is not UTF-8 is an
 * error. Ownership: everything returned belongs to the hf_config and lives until
 * hf_config_close(), unless noted. Threads: read-only once opened. */
#ifndef FORMATS_HF_CONFIG_H
#define FORMATS_HF_CONFIG_H

#include <stdbool.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

struct hf_config {
    char *folder;
    /* Objects, or NULL where the folder has no such file. */
    json_t *config;             /* config.json */
    json_t *generation_config;  /* generation_config.json */
    json_t *tokenizer_config;   /* tokenizer_config.json */
    json_t *special_tokens_map; /* special_tokens_map.json */
};

/* On failure *c is closed. NOT_FOUND: neither config.json nor tokenizer.json is there. */
MUST_CHECK enum status hf_config_open(struct hf_config *c, const char *folder, struct error *err);
void hf_config_close(struct hf_config *c); /* a zeroed one is allowed */

/* FOLDER/name if that file exists, else NULL; the caller frees it with mem_free. */
char *hf_config_file(const struct hf_config *c, const char *name);

/* tokenizer.json, parsed; a reference of the caller. NOT_FOUND when there is none. */
MUST_CHECK enum status hf_config_load_tokenizer(const struct hf_config *c, json_t **out,
                                                struct error *err);

/* Appends the chat template called `name` (NULL: "default"), looked for in this order:
 * chat_template.jinja (additional_chat_templates/NAME.jinja for the others), chat_template.json,
 * chat_template of tokenizer_config.json, which is a text or a list of {name, template}.
 * NOT_FOUND when there is none. */
MUST_CHECK enum status hf_config_chat_template(const struct hf_config *c, const char *name,
                                               struct strbuf *out, struct error *err);

/* The text of a special token ("bos_token"), from tokenizer_config.json, else from
 * special_tokens_map.json, where it is a text or an object with "content". False: absent. */
bool hf_config_special_token(const struct hf_config *c, const char *name, struct str *out);

/* For tests and fuzzing: the same from texts instead of files, without a folder. Either text may
 * be empty (absent). */
MUST_CHECK enum status hf_config_from_text(struct hf_config *c, struct str config,
                                           struct str tokenizer_config, struct error *err);

/* If `path` is a hub-cache folder (it has snapshots/), the snapshot folder that refs/main names,
 * else the newest one; otherwise a copy of path. The caller frees it with mem_free. NOT_FOUND
 * when the cache holds no snapshot. */
MUST_CHECK enum status hf_resolve_folder(const char *path, char **out, struct error *err);

#endif
