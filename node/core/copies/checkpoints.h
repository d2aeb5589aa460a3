#ifndef NODE_CORE_COPIES_CHECKPOINTS_H
#define NODE_CORE_COPIES_CHECKPOINTS_H
/* What the two files about copies share; others have node/core/ground/state.h.
 *
 *   replicas.c       checkpoints, what is said of their copies, and how many pieces are under way at once
 *   replicas_code.c  code directories and configuration texts */

#include "node/core/ground/state.h"

/* ---- replicas.c ---- */

bool replicas_list_has(const node_id *list, uint32_t count, node_id node);

/* False while as many copies that nobody waits for are on their way to that node as it may be sent at once. */
bool replicas_may_push_to(const struct node_core *core, node_id to);

/* Something of this experiment is to be done once there is a place: the next look begins with it. */
void replicas_put_off(struct node_core *core, experiment_id experiment);

/* ---- replicas_code.c ---- */

/* In each pass, of every experiment that is known and not over: its code is copied where it is missing. */
void replicas_code_look(struct node_core *core, const struct view_experiment *experiment);

/* Behind each pass: forgets those that were not looked at in it. */
void replicas_code_drop(struct node_core *core);

/* An answer to a push that belongs to no attempt. */
void replicas_code_pushed(struct node_core *core, const struct node_event *event);

void replicas_code_forget(struct node_core *core, experiment_id experiment);

#endif
