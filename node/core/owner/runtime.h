#ifndef NODE_CORE_OWNER_RUNTIME_H
#define NODE_CORE_OWNER_RUNTIME_H
/* max_runtime: for how long a trial has run, and the end of that time (DESIGN 7). */

#include "node/core/owner/owner.h"

struct core_pending;

/* The owner of a running rank 0 counts: by its own monotonic clock, from the start of the program on, what records tell of earlier
 * attempts included, and without the time that the node is suspended. It writes that into the worker's record every
 * CORE_RUNTIME_MS, so of an attempt whose node dies that much is not counted at most. At max_runtime it stops the trial. */
void owner_runtime_follow(struct node_core *core, uint32_t slot);

/* Writes the stop or the retry of a trial (struct fact_stop). NULL: no memory. */
struct core_pending *owner_put_stop(struct node_core *core, const struct view_experiment *experiment, uint32_t index, bool stopped,
                                    bool overran);

#endif
