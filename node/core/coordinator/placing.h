#ifndef NODE_CORE_COORDINATOR_PLACING_H
#define NODE_CORE_COORDINATOR_PLACING_H
/* The slots for the next trial, which pending.h names. They are chosen by choice.h. */

#include "node/core/coordinator/choice.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/queue/queue.h"

/* The slot is not asked for again for `ms`. Beyond CORE_BACKOFFS_MAX slots the earliest end is forgotten. */
void placing_back_off(struct node_core *core, node_id node, uint32_t slot, uint64_t ms);

/* Makes a gang for the first pending trial with a place. False: no trial begins now. */
bool placing_start_one(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment);

/* Makes a gang of one more member for a group with fewer than slots_per_trial members. The group is older than every waiting
 * trial, and goes first (DESIGN 8). False: no group gets a member now. */
bool placing_refill_one(struct node_core *core, struct core_coordination *coordination,
                        const struct view_experiment *experiment);

/* The same for a group with fewer than max_slots members, while no trial waits for slots. */
bool placing_grow_one(struct node_core *core, struct core_coordination *coordination,
                      const struct view_experiment *experiment);

/* Gives up an attempt on unreachable nodes alone, once patience is over and nothing else is left to do.
 * True if an attempt was given up. */
bool placing_claim_overdue(struct node_core *core, struct core_coordination *coordination,
                           const struct view_experiment *experiment);

/* The nodes as placing sees them for a trial that begins to wait now. For a gang that may have whole GPUs or MIG devices, the
 * masks are those of the kind with more slots. The snapshot borrows `nodes`. */
struct placing_snapshot placing_look(const struct node_core *core, const struct view_experiment *experiment,
                                     const struct view_trial *trial, struct placing_node nodes[NODE_MEMBERS_MAX]);

/* Writes the sentence on two nodes without a network in common, if the trial could begin now but for that; `snapshot` is
 * placing_look's. False: it waits for something else, or for nothing; `out` is untouched. */
bool placing_apart_reason(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                          const struct placing_snapshot *snapshot, char *out, size_t size);

#endif
