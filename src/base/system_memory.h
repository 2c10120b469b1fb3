/* system_memory: how much memory this process may use, and what limits it.
 *
 * Sources: proc(5) (meminfo, self/cgroup, self/mountinfo), the kernel's cgroup-v2.rst and
 * cgroup-v1/memory.rst (memory.max, memory.limit_in_bytes), transhuge.rst. A file that is
 * missing leaves its fields at "unknown". Threads: any. */
#ifndef BASE_SYSTEM_MEMORY_H
#define BASE_SYSTEM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define SYSTEM_MEMORY_NO_LIMIT UINT64_MAX

struct system_memory {
    uint64_t total_bytes, available_bytes; /* 0: unknown */
    uint64_t cgroup_limit_bytes;           /* the smallest of all ancestors, or NO_LIMIT */
    uint64_t cgroup_used_bytes;            /* of the group that has that limit */
    uint64_t usable_bytes;                 /* the smaller of what the two leave */
    uint64_t memlock_bytes;                /* soft limit of this process, or NO_LIMIT */
    uint64_t huge_page_bytes;              /* size of reserved huge pages */
    uint64_t huge_pages_free;
    char transparent_huge_pages[16];       /* "always", "madvise", "never", "" unknown */
};

/* `root` stands before every path: "" for the real system, a folder in tests. */
void system_memory_read(const char *root, struct system_memory *out);

#endif
