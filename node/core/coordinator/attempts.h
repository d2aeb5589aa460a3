#ifndef NODE_CORE_COORDINATOR_ATTEMPTS_H
#define NODE_CORE_COORDINATOR_ATTEMPTS_H
/* Living attempts: as the coordinator sees them, the end of an attempt, and the verdict. */

#include "node/core/coordinator/coordination.h"

/* The members of an attempt, as the coordinator sees them. */
struct attempt_sight {
    uint32_t completed, failed, stopped, lost; /* ended, by the owners' records */
    uint32_t away;                             /* not ended, on a lost node (DESIGN 6) */
    uint32_t unsure;                           /* not ended; the node does not answer, or was restarted */
    uint32_t overdue;                          /* unsure, and the node has been silent for longer than patience lasts */
    uint32_t idle;                             /* not ended; the slot is not leased to the attempt yet, or any more */
    bool heard_since_failure;                  /* the nodes of all other members have been heard since the first failure */
};

/* Counts the members of an attempt by their condition. */
struct attempt_sight attempts_look(struct node_core *core, const struct view_experiment *experiment,
                                   const struct view_attempt *attempt, const struct core_watch *watch);

/* Puts the verdict of an attempt that is over. True while the attempt lives; true, too, when memory is full. */
bool attempts_judge(struct node_core *core, struct core_coordination *coordination,
                    const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_attempt *attempt);

/* True once nothing more will tell whether a failed rank failed by itself, or as an echo of another rank's stop or of a node's
 * death. In a group over several nodes: once all other ranks have ended or left the group, or the time for that is over. */
bool attempts_failure_is_settled(const struct node_core *core, const struct view_experiment *experiment,
                                 const struct view_attempt *attempt, const struct attempt_sight *sight,
                                 const struct core_watch *watch);

/* How long after the stop of the first rank all ranks have ended: the owners ask the other ranks, too, and then end them. */
uint64_t attempts_stop_ms(const struct view_experiment *experiment);

/* Publishes our verdict; `why` is one sentence. Without memory nothing is published, and the next pass judges the
 * attempt again. */
void attempts_put_verdict(struct node_core *core, const struct view_attempt *attempt, enum fact_reason reason,
                          const char *why);

/* True if no program of the attempt was ever started. */
bool attempts_never_ran(const struct view_attempt *attempt);

/* Asks every owner of the attempt's slots to renew the leases. */
void attempts_renew(struct node_core *core, const struct core_coordination *coordination,
                    const struct view_attempt *attempt);

#endif
