#ifndef NODE_CORE_OWNER_WORKERS_H
#define NODE_CORE_OWNER_WORKERS_H
/* The workers of this node: prepared, spawned, stopped, ended. */

#include "node/core/owner/owner.h"

/* The one way to another phase: a move that the drawing in owner.h does not have is an error of our own code, and checked. */
void owner_worker_move(struct core_worker *worker, enum core_worker_phase to);

/* The slot has no worker any more: NONE, and all zero. */
void owner_worker_clear(struct core_worker *worker);

/* Does what the records of an experiment ask of its workers here. */
void core_owner_experiment(struct node_core *core, const struct view_experiment *experiment);
void core_owner_worker_event(struct node_core *core, const struct node_event *event); /* PREPARED and WORKER_* */
void core_owner_leave(struct node_core *core);       /* asks every worker to save and leave */
void core_owner_out(struct node_core *core);         /* ends every worker at once */
void core_owner_end_deleted(struct node_core *core); /* ends workers and reservations of deleted experiments */

/* The slot is surely empty: publishes how the worker ended, then that the slot is free. Without memory for that both wait,
 * unless it is lost or the node leaves, and core_owner_housekeep tries again. */
void owner_worker_gone(struct node_core *core, uint32_t slot, enum fact_reason reason, int32_t exit_code,
                       const char *tail);

/* After every call that may end leases: ends what was held under those. */
void owner_perform_changes(struct node_core *core, const struct lease_changes *changes);

#endif
