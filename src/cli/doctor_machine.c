/* The machine: processor, memory, folders, port. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system_memory.h"
#include "cli/doctor.h"
#include "cpu/cpu_features.h"

#define MIB (UINT64_C(1) << 20)
#define GIB 1073741824.0

static void check_processor(struct doctor_report *r)
{
    struct cpu_features f;
    cpu_features_read(&f);
    const char *isa = f.avx512 ? "AVX-512" : f.avx2 ? "AVX2" : f.neon_dotprod ? "NEON" : "plain C";
    enum doctor_level level = DOCTOR_OK;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt"))
        level = DOCTOR_FAIL;
    else if (!f.avx2)
        level = DOCTOR_WARN;
#endif
    doctor_add(r, level, "processor", "%s: %s kernels%s%s, %d physical cores of %d CPUs", f.model,
               isa, f.amx_int8 ? ", AMX" : "", f.avx512_bf16 ? ", BF16" : "", f.physical_cores,
               f.logical_cpus);
    if (level == DOCTOR_FAIL)
        doctor_fix(r, "ingot needs x86-64-v2 (SSE4.2, POPCNT): use another machine");
    else if (level == DOCTOR_WARN)
        doctor_fix(r, "without AVX2 it is several times slower; in a virtual machine, pass the "
                      "host's CPU model through");
    if (f.cgroup_cpus > 0)
        doctor_add(r, DOCTOR_OK, "processor", "the control group grants %.2f CPUs", f.cgroup_cpus);
}

static void check_memory(struct doctor_report *r)
{
    struct system_memory m;
    system_memory_read("", &m);
    doctor_add(r, m.usable_bytes < 512 * MIB ? DOCTOR_WARN : DOCTOR_OK, "memory",
               "%.1f of %.1f GiB usable", (double)m.usable_bytes / GIB,
               (double)m.total_bytes / GIB);
    if (m.usable_bytes < 512 * MIB)
        doctor_fix(r, "end other programs, or take a smaller model");
    if (m.cgroup_limit_bytes != SYSTEM_MEMORY_NO_LIMIT)
        doctor_add(r, DOCTOR_OK, "memory", "the control group allows %.1f GiB, %.1f in use",
                   (double)m.cgroup_limit_bytes / GIB, (double)m.cgroup_used_bytes / GIB);
    if (strcmp(m.transparent_huge_pages, "never") == 0) {
        doctor_add(r, DOCTOR_WARN, "huge pages", "transparent huge pages are off");
        doctor_fix(r, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
    } else if (m.transparent_huge_pages[0]) {
        doctor_add(r, DOCTOR_OK, "huge pages", "%s; %" PRIu64 " reserved ones free",
                   m.transparent_huge_pages, m.huge_pages_free);
    }
    if (m.memlock_bytes == SYSTEM_MEMORY_NO_LIMIT) {
        doctor_add(r, DOCTOR_OK, "memlock", "no limit");
    } else {
        doctor_add(r, DOCTOR_OK, "memlock",
                   "--mlock can lock %" PRIu64 " MiB (raise it with ulimit -l or LimitMEMLOCK=)",
                   m.memlock_bytes / MIB);
    }
}

/* The folder or its nearest existing ancestor, where it would be made. */
static void check_folder(struct doctor_report *r, const char *name, const char *variable,
                         const char *below_home)
{
    char path[PATH_MAX];
    const char *base = getenv(variable), *home = getenv("HOME");
    bool set = base && *base;
    if (!set && !(home && *home)) {
        doctor_add(r, DOCTOR_WARN, name, "neither %s nor HOME is set", variable);
        doctor_fix(r, "set %s to a folder", variable);
        return;
    }
    int n = set ? snprintf(path, sizeof(path), "%s/ingot", base)
                : snprintf(path, sizeof(path), "%s/%s/ingot", home, below_home);
    if (n < 0 || (size_t)n >= sizeof(path))
        return;
    char wanted[PATH_MAX];
    memcpy(wanted, path, (size_t)n + 1);
    char *slash;
    while (!file_exists(path) && (slash = strrchr(path, '/')) && slash != path)
        *slash = 0;
    struct statvfs fs;
    errno = ENOTDIR;
    if (!file_is_directory(path) || access(path, W_OK | X_OK) != 0 || statvfs(path, &fs) != 0) {
        doctor_add(r, set ? DOCTOR_FAIL : DOCTOR_WARN, name, "%s: %s", wanted, strerror(errno));
        doctor_fix(r, "make it writable, or set %s to a folder that is", variable);
        return;
    }
    double free_gib = (double)fs.f_bavail * (double)fs.f_frsize / GIB;
    doctor_add(r, free_gib < 1 ? DOCTOR_WARN : DOCTOR_OK, name, "%s: writable, %.1f GiB free",
               wanted, free_gib);
    if (free_gib < 1)
        doctor_fix(r, "free some space, or set %s to a larger disk", variable);
}

void doctor_machine(struct doctor_report *r)
{
    check_processor(r);
    check_memory(r);
    check_folder(r, "state folder", "XDG_STATE_HOME", ".local/state");
    check_folder(r, "cache folder", "XDG_CACHE_HOME", ".cache");
}

/* The inode of the socket that listens on `port`, from proc(5) net/tcp; 0: not found. */
static unsigned long listening_inode(const char *table, int port)
{
    FILE *f = fopen(table, "re");
    if (!f)
        return 0;
    char line[512];
    unsigned long found = 0;
    while (!found && fgets(line, sizeof(line), f)) {
        unsigned local_port, socket_state;
        unsigned long inode;
        /* sl local remote st tx:rx tr:when retrnsmt uid timeout inode; state 0A listens */
        if (sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &local_port,
                   &socket_state, &inode) == 3 &&
            (int)local_port == port && socket_state == 0x0A)
            found = inode;
    }
    fclose(f);
    return found;
}

static bool process_has_socket(const char *pid, unsigned long inode)
{
    char folder[64], wanted[64], path[400], target[64];
    snprintf(folder, sizeof(folder), "/proc/%.20s/fd", pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *d = opendir(folder);
    if (!d)
        return false;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = 0;
            found = strcmp(target, wanted) == 0;
        }
    }
    closedir(d);
    return found;
}

/* "NAME (PID)" of the process that listens; false when it cannot be seen. */
static bool port_owner(int port, char *out, size_t size)
{
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    if (!inode)
        inode = listening_inode("/proc/net/tcp6", port);
    DIR *d = inode ? opendir("/proc") : NULL;
    if (!d)
        return false;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(d));) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !process_has_socket(e->d_name, inode))
            continue;
        char path[64], name[64] = "?";
        snprintf(path, sizeof(path), "/proc/%.20s/comm", e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fgets(name, sizeof(name), f))
            name[strcspn(name, "\n")] = 0;
        if (f)
            fclose(f);
        snprintf(out, size, "%s (%.20s)", name, e->d_name);
        found = true;
    }
    closedir(d);
    return found;
}

void doctor_port(struct doctor_report *r, const char *host, int port)
{
    char service[8], owner[128];
    snprintf(service, sizeof(service), "%d", port);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list = NULL;
    int failure = getaddrinfo(host, service, &hints, &list);
    if (failure != 0) {
        doctor_add(r, DOCTOR_FAIL, "port", "%s: %s", host, gai_strerror(failure));
        doctor_fix(r, "give --host an address of this machine");
        return;
    }
    int on = 1, s = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bool is_free = s >= 0 && bind(s, list->ai_addr, list->ai_addrlen) == 0 && listen(s, 1) == 0;
    int reason = errno;
    if (s >= 0)
        close(s);
    freeaddrinfo(list);
    if (is_free) {
        doctor_add(r, DOCTOR_OK, "port", "%s:%d is free", host, port);
    } else if (port_owner(port, owner, sizeof(owner))) {
        doctor_add(r, DOCTOR_FAIL, "port", "%s:%d is taken by %s", host, port, owner);
        doctor_fix(r, "end that process, or serve with --port N");
    } else {
        doctor_add(r, DOCTOR_FAIL, "port", "%s:%d: %s", host, port, strerror(reason));
        doctor_fix(r, "serve with another --port or --host");
    }
}
