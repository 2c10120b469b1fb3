#include "engine/session_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/disk_folder.h"
#include "engine/session_file.h"

struct change {
    struct disk_folder disk;
    const char *name;
};

static void end(struct change *c)
{
    disk_folder_release(&c->disk);
}

static enum status begin(struct change *c, const char *cache, const char *sessions,
                         const char *name, struct error *err)
{
    *c = (struct change){ .name = name };
    TRY(session_name_check(str_of(name), err));
    const char *folder = sessions ? sessions : cache;
    if (!file_is_directory(folder))
        return error_set(err, STATUS_NOT_FOUND, "%s: there is no such folder", folder);
    enum status status =
        disk_folder_init(&c->disk, sessions ? NULL : cache, sessions, INT64_MAX, NULL, err);
    if (status == STATUS_OK && !c->disk.manifests)
        status = error_set(err, STATUS_IO, "%s", c->disk.fault);
    if (status != STATUS_OK)
        end(c);
    return status;
}

static bool exists(const struct change *c, const char *name)
{
    struct stat info;
    char *path = session_path(c->disk.manifests, name);
    bool there = lstat(path, &info) == 0;
    mem_free(path);
    return there;
}

static enum status find(const struct change *c, struct error *err)
{
    if (exists(c, c->name))
        return STATUS_OK;
    return error_set(err, STATUS_NOT_FOUND, "session %s: there is none of this name", c->name);
}

static enum status remove_manifest(const struct change *c, struct error *err)
{
    char *path = session_path(c->disk.manifests, c->name);
    enum status status = unlink(path) == 0 ? STATUS_OK
                                           : error_set(err, STATUS_IO, "%s: cannot be removed: %s",
                                                       path, strerror(errno));
    mem_free(path);
    return status;
}

static enum status copy(const struct change *c, const char *to, struct error *err)
{
    struct session_file file;
    TRY(find(c, err));
    TRY(session_name_check(str_of(to), err));
    if (exists(c, to))
        return error_set(err, STATUS_CONFLICT, "session %s: there is one of this name", to);
    TRY(session_file_read(&file, c->disk.manifests, c->name, err));
    enum status status = session_file_write(&file, c->disk.manifests, to, err);
    session_file_release(&file);
    return status;
}

enum status session_folder_fork(const char *cache, const char *sessions, const char *name,
                                const char *to, struct error *err)
{
    struct change c;
    TRY(begin(&c, cache, sessions, name, err));
    enum status status = copy(&c, to, err);
    end(&c);
    return status;
}

enum status session_folder_rename(const char *cache, const char *sessions, const char *name,
                                  const char *to, struct error *err)
{
    struct change c;
    TRY(begin(&c, cache, sessions, name, err));
    enum status status = copy(&c, to, err);
    if (status == STATUS_OK)
        status = remove_manifest(&c, err);
    end(&c);
    return status;
}

/* Files of another session are not this one's to remove; nor are any, where one of them cannot be
 * read: it might need them. */
static void pin(void *user, const char *name)
{
    struct change *c = user;
    struct session_file file;
    struct error err = { 0 };
    if (session_file_read(&file, c->disk.manifests, name, &err) != STATUS_OK) {
        for (struct disk_file *f = c->disk.files; f; f = f->next)
            f->pins++;
        return;
    }
    for (size_t i = 0; i < file.n_files; i++) {
        struct disk_file *f = disk_folder_find(&c->disk, file.file[i]);
        if (f)
            f->pins++;
    }
    session_file_release(&file);
}

static void erase_files(struct change *c, const struct session_file *gone)
{
    session_folder_list(c->disk.manifests, pin, c);
    for (size_t i = gone->n_files; i > 0; i--) {
        struct disk_file *f = disk_folder_find(&c->disk, gone->file[i - 1]);
        if (f && f->pins == 0)
            disk_folder_remove(&c->disk, f, true);
    }
}

static enum status delete_session(struct change *c, struct error *err)
{
    struct session_file gone;
    struct error damage = { 0 };
    TRY(find(c, err));
    enum status status = session_file_read(&gone, c->disk.manifests, c->name, &damage);
    if (remove_manifest(c, err) != STATUS_OK) {
        if (status == STATUS_OK)
            session_file_release(&gone);
        return STATUS_IO;
    }
    if (status == STATUS_OK) {
        erase_files(c, &gone);
        session_file_release(&gone);
    }
    return STATUS_OK;
}

enum status session_folder_delete(const char *cache, const char *sessions, const char *name,
                                  struct error *err)
{
    struct change c;
    TRY(begin(&c, cache, sessions, name, err));
    enum status status = delete_session(&c, err);
    end(&c);
    return status;
}
