#ifndef NODE_SLOTS_PROCESSORS_H
#define NODE_SLOTS_PROCESSORS_H
/* How many processors this process may use. A shell: it asks the kernel and reads /proc and the control groups. */

#include <stdint.h>

/* The least of
 *   - the processors of the affinity mask, which a cpuset narrows too,
 *   - the processor quota of the control group of this process and of each group above it, rounded up: cpu.max (version 2) or
 *     cpu.cfs_quota_us and cpu.cfs_period_us (version 1).
 * At least 1. It is read anew each time, since a quota may change. */
uint32_t processors_usable(void);

/* The processors of the affinity mask alone; where it cannot be read, those of the machine. At least 1. */
uint32_t processors_allowed(void);

/* The quota alone, in whole processors; UINT32_MAX: none. `proc` is the directory with the files cgroup and mountinfo:
 * /proc/self, or one that a test has made. */
uint32_t processors_quota(const char *proc);

#endif
