#ifndef NODE_CORE_OWNER_USAGE_H
#define NODE_CORE_OWNER_USAGE_H
/* How long the slots of this node are used, by day, user, label and model (struct fact_usage). A slot's time runs from the lease to
 * the end of its worker, also while the daemon makes the worker's directory or kills the worker; a suspend does not count. A node
 * counts if its version says so (FACT_READS_USAGE). The records have what a node had counted up to CORE_USAGE_MS ago, or up to
 * CORE_USAGE_END_MS ago once a worker has ended: so much is lost where a daemon ends without leaving the mesh, and so is the time until the
 * next one begins. */

#include "node/core/owner/owner.h"

/* Counts the time of all slots, and writes it where that is due. */
void usage_housekeep(struct node_core *core);

/* The worker of the slot is gone, and the slot is about to be free. */
void usage_ended(struct node_core *core, uint32_t slot, enum fact_reason reason);

/* This node has learned of records of its own that its disk did not have. */
void usage_restate(struct node_core *core);

#endif
