/* compiler: attributes and small macros that every module uses. No functions, no state. */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#define NO_RETURN __attribute__((noreturn))
#define HOT_INLINE static inline __attribute__((always_inline))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* A broken invariant is a bug of ours, never a fault of the input: it traps in every build. */
#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))
NO_RETURN void check_failed(const char *condition, const char *file, int line);

#endif
