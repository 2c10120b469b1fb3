#include "cpu/cpu_features.h"

#include <hwloc.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/number.h"

#if defined(__x86_64__)
#include <cpuid.h>

struct cpuid_result {
    unsigned a, b, c, d;
};

static struct cpuid_result cpuid(unsigned leaf, unsigned subleaf)
{
    struct cpuid_result r = { 0 };
    __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
    return r;
}

static bool bit(unsigned word, int n)
{
    return word >> n & 1u;
}

/* The register sets that the system saves: XCR0, Intel SDM volume 1, section 13.3. */
static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void read_brand(char *out, size_t n)
{
    unsigned words[13] = { 0 };
    if (cpuid(0x80000000u, 0).a >= 0x80000004u)
        for (unsigned i = 0; i < 3; i++) {
            struct cpuid_result r = cpuid(0x80000002u + i, 0);
            memcpy(words + 4 * i, &r, sizeof r);
        }
    struct str brand = str_trim(str_of((const char *)words));
    snprintf(out, n, "%.*s", STR_ARG(brand));
}

static void read_instruction_sets(struct cpu_features *f)
{
    read_brand(f->model, sizeof f->model);
    struct cpuid_result one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1);
    if (!bit(one.c, 27)) /* OSXSAVE */
        return;
    uint64_t state = saved_state();
    bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xE6) == 0xE6;
    bool tiles = (state & 0x60000) == 0x60000;
    f->avx2 = ymm && bit(seven.b, 5) && bit(one.c, 12) /* FMA */ && bit(one.c, 29) /* F16C */ &&
              bit(seven.b, 3) /* BMI1 */ && bit(seven.b, 8) /* BMI2 */ && bit(one.c, 23);
    f->avx_vnni = f->avx2 && bit(seven1.a, 4);
    f->avx512 = f->avx2 && zmm && bit(seven.b, 16) /* F */ && bit(seven.b, 17) /* DQ */ &&
                bit(seven.b, 30) /* BW */ && bit(seven.b, 31) /* VL */ &&
                bit(seven.c, 11) /* VNNI */ && bit(seven.c, 1) /* VBMI */;
    f->avx512_bf16 = f->avx512 && bit(seven1.a, 5);
    f->amx_int8 = f->avx512_bf16 && tiles && bit(seven.d, 24) && bit(seven.d, 25);
    f->amx_bf16 = f->avx512_bf16 && tiles && bit(seven.d, 24) && bit(seven.d, 22);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static void read_instruction_sets(struct cpu_features *f)
{
    snprintf(f->model, sizeof f->model, "aarch64");
    f->neon_dotprod = getauxval(AT_HWCAP) >> 20 & 1u;  /* HWCAP_ASIMDDP */
    f->neon_i8mm = getauxval(AT_HWCAP2) >> 13 & 1u;    /* HWCAP2_I8MM */
}
#else
static void read_instruction_sets(struct cpu_features *f)
{
    snprintf(f->model, sizeof f->model, "unknown");
}
#endif

/* The processors this thread may use, without a topology: each counts as a core. */
static int count_affinity(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static bool core_is_usable(hwloc_obj_t core, const cpu_set_t *set)
{
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu))
        if (cpu < CPU_SETSIZE && CPU_ISSET((size_t)cpu, set))
            return true;
    return false;
}

static int count_cores(void)
{
    cpu_set_t set;
    hwloc_topology_t t;
    if (sched_getaffinity(0, sizeof set, &set) || hwloc_topology_init(&t) < 0)
        return 0;
    int n = 0;
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(t) == 0)
        for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, core));)
            n += core_is_usable(core, &set);
    hwloc_topology_destroy(t);
    return n;
}

static bool read_small(const char *path, struct strbuf *out)
{
    strbuf_clear(out);
    return file_read(path, 65536, out, NULL) == STATUS_OK;
}

static double quota_of(struct str limit, struct str period)
{
    int64_t a, b;
    if (!number_parse_i64(str_trim(limit), &a) || !number_parse_i64(str_trim(period), &b) ||
        a <= 0 || b <= 0)
        return 0; /* "max", or -1 in version 1 */
    return (double)a / (double)b;
}

/* Version 2: cpu.max, "limit period", of this group and of all above it. */
static double quota_v2(struct str group, struct strbuf *text)
{
    char path[4096];
    double smallest = 0;
    while (group.len < sizeof path - 64) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/cpu.max", STR_ARG(group));
        if (read_small(path, text)) {
            struct str s = strbuf_str(text);
            size_t blank = str_find(s, STR(" "), 0);
            double q = blank == STR_NONE ? 0 : quota_of(str_slice(s, 0, blank),
                                                        str_slice(s, blank + 1, s.len));
            if (q > 0 && (smallest == 0 || q < smallest))
                smallest = q;
        }
        if (group.len == 0)
            break;
        do
            group.len--;
        while (group.len && group.ptr[group.len] != '/');
    }
    return smallest;
}

static double quota_v1(struct strbuf *text)
{
    char limit[64];
    if (!read_small("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text))
        return 0;
    snprintf(limit, sizeof limit, "%.*s", STR_ARG(strbuf_str(text)));
    if (!read_small("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text))
        return 0;
    return quota_of(str_of(limit), strbuf_str(text));
}

static double read_quota(void)
{
    struct strbuf own, text;
    strbuf_init(&own, 65536);
    strbuf_init(&text, 65536);
    double quota = 0;
    if (read_small("/proc/self/cgroup", &own)) {
        struct str s = strbuf_str(&own);
        size_t at = str_starts(s, STR("0::")) ? 0 : str_find(s, STR("\n0::"), 0);
        if (at != STR_NONE) {
            struct str group = str_slice(s, str_find(s, STR("::"), at) + 2, s.len);
            size_t end = str_find(group, STR("\n"), 0);
            group.len = end == STR_NONE ? group.len : end;
            quota = quota_v2(str_is(group, "/") ? STR("") : group, &text);
        }
        if (quota == 0)
            quota = quota_v1(&text);
    }
    strbuf_release(&own);
    strbuf_release(&text);
    return quota;
}

void cpu_features_read(struct cpu_features *out)
{
    *out = (struct cpu_features){ 0 };
    read_instruction_sets(out);
    out->logical_cpus = count_affinity();
    int cores = count_cores();
    out->physical_cores = cores > 0 ? cores : out->logical_cpus;
    out->cgroup_cpus = read_quota();
    if (out->cgroup_cpus > 0 && out->cgroup_cpus < out->physical_cores)
        out->physical_cores = MAX(1, (int)out->cgroup_cpus);
}
