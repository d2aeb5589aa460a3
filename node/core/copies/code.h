#ifndef NODE_CORE_COPIES_CODE_H
#define NODE_CORE_COPIES_CODE_H
/* Copies of code directories and configuration texts. */

#include "node/core/copies/copies.h"

/* Copies the code of an experiment to nodes that should have a copy. Called in each repair pass for every known experiment that
 * is not over. */
void core_code_look(struct node_core *core, const struct view_experiment *experiment);

/* After each repair pass: forgets experiments that the pass has not looked at. */
void core_code_drop(struct node_core *core);

/* NODE_EVENT_PUSHED of a push without an attempt. */
void core_code_pushed(struct node_core *core, const struct node_event *event);

/* Forgets a deleted experiment. */
void core_code_forget(struct node_core *core, experiment_id experiment);

#endif
