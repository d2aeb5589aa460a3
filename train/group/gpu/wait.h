#ifndef TRAIN_GROUP_GPU_WAIT_H
#define TRAIN_GROUP_GPU_WAIT_H
/* Waiting for a GPU while watching the group: NCCL reports neither a rank that is gone nor the end of the group. A shell. */

#include <stdint.h>

#define GPU_NOBODY UINT32_MAX

/* The watch on the group during a wait. */
struct gpu_watch {
    /* Checks the group without waiting: 0, or ERR_CLOSED if the group is over. *gone becomes a rank whose links are closed. */
    int (*look)(void *context, uint32_t *gone);
    void *context;
};

/* Waits until done(context) is not 0. `watch` may be NULL: nothing is watched. A rank that is gone may have finished its part
 * and left, so the operation has settle_ms to end without it. Returns 0 if done returned 1; the error returned by done;
 * ERR_CLOSED with *gone the rank, or GPU_NOBODY if the group is over; ERR_TIMEOUT after limit_ms. */
int gpu_wait(const struct gpu_watch *watch, int (*done)(void *context), void *context, int limit_ms, int settle_ms,
             uint32_t *gone);

#endif
