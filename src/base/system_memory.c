#include "base/system_memory.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/number.h"

#define MAX_TEXT 65536

static struct str read_small(const char *root, const char *path, struct strbuf *text)
{
    char full[1024];
    strbuf_clear(text);
    int n = snprintf(full, sizeof(full), "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof(full) || file_read(full, MAX_TEXT, text, NULL) != STATUS_OK)
        return (struct str){ "", 0 };
    return strbuf_str(text);
}

/* "MemTotal:       24030 kB" to the number; 0 when absent. */
static uint64_t field(struct str text, const char *name)
{
    size_t at = str_find(text, str_of(name), 0);
    if (at == STR_NONE)
        return 0;
    struct str rest = str_slice(text, at + strlen(name), text.len);
    while (rest.len > 0 && *rest.ptr == ' ')
        rest = str_slice(rest, 1, rest.len);
    size_t digits = 0;
    while (digits < rest.len && rest.ptr[digits] >= '0' && rest.ptr[digits] <= '9')
        digits++;
    uint64_t n = 0;
    return number_parse_u64(str_slice(rest, 0, digits), &n) ? n : 0;
}

static uint64_t read_number(const char *root, const char *path, struct strbuf *text)
{
    uint64_t n;
    return number_parse_u64(str_trim(read_small(root, path, text)), &n) ? n
                                                                        : SYSTEM_MEMORY_NO_LIMIT;
}

/* Looks at one group; keeps it when its limit is the smallest so far. Version 1 writes a number
 * near 2^63 for "no limit". */
static void look_at_group(const char *root, const char *folder, const char *limit_name,
                          const char *used_name, struct strbuf *text, struct system_memory *m)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, limit_name);
    uint64_t limit = read_number(root, path, text);
    if (limit >= m->cgroup_limit_bytes || limit > UINT64_C(1) << 60)
        return;
    snprintf(path, sizeof(path), "%s/%s", folder, used_name);
    uint64_t used = read_number(root, path, text);
    m->cgroup_limit_bytes = limit;
    m->cgroup_used_bytes = used == SYSTEM_MEMORY_NO_LIMIT ? 0 : used;
}

/* The group's path on a line of /proc/self/cgroup that begins behind a "N:" with `controller`
 * (":memory:" in version 1, "0::" for the whole line in version 2). */
static struct str group_path(struct str text, struct str controller)
{
    size_t at = str_find(text, controller, 0);
    if (at == STR_NONE)
        return (struct str){ NULL, 0 };
    size_t from = at + controller.len;
    size_t end = str_find(text, STR("\n"), from);
    return str_slice(text, from, end == STR_NONE ? text.len : end);
}

/* The group and its ancestors up to the mount point: each of them limits us. */
static void look_at_ancestors(const char *root, const char *mount, struct str group,
                              const char *limit_name, const char *used_name, struct strbuf *text,
                              struct system_memory *m)
{
    char folder[768];
    if (group.len > 512)
        return;
    for (;;) {
        snprintf(folder, sizeof(folder), "%s%.*s", mount, STR_ARG(group));
        look_at_group(root, folder, limit_name, used_name, text, m);
        while (group.len > 0 && group.ptr[group.len - 1] != '/')
            group.len--;
        if (group.len == 0)
            return;
        group.len--; /* the slash */
    }
}

static void read_cgroup(const char *root, struct strbuf *text, struct system_memory *m)
{
    struct strbuf groups;
    strbuf_init(&groups, MAX_TEXT);
    struct str all = read_small(root, "/proc/self/cgroup", &groups);
    struct str v1 = group_path(all, STR(":memory:"));
    struct str v2 = group_path(all, STR("0::"));
    if (v1.len > 0)
        look_at_ancestors(root, "/sys/fs/cgroup/memory", v1, "memory.limit_in_bytes",
                          "memory.usage_in_bytes", text, m);
    if (v2.len > 0)
        look_at_ancestors(root, "/sys/fs/cgroup", v2, "memory.max", "memory.current", text, m);
    /* Inside a container the group's own folder is often mounted as the root. */
    look_at_group(root, "/sys/fs/cgroup", "memory.max", "memory.current", text, m);
    look_at_group(root, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                  text, m);
    strbuf_release(&groups);
}

/* "always [madvise] never" to "madvise" */
static void read_transparent(const char *root, struct strbuf *text, struct system_memory *m)
{
    struct str modes = read_small(root, "/sys/kernel/mm/transparent_hugepage/enabled", text);
    size_t from = str_find(modes, STR("["), 0);
    size_t to = from == STR_NONE ? STR_NONE : str_find(modes, STR("]"), from);
    if (to == STR_NONE || to - from - 1 >= sizeof(m->transparent_huge_pages))
        return;
    memcpy(m->transparent_huge_pages, modes.ptr + from + 1, to - from - 1);
}

void system_memory_read(const char *root, struct system_memory *out)
{
    *out = (struct system_memory){ .cgroup_limit_bytes = SYSTEM_MEMORY_NO_LIMIT,
                                   .memlock_bytes = SYSTEM_MEMORY_NO_LIMIT };
    struct strbuf text;
    strbuf_init(&text, MAX_TEXT);
    struct str info = read_small(root, "/proc/meminfo", &text);
    out->total_bytes = field(info, "MemTotal:") * 1024;
    out->available_bytes = field(info, "MemAvailable:") * 1024;
    out->huge_page_bytes = field(info, "Hugepagesize:") * 1024;
    out->huge_pages_free = field(info, "HugePages_Free:");
    read_transparent(root, &text, out);
    read_cgroup(root, &text, out);
    strbuf_release(&text);

    out->usable_bytes = out->available_bytes;
    if (out->cgroup_limit_bytes != SYSTEM_MEMORY_NO_LIMIT) {
        uint64_t left = out->cgroup_limit_bytes > out->cgroup_used_bytes
                            ? out->cgroup_limit_bytes - out->cgroup_used_bytes
                            : 0;
        out->usable_bytes = MIN(out->usable_bytes, left);
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        out->memlock_bytes = limit.rlim_cur;
}
