/* cmocka_setup: the includes that cmocka.h needs before it, in one place. */
#ifndef CMOCKA_SETUP_H
#define CMOCKA_SETUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
