#ifndef TESTS_SIM_HUNT_H
#define TESTS_SIM_HUNT_H
/* Rules that are broken on purpose (BUG), one at a time, and looked for: in how many seeds each is found, and by which
 * invariant. */

#include <stdbool.h>
#include <stdint.h>

#define HUNT_RANGES_MAX 16

struct hunt_options {
    uint64_t first, seeds, minutes; /* of each range; minutes of virtual time in each seed */
    uint32_t ranges, jobs;          /* processes */
    uint32_t plan_version;          /* 0: the newest and an older one in turns */
    int bug;                        /* -1: all */
    bool leaves_rare;               /* but for those that take many seeds */
};

/* Prints what is found, rule by rule. False if one was not, in some range, or if a seed was met that fails with none broken. */
bool hunt_all(const struct hunt_options *options);

#endif
