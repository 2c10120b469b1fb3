/* model.safetensors.index.json: {"metadata": {...}, "weight_map": {tensor name: file name}}. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "formats/safetensors.h"

#define MAX_INDEX_BYTES ((size_t)256 << 20)
#define NAME_ARG(s) (int)MIN((s).len, (size_t)160), (s).ptr

/* A name that cannot leave the folder. */
static bool is_shard_name(struct str name)
{
    return name.ptr && name.len <= 255 && str_ends(name, STR(".safetensors")) &&
           !memchr(name.ptr, '/', name.len) && !memchr(name.ptr, 0, name.len);
}

static char *beside(const char *path, struct str name)
{
    struct strbuf b;
    strbuf_init(&b, 65536);
    const char *slash = strrchr(path, '/');
    if (slash)
        strbuf_append(&b, path, (size_t)(slash - path) + 1);
    strbuf_add(&b, name);
    return strbuf_detach(&b);
}

static enum status open_shard(struct weight_file *f, const char *index_path, struct str name,
                              struct error *err)
{
    struct weight_file shard;
    char *path = beside(index_path, name);
    enum status s = safetensors_open(&shard, path, err);
    mem_free(path);
    if (s == STATUS_NOT_FOUND) /* that status would mean that there is no model at all */
        return error_set(err, STATUS_INVALID, "%s: it lists the shard \"%.*s\", which is missing",
                         index_path, NAME_ARG(name));
    if (s != STATUS_OK)
        return s;
    return weight_file_merge(f, &shard, err);
}

/* Opens every file of the map once, in the order in which they are first named. */
static enum status open_shards(struct weight_file *f, json_t *map, const char *path,
                               struct strmap *shards, struct error *err)
{
    uint32_t n = 0;
    for (void *i = json_object_iter(map); i; i = json_object_iter_next(map, i)) {
        struct str name = json_str(json_object_iter_value(i));
        if (!is_shard_name(name))
            return error_set(err, STATUS_INVALID, "%s: weight_map[\"%s\"] is not the name of a "
                             ".safetensors file of the same folder", path,
                             json_object_iter_key(i));
        if (strmap_insert(shards, name, n, NULL)) {
            TRY(open_shard(f, path, name, err));
            n++;
        }
    }
    return STATUS_OK;
}

static enum status check_map(const struct weight_file *f, json_t *map, const char *path,
                             const struct strmap *shards, struct error *err)
{
    for (void *i = json_object_iter(map); i; i = json_object_iter_next(map, i)) {
        struct str name = { json_object_iter_key(i), json_object_iter_key_len(i) };
        struct str shard = json_str(json_object_iter_value(i));
        const struct weight_tensor *t = weight_file_find(f, name);
        uint32_t part = 0;
        if (!t || !strmap_find(shards, shard, &part) || t->part != part)
            return error_set(err, STATUS_INVALID, "%s: tensor \"%.*s\" is not in %.*s as "
                             "weight_map says", path, NAME_ARG(name), NAME_ARG(shard));
    }
    return STATUS_OK;
}

enum status safetensors_open_index(struct weight_file *f, const char *path, struct error *err)
{
    json_t *index;
    *f = (struct weight_file){ .format = "safetensors" };
    TRY(json_parse_file(path, MAX_INDEX_BYTES, JSON_STRICT_UTF8 | JSON_UNIQUE_KEYS, &index, err));
    json_t *map = json_object_get(index, "weight_map");
    struct strmap shards;
    strmap_init(&shards, 0);
    enum status s;
    if (json_is_object(map)) {
        s = open_shards(f, map, path, &shards, err);
        if (s == STATUS_OK)
            s = check_map(f, map, path, &shards, err);
    } else {
        s = error_set(err, STATUS_INVALID, "%s: \"weight_map\" is missing or no object", path);
    }
    strmap_release(&shards);
    json_decref(index);
    if (s != STATUS_OK)
        weight_file_close(f);
    return s;
}

/* The only entry of the folder that ends in .safetensors, or NULL; *n counts them. */
static char *only_file(const char *folder, size_t *n)
{
    char *found = NULL;
    *n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (!str_ends(str_of(e->d_name), STR(".safetensors")))
            continue;
        mem_free(found);
        found = mem_string(e->d_name, strlen(e->d_name));
        ++*n;
    }
    if (d)
        closedir(d);
    if (*n == 1)
        return found;
    mem_free(found);
    return NULL;
}

enum status safetensors_open_folder(struct weight_file *f, const char *folder, struct error *err)
{
    *f = (struct weight_file){ 0 };
    char *inside = mem_alloc(strlen(folder) + 2);
    memcpy(inside, folder, strlen(folder));
    memcpy(inside + strlen(folder), "/", 2);
    char *index = beside(inside, STR("model.safetensors.index.json"));
    char *single = beside(inside, STR("model.safetensors"));
    size_t n = 0;
    enum status s;
    if (file_exists(index)) {
        s = safetensors_open_index(f, index, err);
    } else {
        if (!file_exists(single)) {
            mem_free(single);
            char *name = only_file(folder, &n);
            single = name ? beside(inside, str_of(name)) : NULL;
            mem_free(name);
        }
        if (single)
            s = safetensors_open(f, single, err);
        else if (n)
            s = error_set(err, STATUS_INVALID, "%s: %zu .safetensors files, but no "
                          "model.safetensors.index.json that says what they hold", folder, n);
        else
            s = error_set(err, STATUS_NOT_FOUND, "%s: no .safetensors file", folder);
    }
    mem_free(index);
    mem_free(single);
    mem_free(inside);
    return s;
}
