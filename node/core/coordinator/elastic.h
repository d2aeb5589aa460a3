#ifndef NODE_CORE_COORDINATOR_ELASTIC_H
#define NODE_CORE_COORDINATOR_ELASTIC_H
/* The group of an attempt from one generation to the next (DESIGN 9). */

#include "node/core/coordinator/attempts.h"

/* Looks after the group of a living attempt whose program can change its group. True: there is nothing to judge, or it
 * was judged. */
bool elastic_follow(struct node_core *core, struct core_coordination *coordination,
                    const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_attempt *attempt, const struct attempt_sight *sight, struct core_watch *watch);

/* How many more members it could have, up to `size`. */
uint32_t elastic_wants(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment, const struct view_attempt *attempt, uint32_t size);

/* Behind all that were ever given in this attempt. */
uint32_t elastic_next_number(const struct view_attempt *attempt);

/* The members of a gang that joins an attempt get their numbers and are named in its record. */
bool elastic_record_joiners(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang);
void elastic_drop(struct node_core *core, struct core_coordination *coordination); /* it leads no more */

/* A generation's record is on disk: the owners of its members are sent the group key. */
void core_coordinator_grouped(struct node_core *core, const attempt_id *attempt, struct record_version version);

#endif
