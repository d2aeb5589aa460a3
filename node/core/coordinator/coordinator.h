#ifndef NODE_CORE_COORDINATOR_COORDINATOR_H
#define NODE_CORE_COORDINATOR_COORDINATOR_H
/* What the parts of a coordinator share; others have node/core/ground/state.h.
 *
 *   coordinator.c  who coordinates, and one experiment from tick to tick
 *   attempts.c     how attempts that live look, when one is over, its verdict
 *   elastic.c      the group of an attempt from one generation to the next
 *   gangs.c        groups of slots on their way
 *   placing.c      which trial begins next, and where */

#include "node/core/ground/state.h"

/* ---- coordinator.c ---- */

/* To an owner, who may be this node itself. */
void coordinator_ask_owner(struct node_core *core, node_id owner, const struct message *message);
const char *coordinator_name(const struct view_experiment *experiment); /* for the trace */
bool coordinator_has_left(const struct node_core *core, node_id node);
bool coordinator_is_out(const struct node_core *core, node_id node); /* was a member once and is none now */

/* True on the side of a partition that starts nothing new: with less than half of the roster, at half without its
 * lowest id. What runs there goes on. */
bool coordinator_minority_pauses(const struct node_core *core, const struct view_experiment *experiment);

/* ---- attempts.c ---- */

/* What the coordinator sees of the members of one attempt. */
struct attempt_sight {
    uint32_t completed, failed, stopped, lost; /* by their owners' word */
    uint32_t away;                             /* not ended, and their node is lost (DESIGN 6) */
    uint32_t unsure;                           /* not ended, and their node does not answer, or may not */
    uint32_t overdue;                          /* ... of these: for longer than patience lasts */
    uint32_t idle;                             /* not ended, but the slot is not leased to it (yet, or any more) */
    bool heard_since_failure;                  /* every other member's node has spoken since */
};

/* What was noticed about an attempt, made if nothing was so far; NULL when memory is full. Those that a pass over the
 * experiment did not look at are forgotten after it. */
struct core_watch *attempts_watch(struct node_core *core, struct core_coordination *coordination,
                                  const attempt_id *attempt);
void attempts_forget(struct node_core *core, struct core_coordination *coordination);

/* This node coordinates from now on, perhaps again: what it noticed before was long ago. What it measured stands. */
void attempts_begin_anew(const struct node_core *core, struct core_coordination *coordination);

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

/* ---- elastic.c ---- */

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

/* ---- gangs.c ---- */

bool gangs_has(const struct core_coordination *coordination, const attempt_id *attempt);
bool gangs_begins(const struct core_coordination *coordination, const attempt_id *attempt); /* all its slots, not more of them */
/* Asks the first node of whose slots one is missing for all of those; the gang may have come to its end when this returns. */
void gangs_reserve_next(struct node_core *core, const struct view_experiment *experiment, struct core_gang *gang);
void gangs_receive(struct node_core *core, struct core_coordination *coordination, node_id from,
                   const struct message *message);
void gangs_tick(struct node_core *core, struct core_coordination *coordination,
                const struct view_experiment *experiment);
void gangs_unlink(struct core_coordination *coordination, struct core_gang *gang); /* the caller has it then */
void gangs_drop(struct node_core *core, struct core_coordination *coordination);   /* all, with a word to the owners */

/* ---- placing.c ---- */

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
void placing_forget_waits(struct core_coordination *coordination); /* trials wait for places from now on, not since before */
void placing_forget_ranks(struct node_core *core, struct core_coordination *coordination); /* they are computed again */

#endif
