/* The verdict on memory: fits, fits with less context, does not fit, unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/doctor.h"

static void model_memory(void **state)
{
    (void)state;
    static const struct {
        uint64_t usable;
        enum doctor_level level;
        const char *fix; /* part of it; NULL: none */
    } cases[] = {
        { UINT64_C(900) << 20, DOCTOR_OK, NULL },
        { UINT64_C(500) << 20, DOCTOR_WARN, "--context" },
        { UINT64_C(100) << 20, DOCTOR_FAIL, "smaller model" },
        { 0, DOCTOR_OK, NULL },
    };
    const struct engine_plan plan = {
        .context = 4096, .weight_bytes = 100 << 20, .scratch_bytes = 20 << 20, .kv_bytes = 700 << 20
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct doctor_report r = { 0 };
        doctor_model_memory(&r, &plan, cases[i].usable);
        assert_int_equal(r.n, 1);
        assert_int_equal(r.findings[0].level, cases[i].level);
        assert_non_null(strstr(r.findings[0].text, "weights and scratch 120 MiB"));
        if (cases[i].fix)
            assert_non_null(strstr(r.findings[0].fix, cases[i].fix));
        else
            assert_null(r.findings[0].fix);
        doctor_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(model_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
