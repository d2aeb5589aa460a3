#ifndef TRAIN_PLAN_HOSTS_H
#define TRAIN_PLAN_HOSTS_H
/* Which ranks of a group share a host, and which rank leads each host. A core: all ranks compute the answer from the same names
 * and so reach the same answer. */

#include <stdbool.h>
#include <stdint.h>

#include "train/plan/plan.h"

#define HOSTS_NAME_BYTES 16

/* An opaque name that all ranks of a host agree on. */
struct host_name {
    uint8_t bytes[HOSTS_NAME_BYTES];
};

/* The lowest rank of a host is its leader. */
struct hosts {
    uint32_t size;
    uint32_t leader[PLAN_RANKS_MAX]; /* of each rank's host; the rank itself if it is alone */
};

/* Groups ranks by names[size]: ranks with the same name share a host; a rank named with all zeros is alone. size: 1 ...
 * PLAN_RANKS_MAX. */
void hosts_init(struct hosts *hosts, uint32_t size, const struct host_name *names);

/* Splits every host with a rank that cannot share memory (shares[rank] is false) into single ranks. */
void hosts_split(struct hosts *hosts, const bool *shares);

/* hosts_around: the ranks on the host of `rank`. hosts_leaders: the leaders of all hosts. Both in rank order; the count is
 * returned. */
uint32_t hosts_around(const struct hosts *hosts, uint32_t rank, uint32_t out[PLAN_RANKS_MAX]);
uint32_t hosts_leaders(const struct hosts *hosts, uint32_t out[PLAN_RANKS_MAX]);

#endif
