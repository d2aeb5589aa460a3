#ifndef NODE_CORE_COPIES_COLLECTION_H
#define NODE_CORE_COPIES_COLLECTION_H
/* Deletes checkpoints that need not be kept, and chunks that no record names. */

#include "node/core/copies/copies.h"

/* Every CORE_RETENTION_MS: asks holders to confirm copies, lets checkpoints go, and collects every CORE_COLLECT_MS. */
void core_collection_housekeep(struct node_core *core);

/* NODE_EVENT_CONFIRMED: a holder has read its copy, or did not answer. */
void core_collection_confirmed(struct node_core *core, const struct node_event *event);

/* True if the holder's copy was damaged or missing, or no answer came, less than CORE_CONFIRM_RETRY_MS ago. */
bool core_copy_is_doubtful(const struct node_core *core, hash256 blob, node_id node);

/* True if the holder itself answered less than CORE_CONFIRM_FRESH_MS ago that chunks of the copy are missing. */
bool core_copy_is_missing(const struct node_core *core, hash256 blob, node_id node);

/* A manifest came in: the named holders have a copy again, even after an answer that chunks are missing. */
void core_collection_told(struct node_core *core, const struct record *record);

/* An attempt could not start with its checkpoint or with its files: asks every recorded holder to confirm its copy of these,
 * CORE_CONFIRMS_MAX holders at a time. While fewer are asked, holders of what the next attempt may begin with are asked, too. */
void core_collection_doubt(struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt);

#endif
