#ifndef NODE_CORE_COORDINATOR_GANGS_H
#define NODE_CORE_COORDINATOR_GANGS_H
/* Gangs: groups of slots on their way to an attempt (DESIGN 8). */

#include "node/core/coordinator/coordination.h"

bool gangs_has(const struct core_coordination *coordination, const attempt_id *attempt);
bool gangs_begins(const struct core_coordination *coordination, const attempt_id *attempt); /* all its slots, not more of them */

/* A new gang of the experiment, RESERVING; its owners are not asked yet. Counted, and NULL, when memory is full. */
struct core_gang *gangs_make(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt,
                             const struct fact_assignment *members, uint32_t member_count);

/* Asks the first node of whose slots one is missing for all of those; the gang may have come to its end when this returns. */
void gangs_reserve_next(struct node_core *core, const struct view_experiment *experiment, struct core_gang *gang);
void gangs_receive(struct node_core *core, struct core_coordination *coordination, node_id from,
                   const struct message *message);
void gangs_tick(struct node_core *core, struct core_coordination *coordination,
                const struct view_experiment *experiment);
void gangs_forget(struct node_core *core, struct core_coordination *coordination); /* all, without a word to anybody */
void gangs_drop(struct node_core *core, struct core_coordination *coordination);   /* all, with a word to the owners */

/* An attempt's record is on disk: its gang goes on. */
void core_coordinator_assigned(struct node_core *core, const attempt_id *attempt, struct record_version version);

#endif
