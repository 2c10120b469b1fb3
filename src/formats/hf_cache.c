/* The cache of the Hugging Face hub keeps a repository as
 *   models--ORG--NAME/refs/main              the name of a snapshot
 *   models--ORG--NAME/snapshots/NAME/...     links to the files
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/hf_config.h"

static char *snapshot_path(const char *cache, struct str name)
{
    struct strbuf b;
    strbuf_init(&b, 65536);
    strbuf_printf(&b, "%s/snapshots/%.*s", cache, STR_ARG(name));
    return strbuf_detach(&b);
}

/* The snapshot that refs/main names, or NULL. */
static char *main_snapshot(const char *cache)
{
    struct strbuf path, text;
    strbuf_init(&path, 65536);
    strbuf_init(&text, 256);
    strbuf_printf(&path, "%s/refs/main", cache);
    char *found = NULL;
    if (file_read(strbuf_str(&path).ptr, 256, &text, NULL) == STATUS_OK) {
        struct str name = str_trim(strbuf_str(&text));
        bool plain = name.len && name.ptr[0] != '.' && !memchr(name.ptr, '/', name.len) &&
                     !memchr(name.ptr, 0, name.len);
        found = plain ? snapshot_path(cache, name) : NULL;
        if (found && !file_is_directory(found)) {
            mem_free(found);
            found = NULL;
        }
    }
    strbuf_release(&path);
    strbuf_release(&text);
    return found;
}

static char *newest_snapshot(const char *cache, const char *snapshots)
{
    char *newest = NULL;
    struct timespec newest_time = { 0, 0 };
    DIR *d = opendir(snapshots);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        struct stat info;
        if (e->d_name[0] == '.')
            continue;
        char *path = snapshot_path(cache, str_of(e->d_name));
        bool newer = stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
                     (!newest || info.st_mtim.tv_sec > newest_time.tv_sec ||
                      (info.st_mtim.tv_sec == newest_time.tv_sec &&
                       info.st_mtim.tv_nsec > newest_time.tv_nsec));
        if (newer) {
            newest_time = info.st_mtim;
            mem_free(newest);
            newest = path;
        } else {
            mem_free(path);
        }
    }
    if (d)
        closedir(d);
    return newest;
}

enum status hf_resolve_folder(const char *path, char **out, struct error *err)
{
    struct strbuf snapshots;
    strbuf_init(&snapshots, 65536);
    strbuf_printf(&snapshots, "%s/snapshots", path);
    *out = NULL;
    if (!file_is_directory(strbuf_str(&snapshots).ptr)) {
        *out = mem_string(path, strlen(path));
    } else {
        *out = main_snapshot(path);
        if (!*out)
            *out = newest_snapshot(path, snapshots.ptr);
    }
    strbuf_release(&snapshots);
    if (*out)
        return STATUS_OK;
    return error_set(err, STATUS_NOT_FOUND, "%s: the hub cache holds no snapshot of this model",
                     path);
}
