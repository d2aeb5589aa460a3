#include "train/group/gpu/wait.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/err.h"

#define SPIN_US 200        /* then the processor is yielded */
/* a sleep lasts 1 / SLEEP_PART of the time waited so far, so that the wait ends little later than necessary */
#define SLEEP_PART 16
#define SLEEP_US_MAX 1000  /* longest sleep */
#define SLEEP_US_MIN 50    /* shortest sleep */

static uint64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void sleep_part(uint64_t waited_us)
{
    uint64_t us = waited_us / SLEEP_PART;
    us = us < SLEEP_US_MIN ? SLEEP_US_MIN : us > SLEEP_US_MAX ? SLEEP_US_MAX : us;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

int gpu_wait(const struct gpu_watch *watch, int (*done)(void *context), void *context, int limit_ms, int settle_ms,
             uint32_t *gone)
{
    uint64_t start_us = now_us(), gone_since_us = 0;
    *gone = GPU_NOBODY;
    for (;;) {
        int result = done(context);
        if (result != 0) {
            return result < 0 ? result : 0;
        }
        uint64_t waited_us = now_us() - start_us;
        if (waited_us < SPIN_US) {
            (void)sched_yield();
            continue;
        }
        sleep_part(waited_us);
        uint32_t missed = GPU_NOBODY;
        if (watch != NULL && watch->look(watch->context, &missed) != 0) {
            *gone = GPU_NOBODY;
            return ERR_CLOSED;
        }
        if (missed != GPU_NOBODY && gone_since_us == 0) {
            gone_since_us = now_us();
            *gone = missed;
        }
        if (gone_since_us != 0 && now_us() - gone_since_us >= (uint64_t)settle_ms * 1000) {
            return ERR_CLOSED;
        }
        if (waited_us >= (uint64_t)limit_ms * 1000) {
            return ERR_TIMEOUT;
        }
    }
}
