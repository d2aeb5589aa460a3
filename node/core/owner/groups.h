#ifndef NODE_CORE_OWNER_GROUPS_H
#define NODE_CORE_OWNER_GROUPS_H
/* The workers of this node and the groups of their attempts (DESIGN 9). */

#include "node/core/owner/owner.h"

/* MESSAGE_GROUP: keeps the key of a generation for every worker of the attempt here. */
void owner_group_take_key(struct node_core *core, const struct message *message);

/* True for a rank that joins a running group: the worker gets its state from the members, not from a checkpoint. */
bool owner_group_joins(const struct view_attempt *attempt, uint32_t rank);

/* True while the worker waits for a group (WAITS or UNHEARD). */
bool owner_group_waits(const struct core_worker *worker);

/* Sets the group state of an adopted worker. `waits`: by the record on disk the worker is in no group. worker->generation must
 * be set. */
void owner_group_adopt(struct core_worker *worker, bool waits);

/* Leads a RUNNING worker from one group of its attempt to the next. `rank`: in the attempt's present group, or
 * >= member_count for a joiner. */
void owner_group_follow(struct node_core *core, uint32_t slot, const struct view_attempt *attempt, uint32_t rank);

/* NODE_EVENT_WORKER_LISTENS, for a worker that has a process. */
void owner_group_listens(struct node_core *core, const struct node_event *event);

/* True while all workers of the group are to save and leave. Follows from the records alone, so that all owners and the
 * coordinator agree. */
bool owner_group_is_stopping(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_attempt *attempt);

#endif
