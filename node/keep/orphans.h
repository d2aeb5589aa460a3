#ifndef NODE_KEEP_ORPHANS_H
#define NODE_KEEP_ORPHANS_H
/* Processes that outlive a killed shoal-keep: the kernel has ended the worker itself, but not what the worker had started. */

#include <stddef.h>

#include "base/id.h"

/* Sends SIGKILL to each process of this user with the token of the run in its environment (SHOAL_TOKEN, which children
 * inherit), and returns how many there were. Call it again until it returns 0: a process may fork meanwhile. A process that
 * has replaced its whole environment is not found. One pass over /proc: some milliseconds. */
size_t keep_orphans_end(const lease_token *token);

#endif
