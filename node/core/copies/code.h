#ifndef NODE_CORE_COPIES_CODE_H
#define NODE_CORE_COPIES_CODE_H
/* Copies of code directories and configuration texts. */

#include "node/core/copies/copies.h"

/* In each pass, for every experiment that is known and not over: copies its code where it is missing. */
void core_code_look(struct node_core *core, const struct view_experiment *experiment);

/* After each pass: forgets experiments that were not looked at in it. */
void core_code_drop(struct node_core *core);

/* NODE_EVENT_PUSHED for a push that belongs to no attempt. */
void core_code_pushed(struct node_core *core, const struct node_event *event);
void core_code_forget(struct node_core *core, experiment_id experiment);

#endif
