#ifndef TRAIN_GROUP_GPU_WAIT_H
#define TRAIN_GROUP_GPU_WAIT_H
/* Waiting for a GPU without forgetting the group: NCCL says neither that a rank is gone nor that the group is over. A shell. */

#include <stdint.h>

#define GPU_NOBODY UINT32_MAX

struct gpu_watch {
    /* Looks for news, without waiting: 0, or ERR_CLOSED when the group is over. A rank whose links are closed goes to *gone. */
    int (*look)(void *context, uint32_t *gone);
    void *context;
};

/* Until done(context) is not 0. `watch` NULL: there is no news. A rank that is gone may have had its part already and left, so what is under way has settle_ms
 * to come to an end without it. 0 when done says 1; an error that done says; ERR_CLOSED: *gone is the rank, or
 * GPU_NOBODY when the group is over; ERR_TIMEOUT after limit_ms. */
int gpu_wait(const struct gpu_watch *watch, int (*done)(void *context), void *context, int limit_ms, int settle_ms,
             uint32_t *gone);

#endif
