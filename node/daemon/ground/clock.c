#include "node/daemon/ground/clock.h"

#include <time.h>

static uint64_t read_ms(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t daemon_now_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

uint64_t daemon_now_us(void)
{
    return daemon_monotonic_ns() / 1000;
}

uint64_t daemon_monotonic_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t daemon_wall_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}
