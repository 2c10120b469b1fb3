#include "server/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

#define UNIX_BACKLOG 128
#define TCP_BACKLOG 256

/* 0, or why connecting fails. */
static int try_connect(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int failed = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : errno;
    close(fd);
    return failed;
}

/* Only a refused connection proves that no process holds the socket: a full backlog, a socket of
 * another kind or missing rights are no proof. */
static enum status clear_path(const struct sockaddr_un *address, struct error *err)
{
    const char *path = address->sun_path;
    struct stat there;
    if (lstat(path, &there) != 0)
        return STATUS_OK; /* bind tells what else may be wrong */
    if (!S_ISSOCK(there.st_mode))
        return error_set(err, STATUS_IO,
                         "cannot listen on unix:%s: expected no file or an unused socket there, "
                         "found %s",
                         path, S_ISDIR(there.st_mode) ? "a folder" : "another file");
    int failed = try_connect(address);
    if (failed == 0 || failed == EAGAIN)
        return error_set(err, STATUS_IO, "cannot listen on unix:%s: another program answers on it",
                         path);
    if (failed != ECONNREFUSED)
        return error_set(err, STATUS_IO,
                         "cannot listen on unix:%s: a socket is there, and whether it is in use "
                         "cannot be told: %s",
                         path, strerror(failed));
    if (unlink(path) != 0 && errno != ENOENT)
        return error_set(err, STATUS_IO,
                         "cannot listen on unix:%s: the unused socket there cannot "
                         "be removed: %s",
                         path, strerror(errno));
    return STATUS_OK;
}

static enum status listen_unix(struct http_listener *l, const char *path, int *out,
                               struct error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (!path[0] || strlen(path) >= sizeof address.sun_path)
        return error_set(err, STATUS_INVALID,
                         "--host unix:%s: expected a path of 1 to %zu bytes, found %zu", path,
                         sizeof address.sun_path - 1, strlen(path));
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    TRY(clear_path(&address, err));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    struct stat made = { 0 };
    if (!bound || lstat(path, &made) != 0 || listen(fd, UNIX_BACKLOG) != 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return error_set(err, STATUS_IO, "cannot listen on unix:%s: %s", path, strerror(failed));
    }
    l->unix_path = mem_string(path, strlen(path));
    l->device = made.st_dev;
    l->inode = made.st_ino;
    *out = fd;
    return STATUS_OK;
}

static int bound_port(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t n = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &n) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static enum status listen_tcp(struct http_listener *l, const char *host, int port, int *out,
                              struct error *err)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
    int failed = getaddrinfo(host, service, &hints, &found);
    if (failed)
        return error_set(err, STATUS_IO, "cannot listen on %s port %s: %s", host, service,
                         gai_strerror(failed));
    int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, TCP_BACKLOG) == 0;
    failed = bound ? 0 : errno;
    freeaddrinfo(found);
    if (failed) {
        if (fd >= 0)
            close(fd);
        return error_set(
            err, STATUS_IO, "cannot listen on %s port %s: %s%s", host, service, strerror(failed),
            failed == EADDRINUSE ? " (another program has it; --port chooses another)" : "");
    }
    l->port = bound_port(fd);
    *out = fd;
    return STATUS_OK;
}

enum status http_listen(struct http_listener *l, const char *host, int port, int *fd,
                        struct error *err)
{
    *l = (struct http_listener){ 0 };
    return strncmp(host, "unix:", 5) == 0 ? listen_unix(l, host + 5, fd, err)
                                          : listen_tcp(l, host, port, fd, err);
}

void http_listen_release(struct http_listener *l)
{
    struct stat there;
    if (l->unix_path && lstat(l->unix_path, &there) == 0 && there.st_dev == l->device &&
        there.st_ino == l->inode)
        unlink(l->unix_path);
    mem_free(l->unix_path);
    l->unix_path = NULL;
}
