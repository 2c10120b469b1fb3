#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"

static enum status io_error(struct error *err, const char *path, const char *action)
{
    enum status s = errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO;
    return error_set(err, s, "%s: cannot %s: %s", path, action, strerror(errno));
}

static enum status read_all(int fd, const char *path, size_t max_bytes, struct strbuf *out,
                            struct error *err)
{
    char chunk[65536];
    size_t total = 0;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(err, path, "read");
        if (n == 0)
            return STATUS_OK;
        total += (size_t)n;
        if (total <= max_bytes)
            strbuf_append(out, chunk, (size_t)n);
        if (total > max_bytes || out->overflow)
            return error_set(err, STATUS_LIMIT, "%s: larger than the limit of %zu bytes", path,
                             MIN(max_bytes, out->max));
    }
}

enum status file_read(const char *path, size_t max_bytes, struct strbuf *out, struct error *err)
{
    strbuf_append(out, "", 0); /* an empty file, too, gives a text that ends with NUL */
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", max_bytes, out, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return io_error(err, path, "open");
    struct stat info;
    enum status s;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
        (uint64_t)info.st_size > max_bytes)
        s = error_set(err, STATUS_LIMIT, "%s: %lld bytes are more than the limit of %zu", path,
                      (long long)info.st_size, max_bytes);
    else
        s = read_all(fd, path, max_bytes, out, err);
    close(fd);
    return s;
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* Makes the rename itself durable; a file system that cannot do it is no failure. */
static void sync_folder_of(const char *path)
{
    char *folder = mem_string(path, strlen(path));
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    mem_free(folder);
}

/* Beside w->path. */
static enum status create_temporary(struct file_writer *w, const char *path, mode_t mode,
                                    struct error *err)
{
    struct strbuf temporary;
    strbuf_init(&temporary, PATH_MAX);
    strbuf_printf(&temporary, "%s.%016llx.tmp", w->path, (unsigned long long)rng_random_seed());
    bool too_long = temporary.overflow;
    w->temporary = strbuf_detach(&temporary);
    if (!too_long)
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (w->fd >= 0)
        return STATUS_OK;
    enum status s = too_long ? error_set(err, STATUS_LIMIT, "%s: the path is too long", path)
                             : io_error(err, path, "create a file beside it");
    file_writer_abort(w);
    return s;
}

enum status file_writer_open(struct file_writer *w, const char *path, struct error *err)
{
    *w = (struct file_writer){ .fd = -1 };
    /* A symbolic link keeps being one: what it points to is replaced. */
    char *resolved = realpath(path, NULL);
    w->path = mem_string(resolved ? resolved : path, strlen(resolved ? resolved : path));
    mem_free(resolved);
    struct stat old;
    bool exists = stat(w->path, &old) == 0;
    if (!exists || S_ISREG(old.st_mode))
        return create_temporary(w, path, exists ? old.st_mode & 07777 : 0666, err);
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (w->fd >= 0)
        return STATUS_OK;
    enum status s = io_error(err, path, "open for writing");
    file_writer_abort(w);
    return s;
}

enum status file_writer_open_private(struct file_writer *w, const char *path, struct error *err)
{
    *w = (struct file_writer){ .fd = -1, .path = mem_string(path, strlen(path)) };
    return create_temporary(w, path, 0600, err);
}

enum status file_writer_write(struct file_writer *w, const void *bytes, size_t n, struct error *err)
{
    if (!w->failed && write_all(w->fd, bytes, n))
        return STATUS_OK;
    if (w->failed)
        return error_set(err, STATUS_IO, "%s: an earlier write failed", w->path);
    w->failed = true;
    return io_error(err, w->path, "write");
}

enum status file_writer_commit(struct file_writer *w, struct error *err)
{
    enum status s = STATUS_OK;
    if (w->failed)
        s = error_set(err, STATUS_IO, "%s: an earlier write failed", w->path);
    else if (w->temporary && fsync(w->fd) != 0)
        s = io_error(err, w->path, "write");
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && s == STATUS_OK)
        s = io_error(err, w->path, "write");
    if (s == STATUS_OK && w->temporary && rename(w->temporary, w->path) != 0)
        s = io_error(err, w->path, "replace");
    if (s == STATUS_OK && w->temporary) {
        sync_folder_of(w->path);
        mem_free(w->temporary);
        w->temporary = NULL;
    }
    file_writer_abort(w);
    return s;
}

void file_writer_abort(struct file_writer *w)
{
    if (!w->path)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temporary)
        unlink(w->temporary);
    mem_free(w->temporary);
    mem_free(w->path);
    *w = (struct file_writer){ .fd = -1 };
}

enum status file_write(const char *path, const void *bytes, size_t n, struct error *err)
{
    struct file_writer w;
    TRY(file_writer_open(&w, path, err));
    enum status s = file_writer_write(&w, bytes, n, err);
    if (s == STATUS_OK)
        return file_writer_commit(&w, err);
    file_writer_abort(&w);
    return s;
}

bool file_takes_output(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    return poll(&p, 1, 0) != 0;
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_is_same(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}
