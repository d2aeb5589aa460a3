#ifndef NODE_CORE_COORDINATOR_WAITING_H
#define NODE_CORE_COORDINATOR_WAITING_H
/* Why a queued trial has not begun: one sentence for users. */

#include "node/core/coordinator/coordination.h"

/* Writes what the trial waits for. The sentence follows from the records, from the members that this node hears, and, on the
 * coordinator, from the coordinator's own waits. It names no time that passes, so it changes only with the cause. False: the
 * trial does not wait, because it runs or has ended, or because the experiment is over; `out` is untouched. Looks at every slot of
 * every node. */
bool waiting_reason(const struct node_core *core, const struct view_experiment *experiment, uint32_t index, char *out, size_t size);

#endif
