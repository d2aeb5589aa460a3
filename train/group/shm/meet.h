#ifndef TRAIN_GROUP_SHM_MEET_H
#define TRAIN_GROUP_SHM_MEET_H
/* How the ranks of a host find each other: train/group/handshake.h over abstract Unix sockets. For train/group/shm/group.c. */

#include "train/group/shm/group.h"

/* The descriptors of a rank that has authenticated. */
struct shm_met {
    int socket;
    int area;    /* the memfd handed over by the rank, not checked yet */
    int process; /* a pidfd, readable when the rank's process has ended; -1: none */
};

/* Connects to all other ranks. The descriptors in met[rank] (all -1 for the own rank) then belong to the caller; on failure
 * none do. `listen_fd` and `own_area` stay the caller's. Adds the refused strangers to *refused. 0, or ERR_TIMEOUT or
 * ERR_CLOSED with a sentence in `error`. */
int shm_meet(const struct shm_group_options *options, int listen_fd, int own_area,
             struct shm_met met[SHM_GROUP_RANKS_MAX], uint32_t *refused, char error[SHM_GROUP_ERROR_BYTES]);

#endif
