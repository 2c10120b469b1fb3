#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

static enum status write_beside(const char *target, const void *bytes, size_t n,
                                struct error *err)
{
    struct strbuf temporary;
    strbuf_init(&temporary, PATH_MAX);
    strbuf_printf(&temporary, "%s.%016llx.tmp", target, (unsigned long long)rng_random_seed());
    if (temporary.overflow) {
        strbuf_release(&temporary);
        return error_set(err, STATUS_LIMIT, "%s: the path is too long", target);
    }
    struct stat old;
    mode_t mode = stat(target, &old) == 0 ? old.st_mode & 07777 : 0666;
    enum status s = STATUS_OK;
    int fd = open(temporary.ptr, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        s = io_error(err, target, "create a file beside it");
        strbuf_release(&temporary);
        return s;
    }
    if (!write_all(fd, bytes, n) || fsync(fd) != 0)
        s = io_error(err, target, "write");
    if (close(fd) != 0 && s == STATUS_OK)
        s = io_error(err, target, "write");
    if (s == STATUS_OK && rename(temporary.ptr, target) != 0)
        s = io_error(err, target, "replace");
    if (s == STATUS_OK)
        sync_folder_of(target);
    else
        unlink(temporary.ptr);
    strbuf_release(&temporary);
    return s;
}

enum status file_write(const char *path, const void *bytes, size_t n, struct error *err)
{
    /* A symbolic link keeps being one: what it points to is replaced. */
    char *resolved = realpath(path, NULL);
    enum status s = write_beside(resolved ? resolved : path, bytes, n, err);
    mem_free(resolved);
    return s;
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
