#include "base/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/mem.h"

/* The guard's table. It has to be static: a signal handler reaches nothing else. A slot is free
 * while `begin` is 0; `end` and `damaged` are written before `begin` is set. */
#define N_SLOTS 1024

static struct guard_slot {
    _Atomic uintptr_t begin;
    _Atomic uintptr_t end;
    _Atomic bool damaged;
} slots[N_SLOTS];

static struct sigaction previous_action;
static _Atomic int guard_installed;

static int slot_take(const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < N_SLOTS; i++) {
        uintptr_t free_slot = 0;
        /* 1 is no address: the slot is reserved, but not yet seen by the handler. */
        if (atomic_compare_exchange_strong(&slots[i].begin, &free_slot, 1)) {
            atomic_store(&slots[i].end, (uintptr_t)bytes + size);
            atomic_store(&slots[i].damaged, false);
            atomic_store(&slots[i].begin, (uintptr_t)bytes);
            return i;
        }
    }
    return -1;
}

/* Puts zeroed memory over the pages from the fault to the end of the mapping: behind a page that
 * is gone the others are gone too, and whoever reads them throws the result away. */
static bool patch(uintptr_t address)
{
    uintptr_t page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    for (int i = 0; i < N_SLOTS; i++) {
        uintptr_t begin = atomic_load(&slots[i].begin), end = atomic_load(&slots[i].end);
        if (begin <= 1 || address < begin || address >= end)
            continue;
        atomic_store(&slots[i].damaged, true);
        uintptr_t page = address & page_mask;
        return mmap((void *)page, end - page, PROT_READ,
                    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    }
    return false;
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    bool patched = info->si_code > 0 && patch((uintptr_t)info->si_addr);
    errno = saved_errno;
    if (patched)
        return;
    if (previous_action.sa_flags & SA_SIGINFO) {
        previous_action.sa_sigaction(signal_number, info, context);
    } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(signal_number);
    } else {
        /* The instruction runs again and the default action ends the process. */
        sigaction(SIGBUS, &previous_action, NULL);
        if (info->si_code <= 0)
            raise(signal_number);
    }
}

void mapped_file_install_guard(void)
{
    int expected = 0;
    if (!atomic_compare_exchange_strong(&guard_installed, &expected, 1))
        return;
    struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, NULL, &previous_action);
    sigaction(SIGBUS, &action, NULL);
}

static enum status map_open_file(struct mapped_file *f, int fd, const char *path, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return error_set(err, STATUS_IO, "%s: cannot read its size: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "%s: not a regular file but %s", path,
                         S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    f->slot = -1;
    f->size = (size_t)info.st_size;
    f->device = info.st_dev;
    f->inode = info.st_ino;
    f->modified = info.st_mtim;
    f->bytes = (const uint8_t *)"";
    if (f->size == 0)
        return STATUS_OK;
    void *base = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED)
        return error_set(err, errno == ENOMEM ? STATUS_NO_MEMORY : STATUS_IO,
                         "%s: cannot map %zu bytes: %s", path, f->size, strerror(errno));
    f->bytes = base;
    f->slot = slot_take(f->bytes, f->size);
    return STATUS_OK;
}

enum status mapped_file_open(struct mapped_file *f, const char *path, struct error *err)
{
    *f = (struct mapped_file){ .slot = -1 };
    /* Without O_NONBLOCK a pipe would wait here for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                         "%s: cannot open: %s", path, strerror(errno));
    enum status s = map_open_file(f, fd, path, err);
    close(fd);
    if (s == STATUS_OK)
        f->path = mem_string(path, strlen(path));
    else
        *f = (struct mapped_file){ .slot = -1 };
    return s;
}

static enum status check_same(const struct mapped_file *f, int fd, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return error_set(err, STATUS_IO, "%s: cannot read its size: %s", f->path, strerror(errno));
    if (info.st_dev != f->device || info.st_ino != f->inode)
        return error_set(err, STATUS_IO, "%s: another file took its place while it was read",
                         f->path);
    if ((size_t)info.st_size < f->size)
        return error_set(err, STATUS_IO, "%s: became shorter while it was read: expected %zu "
                         "bytes, found %lld", f->path, f->size, (long long)info.st_size);
    if ((size_t)info.st_size != f->size || info.st_mtim.tv_sec != f->modified.tv_sec ||
        info.st_mtim.tv_nsec != f->modified.tv_nsec)
        return error_set(err, STATUS_IO, "%s: was written to while it was read", f->path);
    return STATUS_OK;
}

static enum status read_whole(const struct mapped_file *f, int fd, uint8_t *out, struct error *err)
{
    for (size_t at = 0; at < f->size;) {
        ssize_t n = pread(fd, out + at, MIN(f->size - at, (size_t)1 << 30), (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, STATUS_IO, "%s: cannot read: %s", f->path, strerror(errno));
        if (n == 0)
            return error_set(err, STATUS_IO, "%s: became shorter while it was read: expected %zu "
                             "bytes, found %zu", f->path, f->size, at);
        at += (size_t)n;
    }
    return check_same(f, fd, err);
}

/* The copy takes the mapping's address at once, when it is whole. */
static enum status replace_mapping(struct mapped_file *f, uint8_t *copy, struct error *err)
{
    if (mprotect(copy, f->size, PROT_READ) != 0 ||
        mremap(copy, f->size, f->size, MREMAP_MAYMOVE | MREMAP_FIXED,
               (void *)(uintptr_t)f->bytes) == MAP_FAILED)
        return error_set(err, STATUS_NO_MEMORY, "%s: cannot move %zu bytes: %s", f->path, f->size,
                         strerror(errno));
    return STATUS_OK;
}

enum status mapped_file_read_in(struct mapped_file *f, struct error *err)
{
    if (!f->path || f->borrowed || f->in_memory)
        return STATUS_OK;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, STATUS_IO, "%s: cannot open: %s", f->path, strerror(errno));
    enum status s = check_same(f, fd, err);
    uint8_t *copy = MAP_FAILED;
    if (s == STATUS_OK && f->size > 0) {
        copy = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        s = copy == MAP_FAILED ? error_set(err, STATUS_NO_MEMORY, "%s: no memory for %zu bytes",
                                           f->path, f->size)
                               : read_whole(f, fd, copy, err);
    }
    close(fd);
    if (s == STATUS_OK && copy != MAP_FAILED)
        s = replace_mapping(f, copy, err);
    if (s != STATUS_OK) {
        if (copy != MAP_FAILED)
            munmap(copy, f->size);
        return s;
    }
    if (f->slot >= 0)
        atomic_store(&slots[f->slot].begin, 0);
    f->slot = -1;
    f->in_memory = true;
    return STATUS_OK;
}

void mapped_file_borrow(struct mapped_file *f, const char *label, const void *bytes, size_t n)
{
    *f = (struct mapped_file){ .bytes = n ? bytes : "", .size = n, .slot = -1, .borrowed = true };
    f->path = mem_string(label, strlen(label));
}

void mapped_file_close(struct mapped_file *f)
{
    if (!f->path)
        return;
    if (f->slot >= 0)
        atomic_store(&slots[f->slot].begin, 0);
    if (f->size && !f->borrowed)
        munmap((void *)(uintptr_t)f->bytes, f->size);
    mem_free(f->path);
    *f = (struct mapped_file){ .slot = -1 };
}

bool mapped_file_damaged(const struct mapped_file *f)
{
    return f->path && f->slot >= 0 && atomic_load(&slots[f->slot].damaged);
}

bool mapped_file_changed(const struct mapped_file *f)
{
    struct stat info;
    if (!f->path || f->borrowed || f->in_memory || stat(f->path, &info) != 0)
        return false;
    if (info.st_dev != f->device || info.st_ino != f->inode)
        return false; /* another file has the name now; ours lives on */
    return (size_t)info.st_size != f->size || info.st_mtim.tv_sec != f->modified.tv_sec ||
           info.st_mtim.tv_nsec != f->modified.tv_nsec;
}

void mapped_file_forget(const struct mapped_file *f, size_t offset, size_t n)
{
    if (!f->path || f->borrowed || f->in_memory || offset >= f->size)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t end = n > f->size - offset ? f->size : offset + n;
    size_t first = (offset + page - 1) & ~(page - 1); /* only pages that are wholly inside */
    size_t last = end == f->size ? end : end & ~(page - 1);
    if (first < last)
        madvise((void *)((uintptr_t)f->bytes + first), last - first, MADV_DONTNEED);
}
