#ifndef NODE_CORE_COORDINATOR_CUSTOM_H
#define NODE_CORE_COORDINATOR_CUSTOM_H
/* The searcher custom, while its coordinator is this node (DESIGN 14): a program of the user's is told of events in the order of the log,
 * one at a time, and each answer is written with its event.
 *
 *      NONE --start--> STARTING --it speaks--> READY --an event--> ASKED --its answer--> READY
 *        ^                |                      |                   |
 *        '----------------'--- it is gone, too slow, or wrong -------'
 *
 * A program that is started has no state: it is told of all events of the log again, each with the answer that is recorded. */

#include "node/core/coordinator/coordination.h"

/* Starts, asks and ends the program, as the records want it. */
void custom_follow(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment);

/* Ends the program: this node does not coordinate, or nothing is left to decide. */
void custom_leave(struct node_core *core, struct core_coordination *coordination);

/* Takes NODE_EVENT_SEARCHER_... */
void custom_receive(struct node_core *core, const struct node_event *event);

/* Why no trial is created now, one sentence; false: the program is well. */
bool custom_reason(const struct view_experiment *experiment, char *out, size_t size);

#endif
