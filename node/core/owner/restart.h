#ifndef NODE_CORE_OWNER_RESTART_H
#define NODE_CORE_OWNER_RESTART_H
/* Workers and slots of the last boot, as a new boot finds them. */

#include "node/core/owner/owner.h"

/* NODE_EVENT_ADOPT: takes over a worker that is alive. Without a lease in the slot's record the worker is killed in
 * core_owner_start. Ignored for an unknown slot and for a slot that has a worker. */
void core_owner_adopt(struct node_core *core, const struct node_event *event);

/* NODE_EVENT_START: publishes every slot and adopted worker under this boot, and the end of every worker that did not survive;
 * slots withheld in the last boot are withheld again. */
void core_owner_start(struct node_core *core);

/* Publishes every slot and worker again: the node has caught up, or writes under a new boot. */
void core_owner_restate(struct node_core *core);

#endif
