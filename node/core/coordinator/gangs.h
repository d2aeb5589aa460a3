#ifndef NODE_CORE_COORDINATOR_GANGS_H
#define NODE_CORE_COORDINATOR_GANGS_H
/* Gangs: groups of slots on the way to an attempt (DESIGN 8). */

#include "node/core/coordinator/coordination.h"

/* True if a gang is on the way to the attempt. */
bool gangs_has(const struct core_coordination *coordination, const attempt_id *attempt);

/* True if the gang of a new attempt is on the way; false for joining members. */
bool gangs_begins(const struct core_coordination *coordination, const attempt_id *attempt);

/* Makes a gang of 1 ... FACT_MEMBERS_MAX members in the order (node, slot). The gang is RESERVING, and no owner is asked yet.
 * Owned by the experiment's list. NULL when memory is full. */
struct core_gang *gangs_make(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt,
                             const struct fact_assignment *members, uint32_t member_count);

/* Asks the first node with an unreserved slot of the gang for all of its slots. The gang may be over and freed when the call
 * returns: if we are the owner, the answer is taken at once. */
void gangs_reserve_next(struct node_core *core, const struct view_experiment *experiment, struct core_gang *gang);

/* Takes RESERVE_ANSWER and CONFIRM_ANSWER of an owner. */
void gangs_receive(struct node_core *core, struct core_coordination *coordination, node_id from,
                   const struct message *message);

/* Asks again where an answer is missing, and gives up gangs whose time is over or that are not wanted any more. */
void gangs_tick(struct node_core *core, struct core_coordination *coordination,
                const struct view_experiment *experiment);

/* Ends all gangs without a message to the owners. */
void gangs_forget(struct node_core *core, struct core_coordination *coordination);

/* Gives up all gangs: the owners are told, and recorded attempts get a verdict. */
void gangs_drop(struct node_core *core, struct core_coordination *coordination);

/* `version` of an attempt's record, or of the record of the joiners, is on the disk: the gang goes on to CONFIRMING. */
void core_coordinator_assigned(struct node_core *core, const attempt_id *attempt, struct record_version version);

#endif
