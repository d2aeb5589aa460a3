#ifndef NODE_CORE_COORDINATOR_ELASTIC_H
#define NODE_CORE_COORDINATOR_ELASTIC_H
/* The group of an attempt from one generation to the next (DESIGN 9). */

#include "node/core/coordinator/attempts.h"

/* Looks after the group of a living attempt, if the program can change groups. True: there is nothing to judge, or the attempt
 * has been judged. False: the caller judges the attempt, like the attempt of a program without that ability. */
bool elastic_follow(struct node_core *core, struct core_coordination *coordination,
                    const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_attempt *attempt, const struct attempt_sight *sight, struct core_watch *watch);

/* How many more members the attempt's group could have now, up to `size` members; 0 while no joiner may be asked. */
uint32_t elastic_wants(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment, const struct view_attempt *attempt, uint32_t size);

/* The number of the attempt's next joiner: above every number ever given in the attempt. */
uint32_t elastic_next_number(const struct view_attempt *attempt);

/* Numbers the members of a joining gang, and puts the record of the attempt's group with these joiners. False: too many members
 * for one attempt, or memory is full. */
bool elastic_record_joiners(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang);

/* The node leads no longer: drops all group keys. */
void elastic_drop(struct node_core *core, struct core_coordination *coordination);

/* `version` of a generation's record is on the disk: sends the group key to the owners of the members. */
void core_coordinator_grouped(struct node_core *core, const attempt_id *attempt, struct record_version version);

#endif
