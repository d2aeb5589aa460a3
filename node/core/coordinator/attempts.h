#ifndef NODE_CORE_COORDINATOR_ATTEMPTS_H
#define NODE_CORE_COORDINATOR_ATTEMPTS_H
/* How attempts that live look, when one is over, and its verdict. */

#include "node/core/coordinator/coordination.h"

/* What the coordinator sees of the members of one attempt. */
struct attempt_sight {
    uint32_t completed, failed, stopped, lost; /* by their owners' word */
    uint32_t away;                             /* not ended, and their node is lost (DESIGN 6) */
    uint32_t unsure;                           /* not ended, and their node does not answer, or may not */
    uint32_t overdue;                          /* ... of these: for longer than patience lasts */
    uint32_t idle;                             /* not ended, but the slot is not leased to it (yet, or any more) */
    bool heard_since_failure;                  /* every other member's node has spoken since */
};

struct attempt_sight attempts_look(struct node_core *core, const struct view_experiment *experiment,
                                   const struct view_attempt *attempt, const struct core_watch *watch);

/* Ends the attempt if it is over. True while it lives. */
bool attempts_judge(struct node_core *core, struct core_coordination *coordination,
                    const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_attempt *attempt);

/* A rank has failed, and it is known as far as it ever will be whether that was of another's stop or a node's death: in a
 * group over several nodes once the others have ended, too, or left their group, or have had their time for that. */
bool attempts_failure_is_settled(const struct node_core *core, const struct view_experiment *experiment,
                                 const struct view_attempt *attempt, const struct attempt_sight *sight,
                                 const struct core_watch *watch);

/* When one rank was asked to stop, the owners of the others ask theirs, too, and see that they have gone by then. */
uint64_t attempts_stop_ms(const struct view_experiment *experiment);
void attempts_put_verdict(struct node_core *core, const struct view_attempt *attempt, enum fact_reason reason,
                          const char *why);
bool attempts_never_ran(const struct view_attempt *attempt); /* no program of it */
void attempts_renew(struct node_core *core, const struct core_coordination *coordination,
                    const struct view_attempt *attempt);

#endif
