#ifndef NODE_CORE_COORDINATOR_PROMOTION_H
#define NODE_CORE_COORDINATOR_PROMOTION_H
/* A search that promotes paused trials, while its coordinator is this node (DESIGN 14): what its log says next, the pauses that follow
 * from it, and which promoted trials begin. */

#include "node/core/coordinator/coordination.h"

/* Adds to the draft what follows from the state alone: one promotion, or all that is to be closed; else what `result` of the attempt at the
 * rung means (attempt NULL: none waits), or which trials have ended without one. So each record follows from the records before it. */
void promotion_draft(const struct view_experiment *experiment, const attempt_id *attempt, uint32_t rung, const struct fact_result *result,
                     struct fact_search_log *draft);

/* Pauses what still runs of trials that are paused by the log, as far as the step has room. */
void promotion_pause_trials(struct node_core *core, const struct view_experiment *experiment);

/* A trial that was promoted and waits for slots. */
bool promotion_waits(const struct view_experiment *experiment, uint32_t trial);

#endif
