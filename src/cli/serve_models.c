#include "cli/serve_models.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/strbuf.h"

#define MAX_MODELS 1024

struct found {
    struct arena *arena;
    const char *path[MAX_MODELS];
    size_t n, n_named; /* the first are named on the command line, the others lie in the folder */
};

static const char *join(struct arena *a, const char *folder, const char *name)
{
    struct strbuf path;
    strbuf_init(&path, 1u << 16);
    strbuf_printf(&path, "%s/%s", folder, name);
    const char *kept = arena_str(a, strbuf_str(&path)).ptr;
    strbuf_release(&path);
    return kept;
}

/* The later parts of a split model belong to its first. */
static bool is_later_shard(struct str name)
{
    size_t of = str_find(name, STR("-of-"), 0);
    return of != STR_NONE && of >= 6 && name.ptr[of - 6] == '-' &&
           !str_starts(str_slice(name, of - 5, of), STR("00001"));
}

static bool may_be_model(const char *path, struct str name)
{
    if (str_ends(name, STR(".gguf")))
        return !is_later_shard(name) && !str_starts(name, STR("mmproj"));
    return name.len && name.ptr[0] != '.' && file_is_directory(path);
}

static enum status add_path(struct found *f, const char *path, struct error *err)
{
    if (f->n == MAX_MODELS)
        return error_set(err, STATUS_LIMIT, "more than %d models", MAX_MODELS);
    f->path[f->n++] = path;
    return STATUS_OK;
}

/* A model that the command line names may lie in the folder too. */
static bool is_known(const struct found *f, const char *path)
{
    struct stat one, other;
    for (size_t i = 0; i < f->n_named; i++)
        if (stat(path, &one) == 0 && stat(f->path[i], &other) == 0 && one.st_dev == other.st_dev &&
            one.st_ino == other.st_ino)
            return true;
    return false;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* GGUF files of the folder, and folders in it that hold a config.json. */
static enum status add_folder(struct found *f, const char *folder, struct error *err)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, NULL, by_name);
    if (n < 0)
        return error_set(err, STATUS_IO, "--models-dir %s: cannot be read", folder);
    enum status status = STATUS_OK;
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        const char *path = join(f->arena, folder, list[i]->d_name);
        bool take = may_be_model(path, str_of(list[i]->d_name));
        if (take && !str_ends(str_of(path), STR(".gguf")))
            take = file_exists(join(f->arena, path, "config.json"));
        if (take && !is_known(f, path))
            status = add_path(f, path, err);
    }
    for (int i = 0; i < n; i++)
        mem_free(list[i]);
    mem_free(list);
    if (status == STATUS_OK && f->n == 0)
        status = error_set(err, STATUS_NOT_FOUND,
                           "--models-dir %s: expected .gguf files or "
                           "Hugging Face folders, found none",
                           folder);
    return status;
}

static enum status find(struct found *f, const struct options *o, struct error *err)
{
    const char *folder = options_text(o, "models-dir");
    const char *path;
    size_t used;
    if (!folder || o->n_arguments > 0 || options_text(o, "model")) {
        TRY(cli_model(o, &path, &used, err));
        TRY(add_path(f, path, err));
        for (size_t i = used; i < o->n_arguments; i++)
            TRY(add_path(f, options_argument(o, i), err));
    }
    f->n_named = f->n;
    return folder ? add_folder(f, folder, err) : STATUS_OK;
}

/* "name,alias,alias": the first is the id, the others are answered too. */
static void name_first(struct arena *a, struct server_model *m, struct str rest)
{
    const char **names = arena_array(a, const char *, rest.len + 1);
    size_t n = 0;
    while (rest.len) {
        size_t end = str_find(rest, STR(","), 0);
        end = end == STR_NONE ? rest.len : end;
        struct str name = str_trim(str_slice(rest, 0, end));
        if (name.len)
            names[n++] = arena_str(a, name).ptr;
        rest = str_slice(rest, MIN(end + 1, rest.len), rest.len);
    }
    if (n == 0)
        return;
    m->id = names[0];
    m->aliases = names + 1;
    m->n_aliases = n - 1;
}

static const char *name_of_file(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str name = str_of(slash ? slash + 1 : path);
    if (str_ends(name, STR(".gguf")))
        name.len -= 5;
    return arena_str(a, name).ptr;
}

static bool is_taken(const struct server_model *models, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(models[i].id, id) == 0)
            return true;
    return false;
}

/* Two quantizations of one model have one name inside: then the file's name tells them apart. */
static enum status name_by_file(struct arena *a, const struct engine_options *engine,
                                struct server_model *models, size_t i, struct error *err)
{
    struct engine_plan plan;
    TRY(engine_plan(engine, models[i].path, &plan, err));
    models[i].id = arena_str(a, str_of(plan.name)).ptr;
    if (is_taken(models, i, models[i].id))
        models[i].id = name_of_file(a, models[i].path);
    if (is_taken(models, i, models[i].id))
        return error_set(err, STATUS_INVALID, "%s: the name '%s' is taken by another model",
                         models[i].path, models[i].id);
    return STATUS_OK;
}

enum status serve_models_read(struct arena *a, const struct options *o,
                              const struct engine_options *engine, struct server_model **out,
                              size_t *n, struct error *err)
{
    struct found *f = arena_array(a, struct found, 1);
    f->arena = a;
    TRY(find(f, o, err));
    struct server_model *models = arena_array(a, struct server_model, f->n);
    size_t n_taken = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct server_model *m = &models[n_taken];
        *m = (struct server_model){ .path = f->path[i] };
        bool renamed = n_taken == 0 && options_text(o, "model-name");
        enum status status = STATUS_OK;
        if (!renamed || i >= f->n_named)
            status = name_by_file(a, engine, models, n_taken, err);
        if (status != STATUS_OK && i >= f->n_named) {
            cli_note(o, "left out: %s", err->message);
            continue;
        }
        TRY(status);
        if (renamed)
            name_first(a, m, str_of(options_text(o, "model-name")));
        if (!m->id)
            TRY(name_by_file(a, engine, models, n_taken, err));
        n_taken++;
    }
    if (n_taken == 0)
        return error_set(err, STATUS_NOT_FOUND, "--models-dir %s: no model in it can be served",
                         options_text(o, "models-dir"));
    *out = models;
    *n = n_taken;
    return STATUS_OK;
}
