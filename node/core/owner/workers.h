#ifndef NODE_CORE_OWNER_WORKERS_H
#define NODE_CORE_OWNER_WORKERS_H
/* The workers of this node: prepare, spawn, stop, end. */

#include "node/core/owner/owner.h"

/* The only way to another phase; checks that the move is in the drawing in owner.h. */
void owner_worker_move(struct core_worker *worker, enum core_worker_phase to);

/* Forgets the worker: phase NONE, all zero. */
void owner_worker_clear(struct core_worker *worker);

/* Prepares, spawns, regroups or ends this node's workers of the experiment, as its records require. */
void core_owner_experiment(struct node_core *core, const struct view_experiment *experiment);

/* NODE_EVENT_PREPARED and NODE_EVENT_WORKER_*. Ignored for an attempt that no longer has the slot. */
void core_owner_worker_event(struct node_core *core, const struct node_event *event);

/* False: the attempt's record has other values by now than the worker's program was given. */
bool owner_has_draw(const struct core_worker *worker, const struct view_attempt *attempt);

/* False: the worker of this attempt in the slot is being ended, since the attempt has other values by now. */
bool core_owner_may_save(const struct node_core *core, uint32_t slot, const attempt_id *attempt);

/* Asks every worker to save and leave; a worker whose group can go on without it is ended. */
void core_owner_leave(struct node_core *core);

/* Ends every worker at once: this node is out of the mesh. */
void core_owner_out(struct node_core *core);

/* Ends workers and reservations of deleted experiments. */
void core_owner_end_deleted(struct node_core *core);

/* The worker's processes are surely gone: publishes how the worker ended, then that the slot is free. Without memory for the
 * end the worker becomes GONE, and core_owner_housekeep tries again; a lost worker, or a node that leaves, does not wait. */
void owner_worker_gone(struct node_core *core, uint32_t slot, enum fact_reason reason, int32_t exit_code,
                       const char *tail);

/* Ends the workers whose leases a call of gossip/lease.h has ended; to be called after each call that may end leases. */
void owner_perform_changes(struct node_core *core, const struct lease_changes *changes);

#endif
