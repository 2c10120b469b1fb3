/* The program itself: where it lies, what it was linked with, what the environment says. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <hwloc.h>
#include <jansson.h>
#include <microhttpd.h>
#include <pcre2.h>
#include <utf8proc.h>
#include <zlib.h>
#include <zstd.h>

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/doctor.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void check_binary(struct doctor_report *r)
{
    char self[PATH_MAX] = "?", other[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0)
        self[n] = 0;
    doctor_add(r, DOCTOR_OK, "program", "ingot %s, %s, compiled by %s", INGOT_VERSION, self,
               COMPILER);
    const char *path = getenv("PATH");
    struct str rest = str_of(path);
    while (rest.len > 0) {
        size_t colon = str_find(rest, STR(":"), 0);
        struct str folder = str_slice(rest, 0, colon == STR_NONE ? rest.len : colon);
        rest = colon == STR_NONE ? (struct str){ NULL, 0 } : str_slice(rest, colon + 1, rest.len);
        char candidate[PATH_MAX];
        int length = snprintf(candidate, sizeof(candidate), "%.*s/ingot", STR_ARG(folder));
        if (length < 0 || (size_t)length >= sizeof(candidate) || access(candidate, X_OK) != 0 ||
            !realpath(candidate, other) || strcmp(other, self) == 0)
            continue;
        doctor_add(r, DOCTOR_WARN, "program", "another one is on PATH: %s", candidate);
        doctor_fix(r, "remove it, or call this one by its path");
        return;
    }
}

static void check_libraries(struct doctor_report *r)
{
    char pcre[64] = "?";
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    unsigned hwloc = hwloc_get_api_version();
    doctor_add(r, DOCTOR_OK, "libraries",
               "libmicrohttpd %s, jansson %s, PCRE2 %.*s, utf8proc %s, hwloc %u.%u, zlib %s, "
               "zstd %s",
               MHD_get_version(), jansson_version_str(), (int)strcspn(pcre, " "), pcre,
               utf8proc_version(), hwloc >> 16, hwloc >> 8 & 0xff, zlibVersion(),
               ZSTD_versionString());
    if (!jit) {
        doctor_add(r, DOCTOR_WARN, "libraries", "PCRE2 has no JIT: tokenizing is slow");
        doctor_fix(r, "install a PCRE2 that was built with --enable-jit");
    }
}

static bool has_prefix(const char *variable, const char *prefix)
{
    return strncmp(variable, prefix, strlen(prefix)) == 0;
}

static bool is_variable_of(const struct option *row, struct str name)
{
    struct strbuf text;
    strbuf_init(&text, 256);
    option_variable_name(row, false, &text);
    bool equal = row->kind < OPTION_SETS && str_eq(strbuf_str(&text), name);
    strbuf_clear(&text);
    option_variable_name(row, true, &text);
    equal = equal || (row->kind == OPTION_FLAG && str_eq(strbuf_str(&text), name));
    strbuf_release(&text);
    return equal;
}

/* Variables of a flag, and the few that are read besides. */
static bool is_known_variable(struct str name)
{
    static const char *const others[] = { "INGOT_API_KEY", "INGOT_DEBUG", "INGOT_TEST_MODEL",
                                          "INGOT_CUDA_KERNEL_DIR", "INGOT_CUBIN_CACHE" };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (str_is(name, others[i]))
            return true;
    bool known = false;
    for (size_t c = 0; cli_commands[c]; c++) {
        if (!cli_commands[c]->read_variables)
            continue;
        for (size_t g = 0; cli_commands[c]->groups[g]; g++) {
            const struct option_group *group = cli_commands[c]->groups[g];
            for (size_t i = 0; i < group->n_rows; i++) {
                known = known || is_variable_of(&group->rows[i], name);
            }
        }
    }
    return known;
}

static void check_variables(struct doctor_report *r)
{
    static const char *const foreign[] = { "FLYWEIGHT_", "FUCINA_", "LLAMA_ARG_" };
    for (char **v = environ; *v; v++) {
        struct str name = { *v, strcspn(*v, "=") };
        for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
            if (has_prefix(*v, foreign[i])) {
                doctor_add(r, DOCTOR_WARN, "variables", "%.*s is set and is not read",
                           STR_ARG(name));
                doctor_fix(r, "use the flag or its INGOT_ variable: ingot serve --help");
            }
        }
        if (!has_prefix(*v, "INGOT_"))
            continue;
        if (is_known_variable(name)) {
            doctor_add(r, DOCTOR_OK, "variables", "%.*s is set", STR_ARG(name));
        } else {
            doctor_add(r, DOCTOR_WARN, "variables", "%.*s is set but names no flag", STR_ARG(name));
            doctor_fix(r, "unset it; names are INGOT_ and a flag of serve, generate or chat");
        }
    }
}

static void check_locale(struct doctor_report *r)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!locale) {
        doctor_add(r, DOCTOR_WARN, "locale", "the one that LANG or LC_ALL names is not installed");
        doctor_fix(r, "export LC_ALL=C.UTF-8");
        return;
    }
    const char *codeset = nl_langinfo_l(CODESET, locale);
    if (strcmp(codeset, "UTF-8") == 0) {
        doctor_add(r, DOCTOR_OK, "locale", "UTF-8");
    } else {
        doctor_add(r, DOCTOR_WARN, "locale",
                   "%s: ingot prints UTF-8, and lines of chat may show "
                   "badly",
                   codeset);
        doctor_fix(r, "export LC_ALL=C.UTF-8");
    }
    freelocale(locale);
}

void doctor_install(struct doctor_report *r)
{
    check_binary(r);
    check_libraries(r);
    check_variables(r);
    check_locale(r);
    if (clock_unix() < INT64_C(1735689600)) {
        doctor_add(r, DOCTOR_WARN, "clock", "the date is before 2025");
        doctor_fix(r, "set the clock: templates and response times show it");
    }
}
