#ifndef TRAIN_GROUP_SHM_MEET_H
#define TRAIN_GROUP_SHM_MEET_H
/* How the ranks of one host find each other: train/group/handshake.h over abstract Unix sockets. For
 * train/group/shm/group.c. */

#include "train/group/shm/group.h"

struct shm_met {
    int socket;
    int area;    /* the memfd that it handed over, not looked at yet */
    int process; /* a pidfd that becomes readable when its process ends; -1 where there is none */
};

/* Connects to all other ranks: met[rank] of each (all -1 for the own rank) belongs to the caller then; on failure
 * nothing does. `listen_fd` and `own_area` stay the caller's. Adds to *refused. 0, or ERR_TIMEOUT or ERR_CLOSED with a
 * sentence in `error`. */
int shm_meet(const struct shm_group_options *options, int listen_fd, int own_area,
             struct shm_met met[SHM_GROUP_RANKS_MAX], uint32_t *refused, char error[SHM_GROUP_ERROR_BYTES]);

#endif
