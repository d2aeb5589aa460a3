#ifndef NODE_CORE_COPIES_COLLECTION_H
#define NODE_CORE_COPIES_COLLECTION_H
/* Checkpoints that are kept no longer, and chunks that no checkpoint names. */

#include "node/core/copies/copies.h"

void core_collection_housekeep(struct node_core *core);
void core_collection_confirmed(struct node_core *core, const struct node_event *event); /* NODE_EVENT_CONFIRMED */

/* True if this holder lately could not confirm that its copy is whole. */
bool core_copy_is_doubtful(const struct node_core *core, hash256 blob, node_id node);

/* True if this holder lately answered that it has not all of it. */
bool core_copy_is_missing(const struct node_core *core, hash256 blob, node_id node);

/* A manifest was taken in: the holders that it names have got a copy since they were asked. */
void core_collection_told(struct node_core *core, const struct record *record);

/* An attempt could not start with its checkpoint: every recorded holder of that or an older one is asked whether it has it. */
void core_collection_doubt(struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt);

#endif
