#include "train/gpu_wait.h"

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "base/err.h"

#define SPIN_US 200 /* then the processor is given away for a millisecond at a time */
#define LOOK_MS 1

static uint64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int look(const struct gpu_watch *watch, uint32_t *gone)
{
    if (watch != NULL) {
        return watch->look(watch->context, LOOK_MS, gone);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    return 0;
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
        uint32_t missed = GPU_NOBODY;
        if (look(watch, &missed) != 0) {
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
