/* thread: threads that leave the program's signals alone.
 *
 * A thread of a library must not take SIGINT or SIGTERM away from the thread that waits for
 * them, so these start with every signal blocked but those that a fault of their own raises. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/compiler.h"

/* As pthread_create() with default attributes: 0, or an errno value. */
MUST_CHECK int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
