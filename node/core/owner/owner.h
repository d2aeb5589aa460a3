#ifndef NODE_CORE_OWNER_OWNER_H
#define NODE_CORE_OWNER_OWNER_H
/* What the parts of an owner share; others have node/core/ground/state.h.
 *
 *   owner.c          the slots of this node: reservations, leases, what it says of them and of the workers in them
 *   owner_workers.c  its workers: prepared, spawned, stopped, ended
 *   owner_restart.c  what a new boot finds of the last one
 *   owner_group.c    its workers and the groups of their attempts */

#include "node/core/ground/state.h"

/* ---- owner.c ---- */

/* What this node says of a slot of its; what waits for that to be on disk, or NULL when memory is full. NULL, too, while it
 * catches up, unless its owner has asked for it in this life: others may hold a newer word of it than its disk, and it shall not
 * replace that unread. Then it is said by core_owner_restate. */
struct core_pending *owner_put_slot(struct node_core *core, uint32_t slot);

/* What this node says of a worker of its; `tail` may be NULL. How it ended is said once. False: there is no memory for it; it
 * is dirty then. */
bool owner_put_worker(struct node_core *core, uint32_t slot, enum fact_worker_state state, enum fact_reason reason,
                      int32_t exit_code, const char *tail);

/* An effect about the worker in this slot, with its name; the rest is for the caller to fill in. */
void owner_worker_effect(struct node_core *core, enum node_effect_kind kind, uint32_t slot, uint32_t grace_ms);

void owner_reservation_return(struct node_core *core, uint32_t slot);

/* ---- owner_workers.c ---- */

/* The slot is surely empty: says how the worker ended, then that the slot is free. Without memory for that both wait,
 * unless it is lost or the node leaves, and core_owner_housekeep tries again. */
void owner_worker_gone(struct node_core *core, uint32_t slot, enum fact_reason reason, int32_t exit_code,
                       const char *tail);

/* After every call that may end leases: what was held under those must end, too. */
void owner_perform_changes(struct node_core *core, const struct lease_changes *changes);

/* ---- owner_group.c ---- */

void owner_group_take_key(struct node_core *core, const struct message *message);

/* True for who joins a group that trains: it gets its state from the others. */
bool owner_group_joins(const struct view_attempt *attempt, uint32_t rank);

/* A worker that runs: from one group of its attempt to the next. */
void owner_group_follow(struct node_core *core, uint32_t slot, const struct view_attempt *attempt, uint32_t rank);

/* NODE_EVENT_WORKER_LISTENS of a worker that has a process. */
void owner_group_listens(struct node_core *core, const struct node_event *event);

#endif
