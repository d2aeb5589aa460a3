#ifndef NODE_CORE_COORDINATOR_PLACING_H
#define NODE_CORE_COORDINATOR_PLACING_H
/* Which trial begins next, and where. */

#include "node/core/coordinator/coordination.h"

void placing_back_off(struct node_core *core, node_id node, uint32_t slot, uint64_t ms); /* not asked again for so long */
bool placing_start_one(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment); /* true if it did */

/* More members for a group that has lost some of the slots_per_trial that it was given: it is older than every trial that
 * waits (DESIGN 8); true if it did. */
bool placing_refill_one(struct node_core *core, struct core_coordination *coordination,
                        const struct view_experiment *experiment);

/* More members than that, up to max_slots, when no trial waits for slots; true if it did. */
bool placing_grow_one(struct node_core *core, struct core_coordination *coordination,
                      const struct view_experiment *experiment);

/* What may be running on unreachable nodes alone is given up when patience is over and nothing else is left to do; true
 * if one was. */
bool placing_claim_overdue(struct node_core *core, struct core_coordination *coordination,
                           const struct view_experiment *experiment);
void placing_forget_ranks(struct node_core *core, struct core_coordination *coordination); /* they are computed again */

/* Whether a slot of this kind satisfies what the configuration asks for. */
bool core_slot_fits(enum config_slot_kind wanted, enum fact_slot_kind kind);

#endif
