/* Limits read from made-up /proc and /sys folders. */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system_memory.h"

static char root[] = "/tmp/ingot-memory-XXXXXX";

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", root, path);
    char *slash = full + strlen(root);
    while ((slash = strchr(slash + 1, '/'))) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ingot-memory-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static const char meminfo[] = "MemTotal:        2000 kB\nMemFree:  10 kB\nMemAvailable:  1500 kB\n"
                              "HugePages_Free:        3\nHugepagesize:       2048 kB\n";

static void plain_machine(void **state)
{
    (void)state;
    struct system_memory m;
    put("/proc/meminfo", meminfo);
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    system_memory_read(root, &m);
    assert_true(m.total_bytes == 2000 * 1024);
    assert_true(m.available_bytes == 1500 * 1024 && m.usable_bytes == 1500 * 1024);
    assert_true(m.cgroup_limit_bytes == SYSTEM_MEMORY_NO_LIMIT);
    assert_true(m.huge_pages_free == 3 && m.huge_page_bytes == 2048 * 1024);
    assert_string_equal(m.transparent_huge_pages, "madvise");
}

static void nested_groups(void **state)
{
    (void)state;
    struct system_memory m;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "1048576\n");
    put("/sys/fs/cgroup/a/memory.current", "1000000\n");
    system_memory_read(root, &m);
    assert_true(m.cgroup_limit_bytes == 1048576 && m.cgroup_used_bytes == 1000000);
    assert_true(m.usable_bytes == 48576);
}

static void first_version(void **state)
{
    (void)state;
    struct system_memory m;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "3:cpu:/x\n2:memory:/x\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n");
    put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "8192\n");
    system_memory_read(root, &m);
    assert_true(m.cgroup_limit_bytes == 4096 && m.usable_bytes == 0);
}

static void nothing_there(void **state)
{
    (void)state;
    struct system_memory m;
    system_memory_read(root, &m);
    assert_true(m.total_bytes == 0 && m.usable_bytes == 0);
    assert_string_equal(m.transparent_huge_pages, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nested_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_there, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
