#include "engine/disk_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/prefix_tree.h"
#include "engine/session_file.h"

#define NAME_LENGTH 36 /* 16 - 16 .kv */
/* prefix_value halves the worth of memory in ten minutes, that of a file in a day. */
#define IDLE_SCALE 144.0

static char *path_in(const char *folder, const char *name)
{
    struct strbuf path;
    strbuf_init(&path, PATH_MAX);
    strbuf_printf(&path, "%s/%s", folder, name);
    return strbuf_detach(&path);
}

const char *disk_folder_of_sessions(const struct disk_folder *d)
{
    return d->sessions.path ? d->sessions.path : d->manifests ? d->cache.path : NULL;
}

const char *disk_folder_name_of(const struct disk_file *f)
{
    return strrchr(f->path, '/') + 1;
}

static bool is_hex(const char *text, int n)
{
    for (int i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

static bool is_ours(const char *name)
{
    return strnlen(name, NAME_LENGTH) == NAME_LENGTH && is_hex(name, 16) && name[16] == '-' &&
           is_hex(name + 17, 16) && strncmp(name + 33, ".kv", 3) == 0;
}

bool disk_folder_is_name(struct str name)
{
    return name.len == NAME_LENGTH && is_ours(name.ptr);
}

static uint64_t number_of(const char *hex)
{
    uint64_t n = 0;
    for (int i = 0; i < 16; i++)
        n = n << 4 | (uint64_t)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
    return n;
}

/* `name` is one, as disk_folder_is_name() says. */
static size_t bucket_of(const char *name)
{
    return number_of(name + 17) % DISK_FOLDER_BUCKETS;
}

struct disk_file *disk_folder_find(const struct disk_folder *d, const char *name)
{
    struct disk_file *found = NULL, *f = d->bucket[bucket_of(name)];
    for (; f && !(found && found->for_sessions); f = f->next_alike)
        if (strcmp(disk_folder_name_of(f), name) == 0)
            found = f;
    return found;
}

bool disk_folder_is_of(const struct disk_file *f, uint64_t fingerprint)
{
    return number_of(disk_folder_name_of(f)) == fingerprint;
}

void disk_folder_reserve(struct disk_folder *d, const char *name)
{
    d->number = MAX(d->number, number_of(name + 17));
}

void disk_folder_add(struct disk_folder *d, struct disk_file *f)
{
    struct disk_file **bucket = &d->bucket[bucket_of(disk_folder_name_of(f))];
    f->next_alike = *bucket;
    *bucket = f;
    f->next = d->files;
    d->files = f;
    d->bytes += f->bytes;
    const char *folder = disk_folder_of_sessions(d);
    size_t n = folder ? strlen(folder) : 0;
    f->for_sessions =
        folder && strncmp(f->path, folder, n) == 0 && f->path + n + 1 == disk_folder_name_of(f);
    disk_folder_reserve(d, disk_folder_name_of(f));
}

void disk_folder_remove(struct disk_folder *d, struct disk_file *f, bool erase)
{
    struct disk_file **link = &d->files;
    while (*link != f)
        link = &(*link)->next;
    *link = f->next;
    for (link = &d->bucket[bucket_of(disk_folder_name_of(f))]; *link != f;)
        link = &(*link)->next_alike;
    *link = f->next_alike;
    d->bytes -= f->bytes;
    if (erase)
        unlink(f->path);
    disk_file_free(f);
}

static void take_entry(struct disk_folder *d, const char *folder, const char *name)
{
    struct stat info;
    char *path = path_in(folder, name);
    bool ours = is_ours(name);
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode))
        ours = false;
    if (ours && name[NAME_LENGTH] == 0)
        disk_folder_add(d, disk_file_new(path, info.st_size, info.st_mtime));
    else if (ours && strcmp(name + strlen(name) - 4, ".tmp") == 0)
        unlink(path);
    mem_free(path);
}

static void list_files(struct disk_folder *d, const char *folder)
{
    DIR *dir = folder ? opendir(folder) : NULL;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        take_entry(d, folder, entry->d_name);
    if (dir)
        closedir(dir);
}

/* With its parents; an existing one is fine. */
static bool make_folder(const char *path)
{
    char *copy = mem_string(path, strlen(path));
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(copy, 0700);
        *slash = '/';
    }
    bool made = mkdir(copy, 0700) == 0 || errno == EEXIST;
    mem_free(copy);
    return made;
}

/* CONFLICT: another process has it. */
static enum status open_place(struct disk_place *p, const char *what, const char *path, int flags,
                              struct error *err)
{
    char *folder = mem_string(path, strlen(path));
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = 0; /* a link with a slash behind it would be followed */
    enum status status = STATUS_OK;
    if (!make_folder(folder))
        status =
            error_set(err, STATUS_IO, "%s %s: cannot be made: %s", what, path, strerror(errno));
    else if ((p->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags)) < 0)
        status =
            error_set(err, STATUS_IO, "%s %s: cannot be opened: %s", what, path, strerror(errno));
    else if (flock(p->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = error_set(err, STATUS_CONFLICT,
                           "%s %s: another process uses it; give this one a folder of its own",
                           what, path);
    if (status == STATUS_OK)
        p->path = folder;
    else
        mem_free(folder);
    return status;
}

static void do_without(struct disk_folder *d, const char *why)
{
    log_write(d->log, LOG_ERROR, "%s; nothing is kept there", why);
    mem_free(d->fault);
    d->fault = mem_string(why, strlen(why));
}

/* One that cannot be had is done without, which is logged. */
static enum status take_place(struct disk_folder *d, struct disk_place *p, const char *what,
                              const char *path, int flags, struct error *err)
{
    struct error why = { 0 };
    enum status status = open_place(p, what, path, flags, &why);
    if (status == STATUS_OK && access(path, W_OK | X_OK) != 0)
        log_write(d->log, LOG_ERROR, "%s %s: cannot be written to: %s; nothing new is kept", what,
                  path, strerror(errno));
    if (status == STATUS_CONFLICT)
        return error_set(err, status, "%s", why.message);
    if (status == STATUS_OK)
        return status;
    do_without(d, why.message);
    return STATUS_OK;
}

static void find_manifests(struct disk_folder *d, const char *sessions)
{
    struct stat info;
    bool is_cache = sessions && d->cache.path && file_is_same(sessions, d->cache.path);
    const char *own = is_cache ? d->cache.path : d->sessions.path;
    if (own)
        d->manifests = mem_string(own, strlen(own));
    if (own || sessions || !d->cache.path)
        return;
    d->manifests = path_in(d->cache.path, SESSION_FOLDER);
    if (lstat(d->manifests, &info) != 0 || S_ISDIR(info.st_mode))
        return;
    struct error why = { 0 };
    (void)error_set(&why, STATUS_INVALID, "session folder %s: it is no folder", d->manifests);
    do_without(d, why.message);
    mem_free(d->manifests);
    d->manifests = NULL;
}

enum status disk_folder_init(struct disk_folder *d, const char *cache, const char *sessions,
                             int64_t limit, const struct log_sink *log, struct error *err)
{
    *d = (struct disk_folder){ .limit = limit, .log = log };
    d->cache.lock = d->sessions.lock = -1;
    if (cache)
        TRY(take_place(d, &d->cache, "cache folder", cache, 0, err));
    if (sessions && !(d->cache.path && file_is_same(sessions, d->cache.path)))
        TRY(take_place(d, &d->sessions, "session folder", sessions, O_NOFOLLOW, err));
    find_manifests(d, sessions);
    list_files(d, d->cache.path);
    list_files(d, d->sessions.path);
    if (d->manifests)
        session_folder_clean(d->manifests);
    return STATUS_OK;
}

static void release_place(struct disk_place *p)
{
    if (p->lock >= 0)
        close(p->lock);
    mem_free(p->path);
    *p = (struct disk_place){ .lock = -1 };
}

void disk_folder_release(struct disk_folder *d)
{
    while (d->files)
        disk_folder_remove(d, d->files, false);
    release_place(&d->cache);
    release_place(&d->sessions);
    mem_free(d->manifests);
    mem_free(d->fault);
    *d = (struct disk_folder){ .cache.lock = -1, .sessions.lock = -1 };
}

char *disk_folder_new_path(struct disk_folder *d, uint64_t fingerprint, bool for_session)
{
    struct strbuf name;
    strbuf_init(&name, NAME_MAX);
    strbuf_printf(&name, "%016llx-%016llx.kv", (unsigned long long)fingerprint,
                  (unsigned long long)++d->number);
    char *path = path_in(for_session ? disk_folder_of_sessions(d) : d->cache.path, name.ptr);
    strbuf_release(&name);
    return path;
}

void disk_folder_touch(struct disk_file *f)
{
    int64_t now = clock_unix();
    if (f->used == now)
        return;
    f->used = now;
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = now } };
    (void)utimensat(AT_FDCWD, f->path, times, AT_SYMLINK_NOFOLLOW);
}

bool disk_folder_is_built_on(const struct disk_file *f)
{
    for (int32_t i = 0; i < f->n_records; i++) {
        if (!f->node[i] || f->record[i].kind == STATE_WINDOW)
            continue;
        for (const struct prefix_node *c = f->node[i]->child; c; c = c->next)
            for (int k = 0; k < STATE_FILE_KINDS; k++)
                if (c->disk[k].file && c->disk[k].file != f)
                    return true;
    }
    return false;
}

static double file_value(const struct disk_file *f, double seconds_per_token)
{
    int32_t tokens = 0;
    for (int32_t i = 0; i < f->n_records; i++)
        if (f->node[i] && f->record[i].kind != STATE_WINDOW)
            tokens += f->record[i].n_tokens;
    /* Of a model that is not loaded: a page of a small one. */
    if (!f->tree)
        tokens = (int32_t)MIN(f->bytes / 16384, INT32_MAX / 2);
    double idle = (double)MAX(clock_unix() - f->used, 0) / IDLE_SCALE;
    return prefix_value(tokens, seconds_per_token > 0 ? seconds_per_token : 1e-3, idle, f->bytes);
}

static struct disk_file *least_file(const struct disk_folder *d, double seconds_per_token)
{
    struct disk_file *worst = NULL;
    double least = INFINITY;
    for (struct disk_file *f = d->files; f; f = f->next) {
        if (f->pins > 0 || disk_folder_is_built_on(f))
            continue;
        double value = file_value(f, seconds_per_token);
        /* Of equals the newest: it builds on the others. */
        if (value < least || (worst && value <= least && strcmp(f->path, worst->path) > 0)) {
            least = value;
            worst = f;
        }
    }
    return worst;
}

bool disk_folder_make_room(struct disk_folder *d, int64_t bytes, double seconds_per_token)
{
    if (bytes > d->limit)
        return false;
    while (d->bytes > d->limit - bytes) {
        struct disk_file *worst = least_file(d, seconds_per_token);
        if (!worst)
            return false;
        disk_folder_remove(d, worst, true);
        d->n_evicted++;
    }
    return true;
}
