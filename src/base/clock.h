/* clock: monotonic time for durations, wall time for people. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);        /* monotonic */
double clock_seconds(void);     /* monotonic */
int64_t clock_unix(void);       /* seconds since 1970 */

#endif
