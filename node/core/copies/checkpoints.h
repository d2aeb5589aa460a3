#ifndef NODE_CORE_COPIES_CHECKPOINTS_H
#define NODE_CORE_COPIES_CHECKPOINTS_H
/* Copies of checkpoints on other nodes: saves, repairs and checks; and which copy to use. */

#include "node/core/copies/copies.h"

/* NODE_EVENT_CHECKPOINT: sends the checkpoint to as many nodes as copies are wanted besides this node's own. */
void core_checkpoints_saved(struct node_core *core, const struct node_event *event);

/* NODE_EVENT_PUSHED: a node has, or has refused, a checkpoint or code. */
void core_checkpoints_pushed(struct node_core *core, const struct node_event *event);

/* A worker of the attempt is about to end. Its last checkpoint may still be on its way to other nodes, but the next attempt
 * begins there, or the completed trial ends there: so the manifest is published now with the holders so far, and again once the
 * copies have arrived. */
void core_checkpoints_ended(struct node_core *core, const attempt_id *attempt);

/* Every CORE_REPAIR_MS, or earlier if something was put off: publishes slow saves, and begins repairs, checks and pushes of
 * code. */
void core_checkpoints_housekeep(struct node_core *core);

/* Drops the pushes of a deleted experiment. */
void core_checkpoints_forget(struct node_core *core, experiment_id experiment);

/* The code of the experiment is on this node's disk now: copies of it may be made. */
void core_checkpoints_fetched(struct node_core *core, experiment_id experiment);

/* The manifest of a step is on disk: the worker in the slot is told that the step is durable. Of a part of the checkpoint `set`
 * (fact_part_name; none: the whole checkpoint) the worker is told once all parts are durable. */
void core_checkpoints_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step, hash256 set);

/* True if a living node has a copy of the checkpoint, or of each of its parts, and has not answered that chunks are missing. */
bool core_checkpoint_is_there(const struct node_core *core, const struct view_manifest *checkpoint);

/* As view_manifest_unite, with good holders first: alive, and not known to have lost the copy or a part of it. */
const struct view_manifest *core_checkpoints_unite(const struct node_core *core, const struct view_manifest *first,
                                                   struct view_manifest *out);

/* The first checkpoint at `*row` or later that has a holder, united in `*out`; `*row` is then the row after the checkpoint.
 * False: there is none, and `*out` is of no use. */
bool core_checkpoints_next(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out);

/* The newest checkpoint of a trial with a copy on a living node that has not answered that chunks are missing, or NULL. */
const struct view_manifest *core_checkpoints_newest(const struct node_core *core, const struct view_trial *trial);

/* The checkpoint that the trial's next attempt begins with: its own newest one, else, of pbt, the newest one of its parent. NULL: it begins
 * from nothing, or `*is_awaited`: a node with a checkpoint of the parent may return, as of core_checkpoints_may_return. */
const struct view_manifest *core_checkpoints_beginning(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial,
                                                       bool *is_awaited);

/* True if a holder of a newer checkpoint, or of newer kept files, was declared dead less than CORE_REFUTE_MS ago: a living node
 * refutes its death within that time. */
bool core_checkpoints_may_return(const struct node_core *core, const struct view_trial *trial);

#endif
