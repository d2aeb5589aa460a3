#ifndef NODE_KEEP_MEMORY_H
#define NODE_KEEP_MEMORY_H
/* Whether the kernel ended a process for want of memory, by the kernel's own counters. They name no process, so they are
 * read once a second: only a kill within the last two seconds before the worker's death is taken for the worker's. */

#include <stdbool.h>
#include <stdint.h>

/* Why the kernel killed the worker. */
enum keep_memory_cause {
    KEEP_MEMORY_NONE,  /* it did not, or that is not known */
    KEEP_MEMORY_LIMIT, /* the control group had reached its memory limit */
    KEEP_MEMORY_MACHINE
};

/* The counters at one moment. */
struct keep_memory {
    bool has_group;        /* the memory counters of this process's control group can be read (version 1 or 2) */
    uint64_t group_kills;  /* processes of the group that were killed for want of memory */
    uint64_t group_limits; /* version 2: how often the group was at its limit */
    bool was_at_limit;     /* version 1: the group was at its limit some time */
    bool has_machine;
    uint64_t machine_kills; /* processes of the whole machine that were killed for want of memory */
};

/* Reads the counters of this process's control group, which is the worker's, too. */
void keep_memory_read(struct keep_memory *out);

/* The cause if the worker was killed by SIGKILL between the two readings. */
enum keep_memory_cause keep_memory_compare(const struct keep_memory *before, const struct keep_memory *after);

#endif
