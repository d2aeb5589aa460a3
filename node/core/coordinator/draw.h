#ifndef NODE_CORE_COORDINATOR_DRAW_H
#define NODE_CORE_COORDINATOR_DRAW_H
/* The values of a trial that a searcher draws from what other trials have reached (DESIGN 14). */

#include "node/core/coordinator/coordination.h"

/* The values with which this attempt of an experiment that is_drawn begins; they are in this node's log then. A trial keeps its
 * values: they are drawn for its first attempt, from what stands in the log, and each later one takes them over. False: not now, and
 * the attempt does not begin. */
bool draw_attempt(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt, struct fact_draw *out);

#endif
