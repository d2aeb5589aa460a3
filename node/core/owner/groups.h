#ifndef NODE_CORE_OWNER_GROUPS_H
#define NODE_CORE_OWNER_GROUPS_H
/* The workers of this node and the groups of their attempts (DESIGN 9). */

#include "node/core/owner/owner.h"

/* MESSAGE_GROUP: the key of a generation. */
void owner_group_take_key(struct node_core *core, const struct message *message);

/* True for a rank that joins a group which trains: it gets its state from the others. */
bool owner_group_joins(const struct view_attempt *attempt, uint32_t rank);

/* True while the worker is in no group and waits for one, by its own report or by the disk's record. */
bool owner_group_waits(const struct core_worker *worker);

/* What the record of a worker found alive says of its group; `waits`: the record says that the worker is in no group. */
void owner_group_adopt(struct core_worker *worker, bool waits);

/* A worker that runs: from one group of its attempt to the next. */
void owner_group_follow(struct node_core *core, uint32_t slot, const struct view_attempt *attempt, uint32_t rank);

/* NODE_EVENT_WORKER_LISTENS of a worker that has a process. */
void owner_group_listens(struct node_core *core, const struct node_event *event);

/* True while all workers of the group are to save and leave. */
bool owner_group_is_stopping(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_attempt *attempt);

#endif
