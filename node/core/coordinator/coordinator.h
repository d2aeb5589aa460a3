#ifndef NODE_CORE_COORDINATOR_COORDINATOR_H
#define NODE_CORE_COORDINATOR_COORDINATOR_H
/* Elections, and the coordinator of an experiment from tick to tick (DESIGN 7). */

#include "node/core/coordinator/coordination.h"

/* Takes INCUMBENT_ASK, INCUMBENT_ANSWER, RESERVE_ANSWER, CONFIRM_ANSWER and STALE. */
void core_coordinator_receive(struct node_core *core, node_id from, const struct message *message);

/* After a change of the experiment's records or of the mesh's members: follows the election, and coordinates if we lead. */
void core_coordinator_experiment(struct node_core *core, struct view_experiment *experiment);

/* Marks every unsettled experiment as changed, so that settle (roof/step.c) looks at it within the step. */
void core_coordinator_housekeep(struct node_core *core);

/* The same for the experiments that this node leads, after a slot of any node has become free: a trial may wait for the slot. */
void core_coordinator_slot_freed(struct node_core *core);

/* Our claim with `term` is on the disk: the node leads, unless another claim has overtaken it on the way. */
void core_coordinator_led(struct node_core *core, experiment_id experiment, uint64_t term);

/* The node leaves the mesh: hands over every experiment under its coordination. */
void core_coordinator_leave(struct node_core *core);

/* The node is out of the mesh: drops all gangs, keys and claims without a message. */
void core_coordinator_out(struct node_core *core);

/* The experiment is deleted: frees the whole row. */
void core_coordinator_forget(struct node_core *core, experiment_id experiment);

/* The highest known claim to the experiment; zero: no claim, or no row of the experiment. */
struct election_claim core_coordinator_highest(const struct node_core *core, experiment_id experiment);

/* Sends a message to an owner. If we are the owner, the answer is taken before the call returns. */
void coordinator_ask_owner(struct node_core *core, node_id owner, const struct message *message);

/* The experiment's name for event lines; "?" without an experiment or without the record. Borrowed from the view. */
const char *coordinator_name(const struct view_experiment *experiment);

/* True if the node has left the mesh, by the node's own record. */
bool coordinator_has_left(const struct node_core *core, node_id node);

/* True if the node was a member once and is none now. */
bool coordinator_is_out(const struct node_core *core, node_id node);

/* True if the experiment has not begun, and waits for another one or for its time (view_experiment_wait). */
bool coordinator_waits(const struct node_core *core, const struct view_experiment *experiment);

/* True on the side of a partition that starts nothing new: with less than half of the roster; at half without the lowest id of
 * the roster. Running attempts go on there. False unless the experiment asks for pause_minority. */
bool coordinator_minority_pauses(const struct node_core *core, const struct view_experiment *experiment);

#endif
