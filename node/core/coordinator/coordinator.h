#ifndef NODE_CORE_COORDINATOR_COORDINATOR_H
#define NODE_CORE_COORDINATOR_COORDINATOR_H
/* Which node coordinates an experiment, and one experiment from tick to tick (DESIGN 7). */

#include "node/core/coordinator/coordination.h"

/* INCUMBENT_ASK, INCUMBENT_ANSWER, RESERVE_ANSWER, CONFIRM_ANSWER and STALE. */
void core_coordinator_receive(struct node_core *core, node_id from, const struct message *message);
void core_coordinator_experiment(struct node_core *core, struct view_experiment *experiment); /* its records have changed */
void core_coordinator_housekeep(struct node_core *core);
void core_coordinator_led(struct node_core *core, experiment_id experiment, uint64_t term); /* the claim is on disk */
void core_coordinator_leave(struct node_core *core); /* this node leaves: hands over what it coordinates */
void core_coordinator_out(struct node_core *core);   /* this node is out: stops, and tells no other node */
void core_coordinator_forget(struct node_core *core, experiment_id experiment);

/* The highest claim to the experiment that this node has heard of; zero if it has not looked after the experiment. */
struct election_claim core_coordinator_highest(const struct node_core *core, experiment_id experiment);

/* Sends to an owner, which may be this node itself. */
void coordinator_ask_owner(struct node_core *core, node_id owner, const struct message *message);
const char *coordinator_name(const struct view_experiment *experiment); /* for the trace; "?" if it is unknown */
bool coordinator_has_left(const struct node_core *core, node_id node);
bool coordinator_is_out(const struct node_core *core, node_id node); /* was a member once and is none now */

/* True on the side of a partition that starts nothing new: with less than half of the roster, at half without its
 * lowest id. What runs there goes on. */
bool coordinator_minority_pauses(const struct node_core *core, const struct view_experiment *experiment);

#endif
