#ifndef NODE_CORE_COPIES_CHECKPOINTS_H
#define NODE_CORE_COPIES_CHECKPOINTS_H
/* Checkpoints on their way to other nodes, and their repair. */

#include "node/core/copies/copies.h"

void core_checkpoints_saved(struct node_core *core, const struct node_event *event);  /* NODE_EVENT_CHECKPOINT */
void core_checkpoints_pushed(struct node_core *core, const struct node_event *event); /* NODE_EVENT_PUSHED */

/* A worker has gone while copies of what it saved are still on their way. The next attempt begins there, and a completed trial
 * ends with it, so the manifest is published now with the holders so far, and again when the copies have arrived. */
void core_checkpoints_ended(struct node_core *core, const attempt_id *attempt);
void core_checkpoints_housekeep(struct node_core *core);
void core_checkpoints_forget(struct node_core *core, experiment_id experiment);
void core_checkpoints_fetched(struct node_core *core, experiment_id experiment); /* the code of the experiment is on this disk now */

/* The manifest of a step is on disk: the worker in the slot is told that the step is durable. */
void core_checkpoints_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step);

/* As view_manifest_unite, with the holders first that live and are not known to have lost their copy. */
const struct view_manifest *core_checkpoints_unite(const struct node_core *core, const struct view_manifest *first,
                                                   struct view_manifest *out);

/* The first checkpoint at `*row` or behind it that some node holds, united; `*row` is then behind it. False: there is none. */
bool core_checkpoints_next(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out);

/* The newest checkpoint of a trial that a living node holds, or NULL. */
const struct view_manifest *core_checkpoints_newest(const struct node_core *core, const struct view_trial *trial);

/* True if a holder of a newer checkpoint was declared dead less than CORE_REFUTE_MS ago: if it lives it refutes that soon. */
bool core_checkpoints_may_return(const struct node_core *core, const struct view_trial *trial);

#endif
