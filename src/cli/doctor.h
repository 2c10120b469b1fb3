/* doctor: findings about this machine and install, each with its fix. The parts of
 * `ingot doctor` add theirs to one report; nothing here changes the machine. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stddef.h>

#include "base/compiler.h"
#include "cli/options.h"
#include "engine/engine.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_finding {
    enum doctor_level level;
    const char *name; /* "memory", a literal */
    char *text;       /* what was found */
    char *fix;        /* NULL: nothing to do */
};

struct doctor_report {
    struct doctor_finding *findings;
    size_t n, capacity;
};

void doctor_add(struct doctor_report *r, enum doctor_level level, const char *name,
                const char *format, ...) PRINTF_LIKE(4, 5);
/* The fix of the finding added last. */
void doctor_fix(struct doctor_report *r, const char *format, ...) PRINTF_LIKE(2, 3);
void doctor_release(struct doctor_report *r);
size_t doctor_count(const struct doctor_report *r, enum doctor_level level);

void doctor_install(struct doctor_report *r);   /* binary, libraries, variables, locale, clock */
void doctor_machine(struct doctor_report *r);   /* processor, memory, folders */
void doctor_port(struct doctor_report *r, const char *host, int port);
void doctor_gpu(struct doctor_report *r);       /* driver, NVRTC, memory in use */

void doctor_model(struct doctor_report *r, const char *path);
/* One finding: whether what the plan needs is there; usable 0: unknown. */
void doctor_model_memory(struct doctor_report *r, const struct engine_plan *p, uint64_t usable);

#endif
