/* golden: reads a golden file of tests/data/quant into a static buffer, failing the test if it is
 * missing or too large. Each call overwrites the buffer of the same slot. */
#ifndef TESTS_QUANT_GOLDEN_H
#define TESTS_QUANT_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN_MAX_BYTES 65536
#define GOLDEN_SLOTS 2

static inline const unsigned char *golden_read(int slot, size_t *bytes, const char *format, ...)
{
    static _Alignas(64) unsigned char buffer[GOLDEN_SLOTS][GOLDEN_MAX_BYTES];
    char path[256];
    int prefix = snprintf(path, sizeof path, "tests/data/quant/");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + prefix, sizeof path - (size_t)prefix, format, arguments);
    va_end(arguments);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    *bytes = fread(buffer[slot], 1, GOLDEN_MAX_BYTES, file);
    int at_end = fgetc(file) == EOF;
    fclose(file);
    if (!at_end)
        fail_msg("%s is larger than %d bytes", path, GOLDEN_MAX_BYTES);
    return buffer[slot];
}

#endif
