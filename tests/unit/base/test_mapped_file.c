/* mapped_file: views, refusals, and reading a file that shrank, with and without the guard. */
#include "unit/cmocka_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/mem.h"

enum { N_BYTES = 5 * 4096 + 100 };
static char path[] = "/tmp/ingot-map-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    close(fd);
    uint8_t *bytes = mem_alloc(N_BYTES);
    memset(bytes, 7, N_BYTES);
    enum status s = file_write(path, bytes, N_BYTES, NULL);
    mem_free(bytes);
    return s != STATUS_OK;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void opens_and_refuses(void **state)
{
    (void)state;
    struct mapped_file f;
    struct error e;
    assert_int_equal(mapped_file_open(&f, path, &e), STATUS_OK);
    assert_int_equal(f.size, N_BYTES);
    assert_int_equal(f.bytes[N_BYTES - 1], 7);
    mapped_file_forget(&f, 100, 9000);
    mapped_file_forget(&f, 0, SIZE_MAX);
    mapped_file_forget(&f, SIZE_MAX, 1);
    assert_int_equal(f.bytes[5000], 7);
    assert_false(mapped_file_damaged(&f));
    mapped_file_close(&f);
    mapped_file_close(&f);
    assert_int_equal(mapped_file_open(&f, "/tmp", &e), STATUS_INVALID);
    mapped_file_close(&f);
    assert_int_equal(mapped_file_open(&f, "/nonexistent", &e), STATUS_NOT_FOUND);
    char fifo[64];
    snprintf(fifo, sizeof(fifo), "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(mapped_file_open(&f, fifo, &e), STATUS_INVALID);
    unlink(fifo);
}

static int child_status(int (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int read_shrunk_with_guard(void)
{
    struct mapped_file f, other;
    mapped_file_install_guard();
    mapped_file_install_guard();
    if (mapped_file_open(&f, path, NULL) != STATUS_OK ||
        mapped_file_open(&other, "/proc/self/exe", NULL) != STATUS_OK)
        return 1;
    if (truncate(path, 4096) != 0)
        return 2;
    size_t sum = 0;
    for (size_t i = 0; i < f.size; i++)
        sum += f.bytes[i];
    if (sum != 4096 * 7)
        return 3;
    if (!mapped_file_damaged(&f) || mapped_file_damaged(&other))
        return 4;
    mapped_file_forget(&f, 0, f.size);
    mapped_file_close(&f);
    mapped_file_close(&other);
    return 0;
}

static int read_shrunk_without_guard(void)
{
    struct mapped_file f;
    signal(SIGBUS, SIG_DFL); /* a sanitizer may have its own handler */
    if (mapped_file_open(&f, path, NULL) != STATUS_OK || truncate(path, 0) != 0)
        return 1;
    return *(volatile const uint8_t *)f.bytes;
}

static void leave(int signal_number)
{
    (void)signal_number;
    _exit(42);
}

static int foreign_fault_is_chained(void)
{
    signal(SIGBUS, leave);
    mapped_file_install_guard();
    raise(SIGBUS);
    return 1;
}

static int foreign_fault_kills(void)
{
    signal(SIGBUS, SIG_DFL);
    mapped_file_install_guard();
    raise(SIGBUS);
    raise(SIGBUS);
    return 1;
}

static void shrinks_while_mapped(void **state)
{
    (void)state;
    int status = child_status(read_shrunk_with_guard);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(truncate(path, N_BYTES), 0);
    status = child_status(read_shrunk_without_guard);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    status = child_status(foreign_fault_is_chained);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    status = child_status(foreign_fault_kills);
    assert_true(WIFSIGNALED(status));
}

static void notices_writes(void **state)
{
    (void)state;
    struct mapped_file f, other;
    assert_int_equal(file_write(path, "five", 5, NULL), STATUS_OK);
    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK);
    assert_false(mapped_file_changed(&f));
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1000000000 } };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_true(mapped_file_changed(&f));
    assert_int_equal(mapped_file_open(&other, path, NULL), STATUS_OK);
    assert_false(mapped_file_changed(&other));
    uint8_t byte = 1;
    assert_int_equal(file_write(path, &byte, 1, NULL), STATUS_OK); /* renames over it */
    assert_false(mapped_file_changed(&other));
    assert_int_equal(other.size, 5);
    mapped_file_close(&other);
    mapped_file_close(&f);
}

static void write_bytes(int value)
{
    uint8_t *bytes = mem_alloc(N_BYTES);
    memset(bytes, value, N_BYTES);
    int fd = open(path, O_WRONLY | O_CREAT, 0600); /* in place */
    assert_int_equal(write(fd, bytes, N_BYTES), N_BYTES);
    assert_int_equal(ftruncate(fd, N_BYTES), 0);
    close(fd);
    mem_free(bytes);
}

/* Sets the time of the last change back, so that only the size tells that something happened. */
static void set_time(struct timespec t)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, t };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void reads_in(void **state)
{
    (void)state;
    struct mapped_file f;
    write_bytes(7);
    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK);
    const uint8_t *at = f.bytes;
    assert_int_equal(mapped_file_read_in(&f, NULL), STATUS_OK);
    assert_ptr_equal(f.bytes, at);
    write_bytes(9);
    assert_int_equal(truncate(path, 0), 0);
    mapped_file_forget(&f, 0, SIZE_MAX);
    size_t sum = 0;
    for (size_t i = 0; i < f.size; i++)
        sum += f.bytes[i];
    assert_int_equal(sum, (size_t)N_BYTES * 7);
    assert_false(mapped_file_damaged(&f));
    assert_false(mapped_file_changed(&f));
    assert_int_equal(mapped_file_read_in(&f, NULL), STATUS_OK);
    mapped_file_close(&f);

    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK); /* no bytes at all */
    assert_int_equal(mapped_file_read_in(&f, NULL), STATUS_OK);
    mapped_file_close(&f);
    mapped_file_borrow(&f, "label", "abc", 3);
    assert_int_equal(mapped_file_read_in(&f, NULL), STATUS_OK);
    assert_int_equal(f.bytes[2], 'c');
    mapped_file_close(&f);
}

#define NOT_READ(part) \
    assert_int_equal(mapped_file_read_in(&f, &e), STATUS_IO); \
    assert_non_null(strstr(e.message, path)); \
    assert_non_null(strstr(e.message, part)); \
    mapped_file_close(&f)

static void refuses_to_read_in(void **state)
{
    (void)state;
    struct mapped_file f;
    struct error e;
    write_bytes(7);
    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK);
    assert_int_equal(truncate(path, 5000), 0);
    set_time(f.modified);
    NOT_READ("became shorter");
    write_bytes(7);
    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK);
    set_time((struct timespec){ .tv_sec = 1000000000 });
    NOT_READ("was written to");
    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK);
    assert_int_equal(file_write(path, "five", 5, NULL), STATUS_OK); /* renames over it */
    NOT_READ("another file");
    assert_int_equal(mapped_file_open(&f, path, NULL), STATUS_OK);
    unlink(path);
    NOT_READ("cannot open");
    write_bytes(7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_and_refuses),
        cmocka_unit_test(shrinks_while_mapped),
        cmocka_unit_test(notices_writes),
        cmocka_unit_test(reads_in),
        cmocka_unit_test(refuses_to_read_in),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
