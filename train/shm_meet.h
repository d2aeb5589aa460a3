#ifndef TRAIN_SHM_MEET_H
#define TRAIN_SHM_MEET_H
/* How the ranks of one host find each other: the handshake that the top of train/shm_group.h tells. For train/shm_group.c. */

#include "train/shm_group.h"

/* Connects to all other ranks: sockets[rank] and areas[rank] of each (-1 for the own rank) belong to the caller then; on
 * failure nothing does. `listen_fd` and `own_area` stay the caller's. Adds to *refused. 0, or ERR_TIMEOUT or ERR_CLOSED with a sentence
 * in `error`. */
int shm_meet(const struct shm_group_options *options, int listen_fd, int own_area, int sockets[SHM_GROUP_RANKS_MAX],
             int areas[SHM_GROUP_RANKS_MAX], uint32_t *refused, char error[SHM_GROUP_ERROR_BYTES]);

#endif
