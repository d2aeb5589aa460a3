#ifndef NODE_CORE_OWNER_RESULTS_H
#define NODE_CORE_OWNER_RESULTS_H
/* What the trials of a search have reached, by the owners of their ranks 0 (DESIGN 14). */

#include "node/core/owner/owner.h"

/* NODE_EVENT_WORKER_RESULT of a worker that runs here: records the result at every rung that the trial has reached with it. A rung of
 * which the trial has a result already is left out: the first report counts. */
void owner_result(struct node_core *core, const struct node_event *event);

#endif
