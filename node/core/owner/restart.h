#ifndef NODE_CORE_OWNER_RESTART_H
#define NODE_CORE_OWNER_RESTART_H
/* What a new boot finds of the last one. */

#include "node/core/owner/owner.h"

void core_owner_adopt(struct node_core *core, const struct node_event *event); /* NODE_EVENT_ADOPT */
void core_owner_start(struct node_core *core);

/* The node is in step, or writes under another boot: publishes again what its slots hold. */
void core_owner_restate(struct node_core *core);

#endif
