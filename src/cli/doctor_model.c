/* A model as it would be loaded: header, family, vocabulary, template, memory, and the files that
 * lie beside it. Headers only; nothing is computed. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/system_memory.h"
#include "cli/doctor.h"
#include "engine/load_text.h"
#include "formats/model_source.h"
#include "models/family.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

#define MIB 1048576.0

static void check_family(struct doctor_report *r, const struct model_source *source)
{
    const struct model_family *family;
    struct error err = { 0 };
    if (model_source_need_weights(source, &err) != STATUS_OK) {
        doctor_add(r, DOCTOR_FAIL, "weights", "%s", err.message);
        doctor_fix(r, "name the file or folder that holds the weights");
    } else if (model_family_find(source, &family, &err) != STATUS_OK) {
        doctor_add(r, DOCTOR_FAIL, "family", "%s", err.message);
        doctor_fix(r, "take a model of a known family, or a newer ingot");
    } else {
        doctor_add(r, DOCTOR_OK, "family", "%s", family->name);
    }
}

static void check_text(struct doctor_report *r, const struct model_source *source)
{
    struct engine_options options = { 0 };
    struct tokenizer *tokenizer = NULL;
    struct chat_template *chat = NULL;
    struct error err = { 0 };
    if (load_text(&options, source, &tokenizer, &chat, &err) != STATUS_OK) {
        doctor_add(r, DOCTOR_FAIL, "text", "%s", err.message);
        doctor_fix(r, "serve with --tokenizer PATH or --chat-template-file FILE of a sound one");
        return;
    }
    doctor_add(r, DOCTOR_OK, "tokenizer", "%d tokens", (int)tokenizer_n_tokens(tokenizer));
    if (chat_template_is_fallback(chat)) {
        doctor_add(r, DOCTOR_WARN, "chat template", "the model has none: a plain one stands in");
        doctor_fix(r, "give the model's own with --chat-template-file FILE");
    } else {
        doctor_add(r, DOCTOR_OK, "chat template", "the model's own, understood");
    }
    chat_template_free(chat);
    tokenizer_free(tokenizer);
}

void doctor_model_memory(struct doctor_report *r, const struct engine_plan *p, uint64_t usable)
{
    double weights = (double)(p->weight_bytes + p->scratch_bytes) / MIB;
    double state = (double)p->kv_bytes / MIB, left = (double)usable / MIB;
    bool fits = usable == 0 || weights <= left, all_fits = usable == 0 || weights + state <= left;
    doctor_add(r,
               all_fits ? DOCTOR_OK
               : fits   ? DOCTOR_WARN
                        : DOCTOR_FAIL,
               "model memory",
               "weights and scratch %.0f MiB, state of %d tokens of context up to %.0f MiB, "
               "usable %.0f MiB",
               weights, p->context, state, left);
    if (!fits)
        doctor_fix(r, "take a smaller model or quantization, or end other programs");
    else if (!all_fits)
        doctor_fix(r, "serve with a smaller --context or --parallel, or --cache-type-k q8_0");
}

static void check_memory(struct doctor_report *r, const char *path)
{
    struct engine_options options = { 0 };
    struct engine_plan plan;
    struct system_memory memory;
    struct error err = { 0 };
    if (engine_plan(&options, path, &plan, &err) != STATUS_OK) {
        doctor_add(r, DOCTOR_FAIL, "plan", "%s", err.message);
        doctor_fix(r, "ingot plan MODEL repeats it; fetch the model again if the file is damaged");
        return;
    }
    system_memory_read("", &memory);
    doctor_model_memory(r, &plan, memory.usable_bytes);
}

/* Says what a file beside the model is for, by its name; NULL: nothing of ours. */
static const char *side_file_use(const char *name)
{
    if (strcmp(name, "generation_config.json") == 0)
        return "its sampling defaults are used";
    if (strstr(name, "imatrix"))
        return "an importance matrix, for ingot quantize --imatrix";
    if (strstr(name, "mmproj"))
        return "an image projector, which is not used: text only";
    if (strstr(name, "draft") || strstr(name, "mtp"))
        return "a draft model, which is not used";
    return NULL;
}

static void check_side_files(struct doctor_report *r, const struct model_source *source)
{
    char folder[4096] = ".";
    const char *slash = strrchr(source->path, '/');
    size_t n = source->kind == MODEL_SOURCE_HF ? strlen(source->path)
               : slash                         ? (size_t)(slash - source->path)
                                               : 0;
    if (n >= sizeof(folder))
        return;
    if (n > 0 || slash)
        snprintf(folder, sizeof(folder), "%.*s/", (int)n, source->path);
    DIR *d = opendir(folder);
    if (!d)
        return;
    const char *own = slash ? slash + 1 : source->path;
    for (struct dirent *e; (e = readdir(d));) {
        const char *use = side_file_use(e->d_name);
        if (use && strcmp(e->d_name, own) != 0)
            doctor_add(r, DOCTOR_OK, "side file", "%s: %s", e->d_name, use);
    }
    closedir(d);
}

void doctor_model(struct doctor_report *r, const char *path)
{
    struct model_source *source;
    struct error err = { 0 };
    if (model_source_open(&source, path, &err) != STATUS_OK) {
        doctor_add(r, DOCTOR_FAIL, "model", "%s", err.message);
        doctor_fix(r, "check the path; if it is right, fetch the model again");
        return;
    }
    doctor_add(r, DOCTOR_OK, "model", "%s: the header is sound", source->path);
    size_t before = doctor_count(r, DOCTOR_FAIL);
    check_family(r, source);
    check_text(r, source);
    if (doctor_count(r, DOCTOR_FAIL) == before)
        check_memory(r, path);
    check_side_files(r, source);
    model_source_free(source);
}
