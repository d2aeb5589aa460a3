#ifndef NODE_DAEMON_GROUND_CLOCK_H
#define NODE_DAEMON_GROUND_CLOCK_H
/* The clocks of the daemon. */

#include <stdint.h>

/* Milliseconds since the machine was booted, suspended time included: the clock of all intervals. */
uint64_t daemon_now_ms(void);

/* Nanoseconds of the clock that workers measure by, CLOCK_MONOTONIC: it stands still while the machine is suspended. */
uint64_t daemon_monotonic_ns(void);

/* The same in microseconds, to measure what the thread's work takes. */
uint64_t daemon_now_us(void);

/* Milliseconds since 1970, for people to read. The clock may jump. */
uint64_t daemon_wall_ms(void);

#endif
