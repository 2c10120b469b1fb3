/* file, queue and clock against the real system. */
#include "unit/cmocka_setup.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/queue.h"

static char folder[] = "/tmp/ingot-test-XXXXXX";

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    char path[256];
    snprintf(path, sizeof(path), "%s/a.txt", folder);
    struct error e;
    assert_int_equal(file_write(path, "hello", 5, &e), STATUS_OK);
    assert_int_equal(file_write(path, "hello again", 11, &e), STATUS_OK);
    assert_int_equal(count_entries(folder), 1);
    struct strbuf b;
    strbuf_init(&b, 1000);
    assert_int_equal(file_read(path, 11, &b, &e), STATUS_OK);
    assert_string_equal(b.ptr, "hello again");
    strbuf_clear(&b);
    assert_int_equal(file_read(path, 10, &b, &e), STATUS_LIMIT);
    assert_non_null(strstr(e.message, "limit"));
    assert_int_equal(file_read("/nonexistent/x", 10, &b, &e), STATUS_NOT_FOUND);
    assert_int_equal(file_read(folder, 10, &b, &e), STATUS_IO);
    assert_int_equal(file_read("/dev/zero", 100000, &b, &e), STATUS_LIMIT);
    assert_int_equal(file_write("/nonexistent/x", "a", 1, &e), STATUS_NOT_FOUND);
    assert_true(file_exists(path) && !file_is_directory(path));
    assert_true(file_is_directory(folder));
    char link_path[256];
    snprintf(link_path, sizeof(link_path), "%s/link", folder);
    assert_int_equal(symlink(path, link_path), 0);
    assert_int_equal(file_write(link_path, "by link", 7, &e), STATUS_OK);
    struct stat info;
    assert_int_equal(lstat(link_path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    strbuf_clear(&b);
    assert_int_equal(file_read(path, 100, &b, &e), STATUS_OK);
    assert_string_equal(b.ptr, "by link");
    /* What is no regular file is written to, never replaced. */
    assert_int_equal(file_write("/dev/full", "a", 1, &e), STATUS_IO);
    assert_int_equal(file_write("/dev/null", "a", 1, &e), STATUS_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(file_write(folder, "a", 1, &e), STATUS_IO);
    strbuf_release(&b);
    unlink(link_path);
    unlink(path);
    rmdir(folder);
}

enum { N_THREADS = 4, N_EACH = 2000 };

static void *producer(void *argument)
{
    struct queue *q = argument;
    for (int i = 1; i <= N_EACH; i++)
        CHECK(queue_push(q, &i) == STATUS_OK);
    return NULL;
}

static void queue_between_threads(void **state)
{
    (void)state;
    struct queue q;
    queue_init(&q, 7, sizeof(int));
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, producer, &q), 0);
    long sum = 0;
    int item;
    for (int i = 0; i < N_THREADS * N_EACH; i++) {
        assert_int_equal(queue_pop(&q, &item), STATUS_OK);
        sum += item;
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sum, (long)N_THREADS * N_EACH * (N_EACH + 1) / 2);
    assert_int_equal(queue_try_pop(&q, &item), STATUS_EXHAUSTED);
    uint64_t start = clock_ns();
    assert_int_equal(queue_pop_for(&q, &item, 20000000), STATUS_EXHAUSTED);
    assert_true(clock_ns() - start >= 19000000);
    for (item = 0; item < 7; item++)
        assert_int_equal(queue_try_push(&q, &item), STATUS_OK);
    assert_int_equal(queue_try_push(&q, &item), STATUS_EXHAUSTED);
    queue_close(&q);
    assert_int_equal(queue_push(&q, &item), STATUS_END);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(queue_pop(&q, &item), STATUS_OK);
        assert_int_equal(item, i);
    }
    assert_int_equal(queue_pop(&q, &item), STATUS_END);
    queue_release(&q);
}

static void *closer(void *argument)
{
    usleep(10000);
    queue_close(argument);
    return NULL;
}

static void close_wakes_the_waiting(void **state)
{
    (void)state;
    struct queue q;
    queue_init(&q, 1, sizeof(int));
    pthread_t thread;
    int item;
    assert_int_equal(pthread_create(&thread, NULL, closer, &q), 0);
    assert_int_equal(queue_pop(&q, &item), STATUS_END);
    pthread_join(thread, NULL);
    queue_release(&q);
}

static void clocks(void **state)
{
    (void)state;
    uint64_t a = clock_ns();
    assert_true(clock_ns() >= a);
    assert_true(clock_unix() > 1700000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(queue_between_threads),
        cmocka_unit_test(close_wakes_the_waiting),
        cmocka_unit_test(clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
