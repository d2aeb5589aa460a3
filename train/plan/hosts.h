#ifndef TRAIN_PLAN_HOSTS_H
#define TRAIN_PLAN_HOSTS_H
/* Which ranks of a group are on one host, and who speaks for them. A core: all ranks compute it from the same words, so all
 * come to the same answer. */

#include <stdbool.h>
#include <stdint.h>

#include "train/plan/plan.h"

#define HOSTS_NAME_BYTES 16

struct host_name {
    uint8_t bytes[HOSTS_NAME_BYTES];
};

/* The lowest rank of a host is its leader. */
struct hosts {
    uint32_t size;
    uint32_t leader[PLAN_RANKS_MAX]; /* of each rank's host; itself where it is alone */
};

/* Ranks with the same name are on one host; who has the name of all zeros is alone. size: 1 ... PLAN_RANKS_MAX. */
void hosts_init(struct hosts *hosts, uint32_t size, const struct host_name *names);

/* Where one rank of a host cannot share, all of that host are alone. */
void hosts_split(struct hosts *hosts, const bool *shares);

/* The ranks of the host that `rank` is on, and the leaders of all hosts, in rank order. Returns how many. */
uint32_t hosts_around(const struct hosts *hosts, uint32_t rank, uint32_t out[PLAN_RANKS_MAX]);
uint32_t hosts_leaders(const struct hosts *hosts, uint32_t out[PLAN_RANKS_MAX]);

#endif
